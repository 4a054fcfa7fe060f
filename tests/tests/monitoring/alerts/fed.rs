//! Alerts about fed tags and their centre.

use crate::watch;
use leaf_tests::{Centre, Draw, Mode, Server, Snowflake, attach, draw_many};

#[test]
fn centre_that_is_down_fires_stock_low_link_failing_and_lease_near_end() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard_with(Server::options().set("leaf.upstream_lease", "60s"));
    attach(&shard, "orders", 1000);
    let mut client = shard.connect();
    let (_exporter, prometheus) = watch(&shard);
    draw_many(&mut client, "orders", 500);
    client.snowflake().expect("an id");
    prometheus.query_until("leaf_registry_upstream_lease_seconds > 0", |series| {
        series.len() == 1
    });
    centre.0.stop(Mode::Immediate);
    client.run("SET leaf.wait_timeout = '100ms'");
    let mut draw = || {
        let _ = (client.batch("orders", 100), client.snowflake());
    };
    let alerts = ["LeafStockLow", "LeafCentreFailing", "LeafLeaseNearEnd"];
    for alert in alerts {
        prometheus.fires(alert, &mut draw);
    }
    centre.0.start_again();
    client.run("SET leaf.wait_timeout = '30s'");
    client.next("orders").expect("an id");
    client.snowflake().expect("an id");
    for alert in alerts {
        prometheus.resolves(alert, || {});
    }
}
