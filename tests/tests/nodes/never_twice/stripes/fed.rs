//! Stripes of centres, and of the tags that they feed.

use super::{Stripe, WIDTH};
use leaf_tests::{Centre, Draw, Ledger, attach, draw_many, refused};

#[test]
fn centres_with_different_stripes_feed_different_numbers() {
    let mut ledger = Ledger::new();
    for stripe in [0, 3] {
        let stripe = Stripe::of(4, stripe);
        let centre = Centre::start();
        centre.create("orders", &format!(", step => 30, {}", stripe.arguments()));
        let shard = centre.shard();
        attach(&shard, "orders", 30);
        let mut client = shard.connect();
        let mut ids = draw_many(&mut client, "orders", 500);
        let block = client.reserve("orders", WIDTH).expect("a block");
        ids.extend(block.ids());
        assert!(ids.iter().all(|&id| stripe.has(id)), "{stripe:?}: {ids:?}");
        ledger.add(ids);
    }
}

#[test]
fn fed_tag_has_no_stripe() {
    let centre = Centre::start();
    centre.create("orders", "");
    centre.create("plain", "");
    let shard = centre.shard();
    let mut client = shard.connect();
    Stripe::of(4, 1).create(&mut client, "");
    let attached = client.batch_execute("SELECT leaf_tag_attach('orders')");
    refused(attached, "55000");
    assert_eq!(client.next("orders").expect("an id"), 100);
    attach(&shard, "plain", 10);
    client.next("plain").expect("an id");
}
