//! The length of a segment follows how fast it is used.

use leaf_tests::{Draw, Server, draw_many, wait_until};

#[test]
fn busy_tag_reaches_long_segments_within_a_few_loads() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('busy', step => 100)");
    draw_many(&mut client, "busy", 2_000_000);
    assert!(client.stat("busy", "step") >= 50_000);
    // Doubling alone takes nine loads to get from 100 to 50,000.
    let loads = client.stat("busy", "loads");
    assert!(loads < 100, "{loads} loads");
}

#[test]
fn step_stays_within_its_bounds() {
    let server = Server::options().set("leaf.max_step", "5000").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('busy', step => 100)");
    for _ in 0..30 {
        draw_many(&mut client, "busy", 10_000);
        let step = client.stat("busy", "step");
        assert!((100..=5_000).contains(&step), "{step}");
    }
    assert_eq!(client.stat("busy", "step"), 5_000);
    // Grants ahead of what was drawn are the two buffers, no more.
    let ahead = client.stat("busy", "granted_up_to") - client.stat("busy", "position");
    assert!(ahead <= 2 * 5_000 + 1, "{ahead}");
}

#[test]
fn first_segment_is_the_rows_step() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('quiet', step => 123)");
    client.next("quiet").expect("an id");
    assert_eq!(
        client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'quiet'"),
        1 + 123
    );
}

#[test]
fn quiet_tag_returns_to_shorter_segments() {
    let server = Server::options().set("leaf.segment_duration", "1s").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('tide', step => 100)");
    draw_many(&mut client, "tide", 100_000);
    let high = client.stat("tide", "step");
    assert!(high >= 3_200, "{high}");
    // A segment that lasts more than two seconds halves the next.
    let portion = (high / 40) as i32;
    wait_until("the step falls", || {
        client.batch("tide", portion).expect("ids");
        std::thread::sleep(std::time::Duration::from_millis(100));
        client.stat("tide", "step") < high
    });
    assert!(client.stat("tide", "step") >= 100);
}

#[test]
fn prefetch_can_be_turned_off() {
    let server = Server::options()
        .set("leaf.prefetch_threshold", "100")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('plain', step => 100)");
    client.batch("plain", 99).expect("ids");
    assert_eq!(client.stat("plain", "loads"), 1);
    assert_eq!(client.stat("plain", "next_left"), 0);
    draw_many(&mut client, "plain", 5_000);
}

#[test]
fn next_segment_is_fetched_before_it_is_needed() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('plain', step => 1000)");
    client.batch("plain", 150).expect("ids");
    wait_until("the next segment is ready", || {
        client.stat("plain", "next_left") > 0
    });
    assert!(client.stat("plain", "current_left") > 0);
    let waits = client.stat("plain", "waits");
    client.batch("plain", 1_000).expect("ids");
    assert_eq!(client.stat("plain", "waits"), waits);
}

#[test]
fn next_segment_is_fetched_when_the_set_percentage_is_used() {
    let server = Server::options()
        .set("leaf.prefetch_threshold", "50")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 1000)");
    draw_many(&mut client, "orders", 500);
    // The loader serves requests in order, so a block that it has granted shows that it has
    // not been asked for a segment before.
    client.reserve("orders", 1).expect("a block");
    assert_eq!(client.stat("orders", "loads"), 1);
    client.next("orders").expect("an id");
    wait_until("the next segment is fetched", || {
        client.stat("orders", "loads") == 2
    });
}
