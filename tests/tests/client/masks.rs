//! Masks and texts of ids, the same in a service as in the server.

use leaf_sdk::{Config, Error, Leaf, MaskWidth, SegmentId, asynchronous, sync};
use leaf_tests::{Draw, Server};

fn handle(server: &Server) -> Leaf {
    let config = Config::new(&server.connection_string()).expect("a configuration");
    Leaf::new(config).expect("a handle")
}

#[test]
fn a_service_masks_as_the_server_does() {
    let (server, mut client) = Server::with_orders(1000);
    let leaf = handle(&server);
    for width in [MaskWidth::Bits53, MaskWidth::Bits63] {
        let mask = leaf.mask("orders", width).expect("a mask");
        assert_eq!((mask.version(), mask.width()), (1, width));
        for id in [0, 1, 1001, width.max()] {
            let bits = width.bits();
            let masked = client.number(&format!("SELECT leaf_mask('orders', {id}, {bits})"));
            assert_eq!(mask.mask(SegmentId::new(id)).expect("it fits"), masked);
            let back: SegmentId = mask.unmask(masked).expect("it fits");
            assert_eq!(back.get(), id);
        }
        assert!(matches!(mask.mask(-1), Err(Error::Argument(_))));
    }
    // After a rotation, both versions can be had.
    let first = leaf.mask("orders", MaskWidth::Bits63).expect("a mask");
    assert_eq!(
        sync::mask_rotate(&mut client, "orders").expect("a version"),
        2
    );
    let second = leaf.mask("orders", MaskWidth::Bits63).expect("a mask");
    assert_eq!(second.version(), 2);
    assert_ne!(
        first.mask(7).expect("it fits"),
        second.mask(7).expect("it fits")
    );
    let earlier = sync::mask(&mut client, "orders", MaskWidth::Bits63, Some(1)).expect("a mask");
    assert_eq!(
        earlier.mask(7).expect("it fits"),
        first.mask(7).expect("it fits")
    );
}

#[test]
fn a_mask_is_for_those_who_may_draw() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("CREATE ROLE stranger LOGIN");
    let config = server
        .connection_string()
        .replace("user=postgres", "user=stranger");
    let leaf = Leaf::new(Config::new(&config).expect("a configuration")).expect("a handle");
    let refused = leaf.mask("orders", MaskWidth::Bits63);
    assert!(matches!(refused, Err(Error::Permission(_))), "{refused:?}");
    let unknown = leaf.mask("nosuch", MaskWidth::Bits63);
    assert!(matches!(unknown, Err(Error::UnknownTag(_))), "{unknown:?}");
    leaf.close().expect("an end");
    let closed = leaf.mask("orders", MaskWidth::Bits63);
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

#[test]
fn both_drivers_fetch_the_mask() {
    let (server, mut client) = Server::with_orders(1000);
    let masked = client.number("SELECT leaf_mask('orders', 7)");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let of_async = runtime.block_on(async {
        let leaf = handle(&server);
        let mask = leaf.mask_async("orders", MaskWidth::Bits63).await;
        assert_eq!(mask.expect("a mask").mask(7).expect("it fits"), masked);
        let config = server.connection_string();
        let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls)
            .await
            .expect("a connection");
        tokio::spawn(connection);
        asynchronous::mask(&client, "orders", MaskWidth::Bits63, None).await
    });
    assert_eq!(of_async.expect("a mask").mask(7).expect("it fits"), masked);
}

#[test]
fn texts_are_the_servers() {
    let server = Server::start();
    let mut client = server.connect();
    let ids = client.numbers("SELECT leaf_snowflake_batch(100)");
    for id in ids {
        let text = client.text(&format!("SELECT leaf_id_text({id})"));
        assert_eq!(SegmentId::new(id).text(), Some(text.clone()));
        assert_eq!(SegmentId::from_text(&text), Ok(SegmentId::new(id)));
    }
}
