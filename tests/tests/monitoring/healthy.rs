//! What is well fires nothing.

use crate::watch;
use leaf_tests::{Centre, Draw, Load, Server, Snowflake, attach};

#[test]
fn healthy_shard_under_load_fires_nothing() {
    let centre = Centre::start();
    centre.create("fed", "");
    let shard = centre.shard_with(Server::options());
    shard
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 1000000)");
    attach(&shard, "fed", 1_000_000);
    let (_exporter, prometheus) = watch(&shard);
    let draw = |client: &mut leaf_tests::postgres::Client, call: usize| match call % 3 {
        0 => Ok(vec![client.next("orders")?]),
        // Numbers of three spaces of ids; one ledger is enough for the first.
        1 => client.next("fed").map(|_| Vec::new()),
        _ => client.snowflake().map(|_| Vec::new()),
    };
    Load::run(
        &shard.config("postgres", "postgres"),
        1,
        "55P03",
        draw,
        |load| {
            // Longer than the longest `for` of the rules.
            let scrapes = "min(count_over_time(leaf_snowflake_used_percent[5m])) > 40";
            prometheus.query_until(scrapes, |series| !series.is_empty());
            load.goes_on(1);
            assert_eq!(load.refusals(), 0);
        },
    );
    let fired = "max_over_time(ALERTS{alertstate=\"firing\"}[5m])";
    assert_eq!(prometheus.query(fired).expect(fired), []);
    // What would fire them is there.
    let there = prometheus.query("leaf_segment_fed == 1 and rate(leaf_segment_ids_drawn[1m]) > 0");
    assert_eq!(there.expect("series").len(), 1);
}
