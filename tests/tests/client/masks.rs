//! Masks and texts of ids, the same in a service as in the server.

use leaf_sdk::{Mask, MaskWidth, SegmentId};
use leaf_tests::{Draw, Server};

#[test]
fn a_service_masks_as_the_server_does() {
    let server = Server::start();
    let mut client = server.connect();
    let key = [0xC0; 32];
    for width in [MaskWidth::Bits53, MaskWidth::Bits63, MaskWidth::Bits64] {
        let mask = Mask::new(&key, width);
        assert_eq!(mask.width(), width);
        let bits = width.bits();
        for id in [0, 1, 1001, (1 << 53) - 1] {
            let masked = client.number(&format!(
                "SELECT leaf_mask({id}, decode(repeat('c0', 32), 'hex'), {bits})"
            ));
            assert_eq!(mask.mask(SegmentId::new(id)).expect("it fits"), masked);
            let back: SegmentId = mask.unmask(masked).expect("it fits");
            assert_eq!(back.get(), id);
        }
        assert_eq!(mask.mask(-1).is_ok(), width == MaskWidth::Bits64);
    }
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
