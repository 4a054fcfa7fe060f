//! The table of contracts: what each way to ask for ids answers, for both kinds of ids and in both
//! editions. Where a contract takes more than an answer, its cell says how it is tried; a cell that
//! does not apply says why.

mod given_up;
mod table;

use given_up::{cancelled, closed, dropped};
use leaf_sdk::{IdSource, sync};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Order, Snowflake};
use table::Cell::{Calls, DoesNotApply, Holds, Http, Sql};
use table::{Contract, Editions, Ways, World, both, said};

#[test]
fn bad_count_is_refused_everywhere() {
    Contract {
        role: "postgres",
        segment: Ways {
            sql: Editions {
                library: Sql(&[
                    ("SELECT leaf_segment_batch('orders', 0)", "22023"),
                    ("SELECT leaf_segment_batch('orders', -1)", "22023"),
                    (
                        "SELECT leaf_segment_batch('orders', '-2147483648')",
                        "22023",
                    ),
                    ("SELECT leaf_segment_reserve('orders', 0)", "22023"),
                    ("SELECT leaf_segment_reserve('orders', -1)", "22023"),
                    (
                        "SELECT leaf_segment_reserve('orders', '-9223372036854775808')",
                        "22023",
                    ),
                    ("SELECT leaf_segment_next('orders')", "1"),
                ]),
                plain: Sql(&[
                    ("CALL leaf_segment_reserve('orders', 0)", "22023"),
                    ("CALL leaf_segment_reserve('orders', -1)", "22023"),
                    ("CALL leaf_segment_reserve('orders', 1000000001)", "22023"),
                    ("CALL leaf_segment_reserve('orders', 1)", "[1,2)"),
                ]),
            },
            client_library: both(Calls(&[
                (|world| said(world.orders().next_n(0)), "[]"),
                (|world| said(world.orders().next_n(usize::MAX)), "Argument"),
                (
                    |world| said(world.orders().next_n(usize::MAX / 8)),
                    "Argument",
                ),
                (|world| said(world.orders().next_n(1 << 50)), "Argument"),
                (
                    |world| said(sync::segment_reserve(&mut world.client(), "orders", 0)),
                    "Server 22023",
                ),
                (|world| said(world.orders().next().map(drop)), "()"),
            ])),
            http: both(Http(&[
                ("/v1/segment/orders?count=0", "400 bad_count"),
                ("/v1/segment/orders?count=-1", "400 bad_count"),
                ("/v1/segment/orders?count=101", "400 bad_count"),
                ("/v1/segment/orders?count=x", "400 bad_count"),
            ])),
        },
        snowflake: Ways {
            sql: Editions {
                library: Sql(&[
                    ("SELECT leaf_snowflake_batch(0)", "22023"),
                    ("SELECT leaf_snowflake_batch(-1)", "22023"),
                    ("SELECT leaf_snowflake_batch('-2147483648')", "22023"),
                    ("SELECT leaf_snowflake_next() > 0", "t"),
                ]),
                plain: DoesNotApply("sessions lease worker ids, one at a time, and draw no ids"),
            },
            client_library: both(Calls(&[
                (|world| said(world.events().next_n(0)), "[]"),
                (|world| said(world.events().next_n(usize::MAX)), "Argument"),
                (
                    |world| said(world.events().next_n(usize::MAX / 8)),
                    "Argument",
                ),
                (|world| said(world.events().next_n(1 << 50)), "Argument"),
                (|world| said(world.events().next().map(drop)), "()"),
            ])),
            http: both(Http(&[
                ("/v1/snowflake?count=0", "400 bad_count"),
                ("/v1/snowflake?count=-1", "400 bad_count"),
                ("/v1/snowflake?count=101", "400 bad_count"),
                ("/v1/snowflake?count=x", "400 bad_count"),
            ])),
        },
    }
    .hold();
}

#[test]
fn unknown_tag_is_named_as_such_everywhere() {
    Contract {
        role: "postgres",
        segment: Ways {
            sql: Editions {
                library: Sql(&[
                    ("SELECT leaf_segment_next('nosuch')", "42704"),
                    ("SELECT leaf_segment_batch('nosuch', 5)", "42704"),
                    ("SELECT leaf_segment_reserve('nosuch', 5)", "42704"),
                    // However much it looks like another tag.
                    ("SELECT leaf_segment_next('Orders')", "42704"),
                    ("SELECT leaf_segment_next('orders ')", "42704"),
                    ("SELECT leaf_tag_alter('nosuch', step => 5)", "42704"),
                    ("SELECT leaf_tag_drop('nosuch')", "42704"),
                    ("SELECT leaf_tag_grant('nosuch', 'postgres')", "42704"),
                    ("SELECT leaf_tag_revoke('nosuch', 'postgres')", "42704"),
                    ("SELECT count(*) FROM leaf.stat_segment", "2"),
                ]),
                plain: Sql(&[
                    ("CALL leaf_segment_reserve('nosuch', 5)", "42704"),
                    ("CALL leaf_segment_reserve('Orders', 5)", "42704"),
                    ("CALL leaf_segment_reserve('orders ', 5)", "42704"),
                    ("SELECT leaf_tag_alter('nosuch')", "42704"),
                    ("SELECT leaf_tag_drop('nosuch')", "42704"),
                    ("SELECT leaf_tag_incarnation('nosuch')", "42704"),
                ]),
            },
            client_library: both(Calls(&[
                (
                    |world| said(world.leaf().segment("nosuch").next()),
                    "UnknownTag 42704",
                ),
                (
                    |world| said(world.leaf().prefill(&["orders", "nosuch"])),
                    "UnknownTag 42704",
                ),
                (
                    |world| said(sync::segment_reserve(&mut world.client(), "nosuch", 5)),
                    "UnknownTag 42704",
                ),
            ])),
            http: both(Http(&[
                ("/v1/segment/nosuch", "404 unknown_tag"),
                ("/v1/segment/Orders", "404 unknown_tag"),
                ("/v1/segment/orders%20", "404 unknown_tag"),
            ])),
        },
        snowflake: Ways {
            sql: both(DoesNotApply("snowflake ids have no tag")),
            client_library: both(DoesNotApply("snowflake ids have no tag")),
            http: both(DoesNotApply("snowflake ids have no tag")),
        },
    }
    .hold();
}

/// How PostgreSQL itself refuses.
const DENIED: &str = "42501, no hint";

#[test]
fn who_has_no_right_gets_nothing_anywhere() {
    Contract {
        role: "stranger",
        segment: Ways {
            sql: Editions {
                library: Sql(&[
                    ("SELECT leaf_segment_next('orders')", "42501"),
                    ("SELECT leaf_segment_batch('orders', 5)", "42501"),
                    ("SELECT leaf_segment_reserve('orders', 5)", "42501"),
                    ("SELECT leaf_tag_alter('orders', step => 5)", "42501"),
                    ("SELECT leaf_tag_drop('orders')", "42501"),
                    ("SELECT leaf_tag_grant('orders', 'stranger')", "42501"),
                    ("SELECT leaf_tag_revoke('orders', 'postgres')", "42501"),
                    ("SELECT leaf_tag_create('mine')", DENIED),
                    ("UPDATE leaf.alloc SET grantees = '{stranger}'", DENIED),
                    ("INSERT INTO leaf.alloc (biz_tag) VALUES ('mine')", DENIED),
                    ("DELETE FROM leaf.alloc", DENIED),
                    ("TRUNCATE leaf.alloc", DENIED),
                ]),
                plain: Sql(&[
                    ("CALL leaf_segment_reserve('orders', 5)", DENIED),
                    ("SELECT leaf_tag_incarnation('orders')", DENIED),
                    ("SELECT leaf_tag_alter('orders', step => 5)", DENIED),
                    ("SELECT leaf_tag_drop('orders')", DENIED),
                    ("SELECT leaf_tag_create('mine')", DENIED),
                    ("UPDATE leaf.alloc SET max_id = 5000", DENIED),
                    ("INSERT INTO leaf.alloc (biz_tag) VALUES ('mine')", DENIED),
                    ("DELETE FROM leaf.alloc", DENIED),
                    ("TRUNCATE leaf.alloc", DENIED),
                ]),
            },
            client_library: Editions {
                library: Calls(&[
                    (|world| said(world.orders().next()), "Permission 42501"),
                    (
                        |world| said(sync::segment_reserve(&mut world.client(), "orders", 5)),
                        "Permission 42501",
                    ),
                ]),
                plain: Calls(&[
                    (
                        |world| said(world.orders().next()),
                        "Permission 42501, no hint",
                    ),
                    (
                        |world| said(sync::segment_reserve(&mut world.client(), "orders", 5)),
                        "Permission 42501, no hint",
                    ),
                ]),
            },
            http: both(Http(&[("/v1/segment/orders", "403 permission_denied")])),
        },
        snowflake: Ways {
            sql: Editions {
                library: Sql(&[
                    ("SELECT leaf_snowflake_next() > 0", "t"),
                    ("SELECT leaf_worker_register('node')", DENIED),
                    ("SELECT leaf_worker_renew(0, gen_random_uuid(), 1)", DENIED),
                    (
                        "SELECT leaf_worker_release(0, gen_random_uuid(), 1)",
                        DENIED,
                    ),
                    ("UPDATE leaf.worker SET node = 'node'", DENIED),
                    ("DELETE FROM leaf.worker", DENIED),
                    ("INSERT INTO leaf.worker (worker_id) VALUES (5)", DENIED),
                ]),
                plain: Sql(&[
                    ("CALL leaf_worker_register('node')", DENIED),
                    ("CALL leaf_worker_renew(0, gen_random_uuid(), 1)", DENIED),
                    ("CALL leaf_worker_release(0, gen_random_uuid(), 1)", DENIED),
                    ("UPDATE leaf.worker SET node = 'node'", DENIED),
                    ("DELETE FROM leaf.worker", DENIED),
                    ("INSERT INTO leaf.worker (worker_id) VALUES (5)", DENIED),
                ]),
            },
            client_library: both(Calls(&[(
                |world| said(world.events().next()),
                "Permission 42501",
            )])),
            http: both(Http(&[("/v1/snowflake", "403 permission_denied")])),
        },
    }
    .hold();
}

/// Draws in a transaction that is rolled back, and after each of its savepoints.
fn draw_and_roll_back(world: &World, mut draw: impl FnMut(&mut Client) -> Vec<i64>) {
    let mut client = world.client();
    let mut ledger = Ledger::new();
    for _ in 0..20 {
        for statements in [
            "BEGIN; SAVEPOINT a",
            "SAVEPOINT b",
            "ROLLBACK TO b",
            "ROLLBACK TO a",
            "ROLLBACK",
        ] {
            client.run(statements);
            ledger.add(draw(&mut client));
        }
    }
}

#[test]
fn rollback_gives_no_id_back() {
    Contract {
        role: "postgres",
        segment: Ways {
            sql: Editions {
                library: Holds(|world| {
                    draw_and_roll_back(world, |client| {
                        let mut ids = client.rows("orders", 7).expect("ids");
                        ids.extend(client.reserve("orders", 7).expect("a block").ids());
                        ids.extend(client.batch("orders", 7).expect("ids"));
                        ids
                    });
                }),
                plain: Sql(&[
                    ("BEGIN", ""),
                    ("CALL leaf_segment_reserve('orders', 1)", "2D000"),
                    ("ROLLBACK", ""),
                    ("CALL leaf_segment_reserve('orders', 1)", "[1,2)"),
                ]),
            },
            client_library: Editions {
                library: Holds(|world| {
                    draw_and_roll_back(world, |client| {
                        let block = sync::segment_reserve(client, "orders", 7).expect("a block");
                        let batch = sync::segment_batch(client, "orders", 7).expect("ids");
                        let mut ids: Vec<_> = batch.into_iter().map(i64::from).collect();
                        ids.push(sync::segment_next(client, "orders").expect("an id").get());
                        ids.extend(block.first.get()..=block.last.get());
                        ids
                    });
                }),
                plain: Calls(&[
                    (
                        |world| {
                            let mut client = world.client();
                            let mut transaction = client.transaction().expect("a transaction");
                            said(sync::segment_reserve(&mut transaction, "orders", 1))
                        },
                        "Server 2D000",
                    ),
                    (
                        |world| {
                            let block = sync::segment_reserve(&mut world.client(), "orders", 1);
                            said(block.map(|block| block.first.get()))
                        },
                        "2",
                    ),
                ]),
            },
            http: both(DoesNotApply("a request is no part of a transaction")),
        },
        snowflake: Ways {
            sql: Editions {
                library: Holds(|world| {
                    let order = Order::new();
                    draw_and_roll_back(world, |client| {
                        let rows = order.ascending(|| client.snowflake_rows(7));
                        let batch = order.ascending(|| client.snowflakes(7));
                        [rows.expect("ids"), batch.expect("ids")].concat()
                    });
                }),
                plain: Sql(&[
                    ("BEGIN", ""),
                    ("CALL leaf_worker_register('node')", "2D000"),
                    ("ROLLBACK", ""),
                    ("BEGIN", ""),
                    ("CALL leaf_worker_renew(0, gen_random_uuid(), 1)", "2D000"),
                    ("ROLLBACK", ""),
                    ("BEGIN", ""),
                    ("CALL leaf_worker_release(0, gen_random_uuid(), 1)", "2D000"),
                    ("ROLLBACK", ""),
                    ("SELECT count(*) FROM leaf.worker", "0"),
                ]),
            },
            client_library: Editions {
                library: Holds(|world| {
                    draw_and_roll_back(world, |client| {
                        let mut ids = sync::snowflake_batch(client, 7).expect("ids");
                        ids.push(sync::snowflake_next(client).expect("an id"));
                        ids.into_iter().map(i64::from).collect()
                    });
                }),
                plain: DoesNotApply("ids are made in the service, by no statement"),
            },
            http: both(DoesNotApply("a request is no part of a transaction")),
        },
    }
    .hold();
}

/// What sessions wait for: a row of a tag, or a lease.
const ROWS: &str = "SELECT FROM leaf.alloc FOR UPDATE";
const LEASES: &str = "LOCK TABLE leaf.worker";

#[test]
fn waiting_call_can_be_given_up_everywhere() {
    Contract {
        role: "postgres",
        segment: Ways {
            sql: Editions {
                library: Holds(|world| {
                    let again = cancelled(world, ROWS, "SELECT leaf_segment_next('orders')");
                    assert_eq!(again, "1");
                }),
                plain: Holds(|world| {
                    let again = cancelled(world, ROWS, "CALL leaf_segment_reserve('orders', 1)");
                    assert_eq!(again, "[1,2)");
                }),
            },
            client_library: both(Holds(|world| {
                assert_eq!(dropped(world, ROWS, world.items()).get(), 1);
            })),
            http: both(Holds(|world| closed(world, ROWS, "/v1/segment/orders"))),
        },
        snowflake: Ways {
            sql: Editions {
                library: Holds(|world| {
                    let again = cancelled(world, LEASES, "SELECT leaf_snowflake_next() > 0");
                    assert_eq!(again, "t");
                }),
                plain: Holds(|world| {
                    cancelled(world, LEASES, "CALL leaf_worker_register('node')");
                    let leases = "SELECT count(*) FROM leaf.worker";
                    assert_eq!(world.client().number(leases), 1);
                }),
            },
            client_library: both(Holds(|world| {
                dropped(world, LEASES, world.events());
            })),
            http: both(Holds(|world| closed(world, LEASES, "/v1/snowflake"))),
        },
    }
    .hold();
}
