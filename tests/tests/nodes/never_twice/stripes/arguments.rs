//! What cannot be a stripe is refused, with a hint.

use super::{Stripe, striped};
use leaf_tests::{Draw, Server, refused};

#[test]
fn stripe_that_cannot_be_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    for arguments in [
        "stripes => 4",
        "stripe => 1",
        "stripe_width => 100",
        "stripes => 4, stripe_width => 100",
        "stripe => 0, stripe_width => 100",
        "stripes => 0, stripe => 0",
        "stripes => -4, stripe => 1",
        "stripes => -2147483648, stripe => -2147483648",
        "stripes => 4, stripe => 4",
        "stripes => 4, stripe => -1",
        "stripes => 4, stripe => 2147483647",
        "stripes => 4, stripe => 1, stripe_width => 0",
        "stripes => 4, stripe => 1, stripe_width => -9223372036854775808",
        "stripes => 4, stripe => 1, stripe_width => 999",
        "stripes => 4, stripe => 1, stripe_width => 1000, step => 1001",
        "stripes => 2, stripe => 1, stripe_width => 9223372036854775807",
        "stripes => 2147483647, stripe => 1, stripe_width => 9223372036854775807",
        "stripes => 2147483647, stripe => 2147483646, stripe_width => 4294967299",
        // No number of the stripe up to max_value, or up to the end of bigint.
        "stripes => 4, stripe => 1, max_value => 999999",
        "stripes => 4, stripe => 3, start => 9223372036854775800",
    ] {
        let create = format!("SELECT leaf_tag_create('orders', {arguments})");
        let result = client.batch_execute(&create);
        assert!(result.is_err(), "{arguments}");
        refused(result, "22023");
    }
    // These are odd, but they can be.
    for arguments in [
        "stripes => 1, stripe => 0",
        "stripes => 1, stripe => 0, stripe_width => 1",
        "stripes => 2147483647, stripe => 0, stripe_width => 4294967298",
        "stripes => 4, stripe => 1, stripe_width => 1, step => 1",
        "stripes => 4, stripe => 1, max_step => 2000000",
    ] {
        client.run(&format!("SELECT leaf_tag_create('orders', {arguments})"));
        client.batch("orders", 100).expect("ids");
        client.run("SELECT leaf_tag_drop('orders')");
    }
}

#[test]
fn step_stays_within_a_block() {
    let (_server, mut client) = striped();
    let alter = client.batch_execute("SELECT leaf_tag_alter('orders', step => 101)");
    refused(alter, "22023");
    client.run("SELECT leaf_tag_alter('orders', step => 100)");
    // Of plain SQL, segments are cut.
    client.run("UPDATE leaf.alloc SET step = 1000");
    let ids = client.batch("orders", 300).expect("ids");
    assert!(ids.iter().all(|&id| Stripe::of(4, 1).has(id)), "{ids:?}");
}

#[test]
fn rows_that_have_no_stripe_that_can_be_are_refused() {
    let server = Server::start();
    let mut client = server.connect();
    for values in [
        "0, 0, 1",
        "4, 4, 1",
        "4, -1, 1",
        "4, 0, 0",
        "2, 0, 4611686018427387904",
        "2147483647, 0, 9223372036854775807",
    ] {
        let insert = "INSERT INTO leaf.alloc (biz_tag, step, stripes, stripe, stripe_width) VALUES";
        client.fails(&format!("{insert} ('orders', 1, {values})"), "23514");
    }
}

#[test]
fn existing_tag_with_another_stripe_is_no_match() {
    let (_server, mut client) = striped();
    let create = |stripe: Stripe| {
        format!(
            "SELECT leaf_tag_create('orders', step => 30, if_not_exists => true, {})",
            stripe.arguments()
        )
    };
    client.run(&create(Stripe::of(4, 1)));
    for other in [
        Stripe::of(2, 1),
        Stripe::of(4, 2),
        Stripe::of(8, 1),
        Stripe::of(3, 1),
    ] {
        refused(client.batch_execute(&create(other)), "55000");
    }
    client.run("SELECT leaf_tag_create('orders', if_not_exists => true)");
    client.run("SELECT leaf_tag_create('others')");
    let others = create(Stripe::of(4, 1)).replace("orders", "others");
    refused(client.batch_execute(&others), "55000");
}
