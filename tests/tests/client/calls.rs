//! The client library's plain calls, on the caller's own connection, in both
//! drivers.

use crate::{PATIENCE, config};
use leaf_sdk::{Error, IdSource, Leaf, SegmentId, asynchronous, sync};
use leaf_tests::postgres::NoTls;
use leaf_tests::{Draw, Server};
use std::time::{Duration, SystemTime};

#[test]
fn blocking_calls_do_what_their_sql_does() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', start => 100)");
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
    let id = sync::snowflake_next(&mut client).expect("an id");
    let more = sync::snowflake_batch(&mut client, 100).expect("ids");
    assert!(more[0] > id && more.is_sorted() && more.len() == 100);
    let decoded = sync::snowflake_decode(&mut client, id).expect("what it says");
    let age = SystemTime::now().duration_since(decoded.created_at);
    assert!(age.expect("the past") < Duration::from_secs(60));
    let floor = sync::snowflake_floor(&mut client, decoded.created_at).expect("a floor");
    assert!(floor <= id && more[99] > floor);
    let worker_id = client.number("SELECT worker_id::bigint FROM leaf.stat_snowflake");
    assert_eq!(worker_id, i64::from(decoded.worker_id));

    client.run("SELECT leaf_tag_drop('orders')");
    let gone = sync::segment_next(&mut client, "orders").expect_err("no tag");
    assert!(matches!(gone, Error::UnknownTag(_)), "{gone:?}");
}

#[test]
fn calls_in_a_transaction_live_and_die_with_it() {
    let server = Server::start();
    let mut client = server.connect();
    let mut transaction = client.transaction().expect("a transaction");
    let create = transaction.execute("SELECT leaf_tag_create('orders')", &[]);
    create.expect("a tag");
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
        let create = transaction.execute("SELECT leaf_tag_create('orders')", &[]);
        create.await.expect("a tag");
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
        drop(client);
        connection.await.expect("no panic").expect("a clean end");
    });
}

/// A runtime for calls that are awaited.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

leaf_sdk::id_type! {
    /// A program's own type.
    struct OrderId;
}

const ORDERS: &str = "CREATE TABLE orders (id bigint PRIMARY KEY);
                      SELECT leaf_tag_create('orders')";

#[test]
fn ids_of_ones_own_type_are_read_and_sent_by_sqlx() {
    use sqlx::Connection;
    use sqlx::postgres::{PgConnectOptions, PgConnection};
    let server = Server::start();
    server.connect().run(ORDERS);
    runtime().block_on(async {
        let options = PgConnectOptions::new()
            .host(&server.host())
            .port(server.port())
            .username("postgres")
            .database("postgres");
        let mut client = PgConnection::connect_with(&options)
            .await
            .expect("a session");
        let id: OrderId = sqlx::query_scalar("SELECT leaf_segment_next($1)")
            .bind("orders")
            .fetch_one(&mut client)
            .await
            .expect("an id");
        assert_eq!(id, OrderId::new(1));
        let inserted: Option<OrderId> =
            sqlx::query_scalar("INSERT INTO orders VALUES ($1) RETURNING id")
                .bind(id)
                .fetch_one(&mut client)
                .await
                .expect("a row");
        assert_eq!(inserted, Some(id));
    });
}

#[test]
fn ids_of_ones_own_type_are_read_and_sent_by_diesel() {
    use diesel::prelude::*;
    use diesel::sql_types::Text;
    diesel::table! { orders (id) { id -> BigInt, } }
    let server = Server::start();
    server.connect().run(ORDERS);
    let url = format!("postgres://postgres@/postgres?host={}", server.host());
    let mut client = diesel::PgConnection::establish(&url).expect("a session");
    diesel::define_sql_function! { fn leaf_segment_next(tag: Text) -> BigInt; }
    let id: OrderId = diesel::select(leaf_segment_next("orders"))
        .get_result(&mut client)
        .expect("an id");
    assert_eq!(id, OrderId::new(1));
    let inserted: OrderId = diesel::insert_into(orders::table)
        .values(orders::id.eq(id))
        .returning(orders::id)
        .get_result(&mut client)
        .expect("a row");
    assert_eq!(inserted, id);
}

#[test]
fn source_draws_ids_of_ones_own_type() {
    let (server, _) = Server::with_orders(100);
    let leaf = Leaf::new(config(&server, PATIENCE)).expect("a handle");
    let orders = leaf.segment("orders").typed::<OrderId>();
    assert_eq!(orders.next().expect("an id"), OrderId::new(1));
    let ids = orders.next_n(2).expect("ids");
    assert_eq!(ids, [2, 3].map(OrderId::new));
    assert_eq!(leaf.segment("orders").try_next(), Some(SegmentId::new(4)));
}

#[test]
fn instants_out_of_the_range_of_the_type_are_its_infinities() {
    let server = Server::start();
    let mut client = server.connect();
    let far = Duration::from_secs(i64::MAX as u64 / 2);
    for (at, infinity) in [
        (SystemTime::UNIX_EPOCH - far, "-infinity"),
        (SystemTime::UNIX_EPOCH + far, "infinity"),
    ] {
        let floor = sync::snowflake_floor(&mut client, at);
        let of_sql = client.query_one(&format!("SELECT leaf_snowflake_floor('{infinity}')"), &[]);
        match (floor, of_sql) {
            (Ok(floor), Ok(row)) => assert_eq!(floor, row.get(0)),
            (Err(floor), Err(of_sql)) => assert_eq!(floor.sqlstate(), of_sql.code()),
            (floor, of_sql) => panic!("{floor:?} {of_sql:?}"),
        }
    }
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
