//! Alerts about tags.

use crate::watch;
use leaf_tests::{Draw, Server, draw_many, slow_grants};

#[test]
fn locked_row_fires_refill_failing_and_calls_time_out() {
    let (server, mut client) = Server::with_orders(1000);
    let (_exporter, prometheus) = watch(&server);
    draw_many(&mut client, "orders", 500);
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    client.run("SET leaf.wait_timeout = '100ms'");
    let mut draw = || {
        let _ = client.batch("orders", 1_000);
    };
    prometheus.fires("LeafCallsTimeOut", &mut draw);
    prometheus.fires("LeafRefillFailing", &mut draw);
    holder.run("ROLLBACK");
    client.run("RESET leaf.wait_timeout");
    client.next("orders").expect("an id");
    prometheus.resolves("LeafRefillFailing", || {});
    prometheus.resolves("LeafCallsTimeOut", || {});
}

#[test]
fn catalog_whose_owner_may_not_write_fires_refill_failing() {
    let (server, mut client) = Server::with_orders(1000);
    let (_exporter, prometheus) = watch(&server);
    draw_many(&mut client, "orders", 500);
    client.run(
        "CREATE ROLE keeper; GRANT USAGE ON SCHEMA leaf TO keeper;
         ALTER TABLE leaf.alloc OWNER TO keeper; REVOKE UPDATE ON leaf.alloc FROM keeper;
         SET leaf.wait_timeout = '100ms'",
    );
    prometheus.fires("LeafRefillFailing", || {
        let _ = client.batch("orders", 1_000);
    });
    let cause = client.text("SELECT last_error FROM leaf.stat_segment");
    assert!(cause.contains("permission denied"), "{cause}");
    client.run("GRANT UPDATE ON leaf.alloc TO keeper; RESET leaf.wait_timeout");
    client.next("orders").expect("an id");
    prometheus.resolves("LeafRefillFailing", || {});
}

#[test]
fn small_segments_and_slow_loads_fire_buffers_short_and_calls_wait() {
    let (server, mut client) = Server::with_orders(10);
    let (_exporter, prometheus) = watch(&server);
    client.run("SELECT leaf_tag_alter('orders', max_step => 10)");
    slow_grants(&mut client, 0.05);
    let mut draw = || {
        client.batch("orders", 10).expect("ids");
    };
    prometheus.fires("LeafCallsWait", &mut draw);
    prometheus.fires("LeafBuffersShort", &mut draw);
    let mut admin = server.connect();
    admin.run("DROP TRIGGER slow ON leaf.alloc");
    admin.run("SELECT leaf_tag_alter('orders', step => 1000000, max_step => 1000000)");
    prometheus.resolves("LeafBuffersShort", &mut draw);
    prometheus.resolves("LeafCallsWait", &mut draw);
}

#[test]
fn tag_of_which_85_percent_are_used_fires_tag_near_end() {
    let (server, mut client) = Server::with_orders(10);
    let (_exporter, prometheus) = watch(&server);
    client.run("SELECT leaf_tag_alter('orders', max_value => 1000)");
    draw_many(&mut client, "orders", 850);
    prometheus.fires("LeafTagNearEnd", || {});
    client.run("SELECT leaf_tag_alter('orders', max_value => 100000)");
    prometheus.resolves("LeafTagNearEnd", || {});
}

#[test]
fn tag_that_ends_within_days_fires_tag_ends_soon() {
    let (server, mut client) = Server::with_orders(1000);
    let (_exporter, prometheus) = watch(&server);
    client.run("SELECT leaf_tag_alter('orders', max_value => 10000000, max_step => 1000)");
    let mut draw = || {
        client.batch("orders", 500).expect("ids");
    };
    prometheus.fires("LeafTagEndsSoon", &mut draw);
    let firing = prometheus.firing();
    assert!(!firing.contains("LeafTagNearEnd"), "{firing:?}");
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_alter('orders', max_value => 9223372036854775806)");
    prometheus.resolves("LeafTagEndsSoon", &mut draw);
}

#[test]
fn more_tags_than_places_fire_tags_evicted() {
    let server = Server::options().set("leaf.max_tags", "16").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('tag' || n, step => 10) FROM generate_series(1, 40) AS n");
    let (_exporter, prometheus) = watch(&server);
    prometheus.fires("LeafTagsEvicted", || {
        client.run("SELECT leaf_segment_next(biz_tag::text) FROM leaf.alloc");
    });
    prometheus.resolves("LeafTagsEvicted", || {});
}

#[test]
fn old_snapshot_that_keeps_many_dead_versions_fires_horizon_held() {
    let (server, mut client) = Server::with_orders(10);
    let mut holder = server.connect();
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    client.run(
        "SELECT leaf_tag_create('tag' || n) FROM generate_series(1, 500) AS n;
         ALTER TABLE leaf.alloc SET (autovacuum_enabled = off), DISABLE TRIGGER USER",
    );
    client.run(
        "DO $$ BEGIN
            FOR n IN 1 .. 210 LOOP
                UPDATE leaf.alloc SET description = n::text;
                COMMIT;
            END LOOP;
         END $$",
    );
    let (_exporter, prometheus) = watch(&server);
    prometheus.fires("LeafHorizonHeld", || {});
    holder.run("ROLLBACK");
    client.run("VACUUM leaf.alloc");
    prometheus.resolves("LeafHorizonHeld", || {});
}
