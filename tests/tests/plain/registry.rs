//! The registry of worker ids: that every one is found, and what clocks do to services.

use std::collections::BTreeSet;
use std::time::Duration;

use leaf_tests::{Clock, Draw, INSTALLER, Ledger, Serve, Server, Snowflake, refused, wait_until};

/// A layout with 32 worker ids: also those that copies of the registry choose at random, and those
/// of registrations that are open at the same time.
#[test]
fn every_worker_id_is_leased_once_and_no_other() {
    for history in ["history", "'elsewhere'"] {
        let server = Server::options().plain().start();
        let mut client = server.connect_as(INSTALLER, "postgres");
        client.run("UPDATE leaf.plain SET snowflake_layout = 'js53'");
        let mut open: Vec<_> = (0..3)
            .map(|_| server.connect_as(INSTALLER, "postgres"))
            .collect();
        let mut leased = BTreeSet::new();
        for (number, other) in open.iter_mut().enumerate() {
            other.run("BEGIN");
            let lease = other
                .register(&format!("'open {number}'"))
                .expect("a lease");
            assert!(leased.insert(lease.worker_id), "{leased:?} {lease:?}");
        }
        open.iter_mut().for_each(|other| other.run("COMMIT"));
        let highest = client.register("'highest', 31").expect("a lease");
        leased.insert(highest.worker_id);
        client.run(&format!(
            "UPDATE leaf.worker SET history = {history} WHERE node = 'open 1'"
        ));
        for number in leased.len()..32 {
            let lease = client
                .register(&format!("'node {number}'"))
                .expect("a lease");
            assert!(leased.insert(lease.worker_id), "{leased:?} {lease:?}");
        }
        refused(client.register("'one more'"), "53400");
        assert_eq!(leased, (0..32).collect());
    }
}

/// One node has the machine's clock, the other the server's, and nodes come and go meanwhile.
#[test]
fn stepped_clocks_repeat_no_id() {
    let server = Server::options().plain().clock().start();
    let folder = tempfile::tempdir().expect("a folder");
    let own = Clock::new(folder.path());
    let serve = |node: &str, clock: Option<&Clock>| {
        let node = format!("--node={node}");
        let mut command = Serve::command(&server.connection_string(), &[&node, "--wait=100ms"]);
        if let Some(clock) = clock {
            clock.drive(&mut command);
        }
        Serve::launch(&mut command)
    };
    let nodes = [
        serve("a", None),
        serve("b", Some(server.clock())),
        serve("c", Some(&own)),
    ];
    let mut ledger = Ledger::new();
    let mut draw = |serve: &Serve| {
        let answer = serve.get("/v1/snowflake?count=100");
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        answer.status == 200 && {
            ledger.add(answer.ids());
            true
        }
    };
    let mut round = 0;
    for seconds in [30, 600] {
        for is_back in [true, false] {
            for clock in [server.clock(), &own] {
                // Node b has issued ids of a time to come, once both clocks have been ahead.
                for node in [&nodes[0], &nodes[2]] {
                    wait_until("ids come", || draw(node));
                }
                let by = Duration::from_secs(seconds);
                match is_back {
                    true => clock.behind(by),
                    false => clock.ahead(by),
                }
                round += 1;
                let new = serve(&format!("{round}"), Some(clock));
                for _ in 0..5 {
                    nodes.iter().for_each(|node| _ = draw(node));
                    _ = draw(&new);
                }
                clock.right();
                _ = draw(&new);
            }
        }
    }
    assert!(ledger.len() > 2_000, "{} ids", ledger.len());
}
