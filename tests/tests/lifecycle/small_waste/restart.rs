//! A clean restart goes on where it stopped; a crash loses at most two buffers.

use crate::never_twice::history::primary;
use crate::never_twice::restart::drawn;
use leaf_tests::{Draw, Mode};

#[test]
fn clean_restart_goes_on_without_a_gap() {
    let (mut server, mut last) = drawn();
    for mode in [Mode::Fast, Mode::Smart, Mode::Fast] {
        server.restart(mode);
        let mut client = server.connect();
        let ids = client.batch("orders", 300).expect("ids");
        assert_eq!(ids[0], last + 1);
        last = ids[299];
        assert_eq!(last, ids[0] + 299);
    }
}

#[test]
fn clean_restart_needs_no_first_load() {
    let (mut server, last) = drawn();
    server.restart(Mode::Fast);
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.alloc IN EXCLUSIVE MODE");
    assert_eq!(server.connect().next("orders").expect("no load"), last + 1);
}

#[test]
fn crash_loses_at_most_two_buffers() {
    for mode in [Some(Mode::Immediate), None] {
        let (mut server, last) = drawn();
        let mut client = server.connect();
        let unused = client.stat("orders", "current_left") + client.stat("orders", "next_left");
        match mode {
            Some(mode) => server.stop(mode),
            None => server.kill_postmaster(),
        }
        server.start_again();
        let next = server.connect().next("orders").expect("an id");
        assert!(next > last);
        assert!(
            next <= last + 1 + unused,
            "{last}, then {next}; {unused} unused"
        );
    }
}

#[test]
fn crash_is_not_another_history() {
    let mut server = primary();
    let mut last = server.connect().next("orders").expect("an id");
    for _ in 0..3 {
        server.restart(Mode::Immediate);
        let id = server.connect().next("orders").expect("an id");
        assert!(id > last && id <= last + 2_000, "{last}, then {id}");
        last = id;
    }
}
