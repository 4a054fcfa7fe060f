//! Fed tags: their ids come from a tag of a centre.

use leaf_tests::{Centre, Draw, Ledger, attach, draw_many, refused};

#[test]
fn shards_of_a_centre_repeat_nothing_among_them() {
    let centre = Centre::start();
    centre.create("orders", ", step => 100");
    let shards = [centre.shard(), centre.shard()];
    let mut ledger = Ledger::new();
    for shard in &shards {
        attach(shard, "orders", 100);
    }
    let mut clients = shards.each_ref().map(|shard| shard.connect());
    for _ in 0..5 {
        for client in &mut clients {
            let ids = draw_many(client, "orders", 700);
            assert!(ids.is_sorted(), "{ids:?}");
            ledger.add(ids);
            ledger.add(client.reserve("orders", 50).expect("a block").ids());
        }
    }
    ledger.add(centre.0.connect().batch("orders", 500).expect("ids"));
    let fed = clients[0].number("SELECT ids_fed FROM leaf.stat_upstream");
    assert!(fed >= 3750, "{fed}");
}

#[test]
fn tag_without_a_usable_upstream_raises_55000() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    shard.reload("leaf.upstream", "");
    let mut client = shard.connect();
    refused(client.next("orders"), "55000");
    refused(client.reserve("orders", 5), "55000");
    shard.reload("leaf.upstream", &centre.upstream());
    client.next("orders").expect("an id");
}
