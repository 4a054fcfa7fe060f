//! The client library's plain calls, on the caller's own connection, in both
//! drivers.

use leaf_sdk::{Error, NewTag, SegmentId, TagChange, asynchronous, sync};
use leaf_tests::postgres::NoTls;
use leaf_tests::{Draw, Server};
use std::time::{Duration, SystemTime};

#[test]
fn blocking_calls_do_what_their_sql_does() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE ROLE shop");
    let new = NewTag {
        step: 50,
        start: 100,
        max_value: 10_000,
        description: Some("what we sell".into()),
    };
    sync::tag_create(&mut client, "orders", &new).expect("a tag");
    assert_eq!(
        sync::segment_next(&mut client, "orders")
            .expect("an id")
            .get(),
        100
    );
    let batch = sync::segment_batch(&mut client, "orders", 3).expect("ids");
    assert_eq!(batch, [101, 102, 103].map(SegmentId::new));
    let block = sync::segment_reserve(&mut client, "orders", 10).expect("a block");
    assert_eq!(block.last.get() - block.first.get(), 9);
    let change = TagChange {
        advance_to: Some(5_000),
        ..TagChange::default()
    };
    sync::tag_alter(&mut client, "orders", &change).expect("a change");
    assert_eq!(
        sync::segment_next(&mut client, "orders")
            .expect("an id")
            .get(),
        5_000
    );
    sync::tag_grant(&mut client, "orders", "shop").expect("a grant");
    assert_eq!(
        client.text("SELECT grantees::text FROM leaf.alloc"),
        "{shop}"
    );
    sync::tag_revoke(&mut client, "orders", "shop").expect("a revocation");
    assert_eq!(client.text("SELECT grantees::text FROM leaf.alloc"), "{}");
    let status = sync::tag_status(&mut client, "orders").expect("a row");
    assert_eq!((status.position, status.timeouts), (5_001, 0));
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO orders VALUES (6000)",
    );
    for moved in [true, false] {
        let aligned = sync::tag_align(&mut client, Some("orders")).expect("a column");
        assert_eq!(aligned.len(), 1);
        assert_eq!(aligned[0].used_in, "public.orders.id");
        assert!(aligned[0].position > Some(6_000));
        assert_eq!(aligned[0].moved, moved);
    }

    let id = sync::snowflake_next(&mut client).expect("an id");
    let more = sync::snowflake_batch(&mut client, 100).expect("ids");
    assert!(more[0] > id && more.is_sorted() && more.len() == 100);
    let decoded = sync::snowflake_decode(&mut client, id).expect("what it says");
    let age = SystemTime::now().duration_since(decoded.created_at);
    assert!(age.expect("the past") < Duration::from_secs(60));
    let floor = sync::snowflake_floor(&mut client, decoded.created_at).expect("a floor");
    assert!(floor <= id && more[99] > floor);
    let status = sync::snowflake_status(&mut client).expect("a row");
    assert_eq!(status.worker_id, Some(decoded.worker_id));

    client.run("DROP TABLE orders");
    sync::tag_drop(&mut client, "orders").expect("an end");
    let gone = sync::segment_next(&mut client, "orders").expect_err("no tag");
    assert!(matches!(gone, Error::UnknownTag(_)), "{gone:?}");
}

#[test]
fn calls_in_a_transaction_live_and_die_with_it() {
    let server = Server::start();
    let mut client = server.connect();
    let mut transaction = client.transaction().expect("a transaction");
    sync::tag_create(&mut transaction, "orders", &NewTag::default()).expect("a tag");
    sync::segment_next(&mut transaction, "orders").expect("an id");
    transaction.rollback().expect("a rollback");
    let gone = sync::segment_next(&mut client, "orders").expect_err("no tag");
    assert!(matches!(gone, Error::UnknownTag(_)), "{gone:?}");
}

#[test]
fn async_calls_do_what_their_sql_does() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let config: tokio_postgres::Config = server
            .connection_string()
            .parse()
            .expect("a connection string");
        let (mut client, connection) = config.connect(NoTls).await.expect("a connection");
        let connection = tokio::spawn(connection);
        let transaction = client.transaction().await.expect("a transaction");
        asynchronous::tag_create(&transaction, "orders", &NewTag::default())
            .await
            .expect("a tag");
        transaction.commit().await.expect("a commit");
        let first = asynchronous::segment_next(&client, "orders")
            .await
            .expect("an id");
        let batch = asynchronous::segment_batch(&client, "orders", 10)
            .await
            .expect("ids");
        assert!(batch[0] > first && batch.is_sorted());
        let id = asynchronous::snowflake_next(&client).await.expect("an id");
        let decoded = asynchronous::snowflake_decode(&client, id)
            .await
            .expect("what it says");
        let floor = asynchronous::snowflake_floor(&client, decoded.created_at).await;
        assert!(floor.expect("a floor") <= id);
        asynchronous::tag_drop(&client, "orders")
            .await
            .expect("an end");
        drop(client);
        connection.await.expect("no panic").expect("a clean end");
    });
}

/// A runtime for calls that are awaited.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

#[test]
fn calls_on_sqlx_do_what_their_sql_does() {
    use sqlx::Connection;
    use sqlx::postgres::{PgConnectOptions, PgConnection};
    let server = Server::start();
    server.connect().run("CREATE ROLE shop");
    runtime().block_on(async {
        let options = PgConnectOptions::new()
            .host(&server.host())
            .port(server.port())
            .username("postgres")
            .database("postgres");
        let mut client = PgConnection::connect_with(&options)
            .await
            .expect("a session");
        let mut transaction = client.begin().await.expect("a transaction");
        let new = NewTag {
            description: Some("what we sell".into()),
            ..NewTag::default()
        };
        leaf_sdk::sqlx::tag_create(&mut *transaction, "orders", &new)
            .await
            .expect("a tag");
        transaction.commit().await.expect("a commit");
        let first = leaf_sdk::sqlx::segment_next(&mut client, "orders").await;
        assert_eq!(first.expect("an id"), SegmentId::new(1));
        let batch = leaf_sdk::sqlx::segment_batch(&mut client, "orders", 3).await;
        assert_eq!(batch.expect("ids"), [2, 3, 4].map(SegmentId::new));
        let block = leaf_sdk::sqlx::segment_reserve(&mut client, "orders", 10).await;
        let block = block.expect("a block");
        assert_eq!(block.last.get() - block.first.get(), 9);
        let change = TagChange {
            step: Some(7),
            ..TagChange::default()
        };
        leaf_sdk::sqlx::tag_alter(&mut client, "orders", &change)
            .await
            .expect("a change");
        leaf_sdk::sqlx::tag_grant(&mut client, "orders", "shop")
            .await
            .expect("a grant");
        let status = leaf_sdk::sqlx::tag_status(&mut client, "orders").await;
        assert_eq!(status.expect("a row").last_error, None);
        let id = leaf_sdk::sqlx::snowflake_next(&mut client)
            .await
            .expect("an id");
        let decoded = leaf_sdk::sqlx::snowflake_decode(&mut client, id).await;
        let at = decoded.expect("its fields").created_at;
        let floor = leaf_sdk::sqlx::snowflake_floor(&mut client, at).await;
        assert!(floor.expect("a floor") <= id);
        leaf_sdk::sqlx::tag_drop(&mut client, "orders")
            .await
            .expect("an end");
        let gone = leaf_sdk::sqlx::segment_next(&mut client, "orders").await;
        let gone = gone.expect_err("no tag");
        assert!(matches!(gone, Error::UnknownTag(_)), "{gone:?}");
        assert!(gone.hint().is_some(), "{gone:?}");
    });
}

#[test]
fn calls_on_diesel_do_what_their_sql_does() {
    use diesel::{Connection, PgConnection};
    let server = Server::start();
    server.connect().run("CREATE ROLE shop");
    let url = server.connection_string();
    let mut client = PgConnection::establish(&url).expect("a session");
    let new = NewTag {
        description: Some("what we sell".into()),
        ..NewTag::default()
    };
    let created = client.transaction(|client| leaf_sdk::diesel::tag_create(client, "orders", &new));
    created.expect("a tag");
    let first = leaf_sdk::diesel::segment_next(&mut client, "orders").expect("an id");
    assert_eq!(first, SegmentId::new(1));
    let batch = leaf_sdk::diesel::segment_batch(&mut client, "orders", 3).expect("ids");
    assert_eq!(batch, [2, 3, 4].map(SegmentId::new));
    let block = leaf_sdk::diesel::segment_reserve(&mut client, "orders", 10).expect("a block");
    assert_eq!(block.last.get() - block.first.get(), 9);
    let change = TagChange {
        step: Some(7),
        ..TagChange::default()
    };
    leaf_sdk::diesel::tag_alter(&mut client, "orders", &change).expect("a change");
    leaf_sdk::diesel::tag_grant(&mut client, "orders", "shop").expect("a grant");
    let status = leaf_sdk::diesel::tag_status(&mut client, "orders").expect("a row");
    assert_eq!(status.last_error, None);
    let id = leaf_sdk::diesel::snowflake_next(&mut client).expect("an id");
    let fields = leaf_sdk::diesel::snowflake_decode(&mut client, id).expect("its fields");
    let floor = leaf_sdk::diesel::snowflake_floor(&mut client, fields.created_at);
    assert!(floor.expect("a floor") <= id);
    leaf_sdk::diesel::tag_drop(&mut client, "orders").expect("an end");
    let gone = leaf_sdk::diesel::segment_next(&mut client, "orders").expect_err("no tag");
    assert!(gone.to_string().contains("does not exist"), "{gone}");
    assert!(gone.hint().is_some(), "{gone:?}");
}

#[test]
fn calls_on_a_connection_of_deadpool_do_what_their_sql_does() {
    let server = Server::start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    runtime().block_on(async {
        let config: tokio_postgres::Config = server.connection_string().parse().expect("a string");
        let manager = deadpool_postgres::Manager::new(config, NoTls);
        let pool = deadpool_postgres::Pool::builder(manager)
            .build()
            .expect("a pool");
        let client = pool.get().await.expect("a connection");
        let id = asynchronous::segment_next(&**client, "orders").await;
        assert_eq!(id.expect("an id"), SegmentId::new(1));
    });
}
