//! How much shared memory tags take, and what lies beside their slots.

use std::collections::HashMap;

use leaf_tests::{Draw, Ledger, Mode, Server, refused};

#[test]
fn tag_takes_640_bytes_of_shared_memory_at_most() {
    let mut server = Server::options().set("leaf.max_tags", "1000").start();
    let mut allocated = |max_tags: i64| {
        server.configure(&format!("leaf.max_tags = {max_tags}\n"));
        server.restart(Mode::Fast);
        server.connect().number(
            "SELECT sum(allocated_size)::bigint FROM pg_shmem_allocations WHERE name ILIKE 'leaf%'",
        )
    };
    let few = allocated(1_000);
    let per_tag = (allocated(101_000) - few) / 100_000;
    println!("{per_tag} bytes of shared memory per tag");
    assert!(per_tag <= 640, "{per_tag}");
}

/// Names of 384 bytes, more than there is room for at once.
#[test]
fn long_names_evict_each_other_and_repeat_no_id() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create(repeat('語', 120) || n, step => 5) FROM generate_series(1000, 1199) AS n");
    let mut drawn: HashMap<String, Ledger> = HashMap::new();
    for _ in 0..3 {
        for n in 1_000..1_200 {
            let tag = "語".repeat(120) + &n.to_string();
            let id = client.next(&tag).expect("an id");
            drawn.entry(tag).or_default().add([id]);
        }
    }
    assert!(
        drawn
            .values()
            .all(|ids| ids.len() == 3 && ids.highest() < 50)
    );
    let in_memory = client.number("SELECT count(*) FROM leaf_segment_slots()");
    assert!(in_memory <= 128, "{in_memory}");
    // One that is dropped makes room.
    client.run("SELECT leaf_tag_drop(biz_tag::text) FROM leaf.alloc");
    client.run("SELECT leaf_tag_create(repeat('鬱', 128), start => 7)");
    assert_eq!(client.next(&"鬱".repeat(128)).expect("an id"), 7);
}

/// More reasons than are kept.
#[test]
fn last_error_of_a_tag_is_its_own_or_in_the_log() {
    let server = Server::options().set("leaf.wait_timeout", "10ms").start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('tag' || n) FROM generate_series(1000, 1149) AS n;
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'no grant of %', new.biz_tag; END $$;
         CREATE TRIGGER fail BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION fail()",
    );
    for n in 1_000..1_150 {
        loop {
            refused(client.next(&format!("tag{n}")), "55P03");
            let seen =
                format!("SELECT count(last_error) FROM leaf.stat_segment WHERE biz_tag = 'tag{n}'");
            if client.number(&seen) == 1 {
                break;
            }
        }
    }
    let count = |client: &mut leaf_tests::postgres::Client, pattern: &str| {
        client.number(&format!(
            "SELECT count(*) FROM leaf.stat_segment WHERE last_error LIKE {pattern}"
        ))
    };
    let own = count(&mut client, "'%no grant of ' || biz_tag || '%'");
    let in_log = count(&mut client, "'not kept any more: see the server''s log'");
    let of_others = count(
        &mut client,
        "'%no grant of %' AND last_error NOT LIKE '%no grant of ' || biz_tag || '%'",
    );
    assert_eq!(of_others, 0);
    assert!(own >= 64 && in_log >= 10, "{own}, {in_log}");
}
