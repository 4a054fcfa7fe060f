//! A stripe is divided.

use super::{Drawn, Stripe, WIDTH, node, striped};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, draw_many, refused, wait_until};

fn restripe(client: &mut Client, arguments: &str) -> Result<(), leaf_tests::postgres::Error> {
    client.batch_execute(&format!("SELECT leaf_tag_restripe('orders', {arguments})"))
}

/// Stripe 1 of 4 up to a bound, then 5 of 8.
fn divided(start: i64, bound: i64) -> impl Iterator<Item = i64> {
    let below = Stripe::of(4, 1)
        .from(start)
        .take_while(move |&id| id < bound);
    below.chain(Stripe::of(8, 5).from(bound.max(start)))
}

#[test]
fn finer_cut_applies_from_its_bound_on() {
    let (mut server, mut client) = striped();
    let mut ids = draw_many(&mut client, "orders", 110);
    // Not at the end of a block.
    restripe(&mut client, "8, 5, 2150").expect("it is finer");
    // Again, as after an answer that was lost.
    restripe(&mut client, "8, 5, 2150").expect("it is the same");
    ids.extend(draw_many(&mut client, "orders", 300));
    drop(client);
    server.restart(Mode::Immediate);
    let mut client = server.connect();
    // What was in memory is lost in a crash.
    let start = client.stat("orders", "position");
    let after = draw_many(&mut client, "orders", 600);
    assert_eq!(ids, Stripe::of(4, 1).from(1).take(410).collect::<Vec<_>>());
    assert_eq!(after, divided(start, 2_150).take(600).collect::<Vec<_>>());
    assert!(start < 2_150 && after[599] > 4_000);
    restripe(&mut client, "8, 5, 2150").expect("it is the same");
    // And once more, and not before that applies.
    let bound = client.number("SELECT max_id + 1000 FROM leaf.alloc");
    restripe(&mut client, &format!("16, 13, {bound}")).expect("it is finer");
    let error = restripe(&mut client, &format!("32, 29, {}", bound + 5_000));
    refused(error, "55000");
    client.run(&format!(
        "SELECT leaf_tag_alter('orders', advance_to => {bound})"
    ));
    restripe(&mut client, &format!("32, 29, {}", bound + 5_000)).expect("it is finer");
    let expected: Vec<i64> = Stripe::of(16, 13).from(bound).take(200).collect();
    assert_eq!(draw_many(&mut client, "orders", 200), expected);
}

#[test]
fn reserved_blocks_do_not_cross_the_bound() {
    let (_server, mut client) = striped();
    restripe(&mut client, "8, 5, 550").expect("it is finer");
    let mut reserve = |count| client.reserve("orders", count).expect("a block").first;
    assert_eq!(reserve(WIDTH), 100);
    assert_eq!(reserve(20), 500);
    assert_eq!(reserve(31), 550);
    assert_eq!(reserve(19), 581);
    assert_eq!(reserve(WIDTH), 1_300);
}

#[test]
fn ids_in_memory_remain_valid() {
    let (_server, mut client) = striped();
    let first = client.next("orders").expect("an id");
    let block = client.reserve("orders", 20).expect("a block");
    restripe(&mut client, "8, 5, 1000").expect("it is finer");
    assert_eq!(client.next("orders").expect("an id"), first + 1);
    // They are not taken back over the change.
    let give_back = format!(
        "SELECT leaf_segment_return('orders', '[{},{}]')::int::bigint",
        block.first, block.last
    );
    assert_eq!(client.number(&give_back), 0);
}

#[test]
fn change_takes_effect_at_commit_and_a_rollback_undoes_it() {
    let (server, mut client) = striped();
    let mut other = server.connect();
    let before = other.next("orders").expect("an id");
    client.run("BEGIN");
    restripe(&mut client, "8, 5, 150").expect("it is finer");
    // The row is locked; what is in memory is drawn meanwhile.
    assert_eq!(other.next("orders").expect("an id"), before + 1);
    client.run("ROLLBACK");
    let ids = draw_many(&mut other, "orders", 300);
    let expected: Vec<i64> = Stripe::of(4, 1).from(before + 2).take(300).collect();
    assert_eq!(ids, expected);

    let bound = client.number("SELECT max_id + 300 FROM leaf.alloc");
    let divide = format!("8, 5, {bound}");
    client.run("BEGIN; SAVEPOINT s");
    restripe(&mut client, "8, 1, 1000000").expect("it is finer");
    client.run("ROLLBACK TO s");
    restripe(&mut client, &divide).expect("it is finer");
    client.run("COMMIT");
    let last = ids[299];
    let ids = draw_many(&mut other, "orders", 800);
    assert_eq!(ids, divided(last + 1, bound).take(800).collect::<Vec<_>>());
}

#[test]
fn what_is_not_provably_safe_is_refused() {
    let (_server, mut client) = striped();
    draw_many(&mut client, "orders", 300);
    for (arguments, code) in [
        // Numbers that are another node's.
        ("8, 2, 1000000", "22023"),
        ("8, 0, 1000000", "22023"),
        ("6, 1, 1000000", "22023"),
        ("2, 1, 1000000", "22023"),
        ("1, 0, 1000000", "22023"),
        ("4, 1, 1000000", "22023"),
        ("8, 1, 1000000, stripe_width => 50", "22023"),
        ("8, 1, 1000000, stripe_width => 200", "22023"),
        // No stripe at all.
        ("0, 0, 1000000", "22023"),
        ("8, 8, 1000000", "22023"),
        ("8, -1, 1000000", "22023"),
        ("NULL, 1, 1000000", "22023"),
        ("8, NULL, 1000000", "22023"),
        ("8, 1, NULL", "22023"),
        ("8, 1, 1000000, stripe_width => 0", "22023"),
        // Numbers that are granted.
        ("8, 1, 500", "55000"),
        ("8, 1, -1000000", "55000"),
    ] {
        let result = restripe(&mut client, arguments);
        assert!(result.is_err(), "{arguments}");
        refused(result, code);
    }
    // Up to the last one that is granted.
    let granted = client.number("SELECT max_id FROM leaf.alloc");
    let passed = restripe(&mut client, &format!("8, 1, {}", granted - 1));
    let error = refused(passed, "55000");
    let detail = error.detail().expect("a detail");
    assert!(
        detail.contains(&format!("up to {}", granted - 1)),
        "{error:?}"
    );
    restripe(
        &mut client,
        &format!("8, 1, {granted}, stripe_width => 100"),
    )
    .expect("it is safe");
    // A tag that has all numbers has no width yet.
    client.run("SELECT leaf_tag_create('plain', step => 500)");
    let narrow = "SELECT leaf_tag_restripe('plain', 4, 1, 1000000, 499)";
    refused(client.batch_execute(narrow), "22023");
    client.run("SELECT leaf_tag_restripe('plain', 4, 1, 1000000, 500)");
    refused(
        client.batch_execute("SELECT leaf_tag_restripe('nosuch', 4, 1, 5)"),
        "42704",
    );
    client.run("CREATE ROLE joe; SET ROLE joe");
    refused(restripe(&mut client, "16, 1, 1000000"), "42501");
}

/// Ids were seen although their grants were rolled back.
#[test]
fn bound_that_a_rolled_back_draw_has_passed_is_refused() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("BEGIN");
    Stripe::of(4, 1).create(&mut client, "");
    client.run("SAVEPOINT s");
    let highest = draw_many(&mut client, "orders", 500)[499];
    client.run("ROLLBACK TO s");
    assert!(client.number("SELECT max_id FROM leaf.alloc") < highest);
    client.run("SAVEPOINT t");
    refused(restripe(&mut client, &format!("8, 5, {highest}")), "55000");
    client.run("ROLLBACK TO t");
    restripe(&mut client, &format!("8, 5, {}", highest + 1)).expect("it is finer");
    let ids = draw_many(&mut client, "orders", 300);
    client.run("COMMIT");
    let expected: Vec<i64> = Stripe::of(8, 5).from(highest + 1).take(300).collect();
    assert_eq!(ids, expected);
}

/// It may have missed grants of its primary, which it skips at its first own one.
#[test]
fn promoted_standby_refuses_a_bound_that_its_primary_may_have_passed() {
    let primary = Server::options().set("leaf.max_step", "30").start();
    Stripe::of(4, 1).create(&mut primary.connect(), "");
    draw_many(&mut primary.connect(), "orders", 10);
    let mut standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    standby.stop(Mode::Fast);
    let missed = *draw_many(&mut primary.connect(), "orders", 200)
        .last()
        .expect("ids");
    drop(primary);
    standby.start_again();
    let mut client = standby.promote();
    assert!(client.number("SELECT max_id FROM leaf.alloc") < missed);
    refused(restripe(&mut client, &format!("8, 5, {missed}")), "55000");
    restripe(&mut client, "8, 5, 100000").expect("it is finer");
    assert!(client.next("orders").expect("an id") > missed);
}

/// Four nodes become eight while they draw, on two servers.
#[test]
fn four_nodes_become_eight_under_load() {
    let (here, there) = (Server::start(), Server::options().fresh().start());
    let server = |number: usize| if number < 2 { &here } else { &there };
    let names = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"];
    for (number, name) in names[..4].iter().enumerate() {
        Stripe::of(4, number as i64).create(&mut node(server(number), name), "");
    }
    let drawn = Drawn::default();
    let far = |name: &str, id: i64| {
        wait_until("a node has drawn", || drawn.highest(name) > id);
    };
    let old: Vec<_> = (0..4)
        .map(|number| (server(number), names[number]))
        .collect();
    let mut bound = 0;
    drawn.draw_of(&old, || {
        for name in &names[..4] {
            far(name, 2_000);
        }
        // Safely above all positions, as far as is known; who has passed it tells, and gets
        // a larger one.
        for (number, name) in names[..4].iter().enumerate() {
            let mut client = server(number).connect_as("postgres", name);
            loop {
                bound = bound.max(drawn.highest(name) + 3_000);
                match restripe(&mut client, &format!("8, {number}, {bound}")) {
                    Ok(()) => break,
                    error => refused(error, "55000"),
                };
            }
        }
        // The new ones begin at the largest of the bounds.
        for (number, name) in names.iter().enumerate().skip(4) {
            let mut client = node(server(number - 4), name);
            Stripe::of(8, number as i64).create(&mut client, &format!(", start => {bound}"));
        }
        let new: Vec<_> = (4..8)
            .map(|number| (server(number - 4), names[number]))
            .collect();
        drawn.draw_of(&new, || {
            for name in names {
                far(name, bound + 10_000);
            }
        });
    });
    let ids = drawn.0.into_inner().expect("no panic");
    for (&id, name) in &ids {
        let number = names.iter().position(|it| it == name).expect("a node") as i64;
        let stripe = match id < bound {
            true => Stripe::of(4, number),
            false => Stripe::of(8, number),
        };
        // Of a node with a smaller bound, some are of the finer cut already.
        assert!(stripe.has(id), "{name} has drawn {id}");
    }
}
