//! Alerts about snowflake ids and clocks.

use crate::watch;
use leaf_tests::{Draw, Server, Snowflake};
use std::time::Duration;

#[test]
fn locked_worker_row_fires_lease_failing_and_calls_time_out() {
    let server = Server::start();
    let mut client = server.connect();
    let (_exporter, prometheus) = watch(&server);
    client.snowflake().expect("an id");
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT FROM leaf.worker FOR UPDATE");
    client.run("SET leaf.wait_timeout = '100ms'");
    let mut draw = || {
        let _ = client.snowflake();
    };
    prometheus.fires("LeafSnowflakeLeaseFailing", &mut draw);
    prometheus.fires("LeafSnowflakeCallsTimeOut", &mut draw);
    holder.run("ROLLBACK");
    client.run("RESET leaf.wait_timeout");
    client.snowflake().expect("an id");
    prometheus.resolves("LeafSnowflakeLeaseFailing", || {});
    prometheus.resolves("LeafSnowflakeCallsTimeOut", || {});
}

#[test]
fn clock_an_hour_behind_fires_rolled_back_behind_and_off() {
    let server = Server::options().clock().start();
    let mut client = server.connect();
    let (_exporter, prometheus) = watch(&server);
    client.snowflake().expect("an id");
    prometheus.query_until("leaf_snowflake_rollbacks == 0", |series| series.len() == 1);
    server.clock().behind(Duration::from_secs(3_600));
    client.snowflake().expect_err("the clock is behind");
    for alert in ["LeafClockRolledBack", "LeafClockBehind", "LeafClockOff"] {
        prometheus.fires(alert, || {});
    }
    server.clock().right();
    client.snowflake().expect("an id");
    for alert in ["LeafClockRolledBack", "LeafClockBehind", "LeafClockOff"] {
        prometheus.resolves(alert, || {});
    }
}

#[test]
fn clock_of_a_node_3_s_ahead_fires_node_clock_off() {
    let server = Server::start();
    let mut client = server.connect();
    let (_exporter, prometheus) = watch(&server);
    let ahead = "'service', clock => clock_timestamp() + interval '3 s'";
    let lease = client.register(ahead).expect("5 s are the limit");
    prometheus.fires("LeafNodeClockOff", || {});
    client.run(&format!(
        "SELECT * FROM leaf_worker_renew({}, '{}', {}, clock => clock_timestamp())",
        lease.worker_id, lease.nonce, lease.token
    ));
    prometheus.resolves("LeafNodeClockOff", || {});
}

#[test]
fn time_field_that_ends_in_half_a_year_fires_time_field_near_end() {
    // The 28 bits of seconds last for 8.5 years.
    let server = Server::options()
        .set("leaf.snowflake_layout", "uid")
        .start();
    let mut client = server.connect();
    let (_exporter, prometheus) = watch(&server);
    let mut years_ago = |years: &str| {
        client.text(&format!(
            "SELECT date_trunc('day', now() - interval '{years} years')::text"
        ))
    };
    let (old, young) = (years_ago("8"), years_ago("1"));
    server.reload("leaf.snowflake_epoch", &old);
    prometheus.fires("LeafTimeFieldNearEnd", || {});
    server.reload("leaf.snowflake_epoch", &young);
    prometheus.resolves("LeafTimeFieldNearEnd", || {});
}
