//! What doctor finds of a centre.

use super::findings;
use leaf_tests::{Centre, Draw, Mode, Server, attach, refused, wait_until};

/// No tag was attached, and no database has a centre: there is nothing to be found.
#[test]
fn a_mistyped_attach_leaves_nothing_behind() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE ROLE clerk LOGIN; GRANT pg_monitor TO clerk");
    client.fails("SELECT leaf_tag_attach('orders')", "55000");
    assert_eq!(
        client.number("SELECT count(*) FROM leaf.stat_upstream WHERE failures > 0"),
        0
    );
    let (code, found) = findings(&server);
    assert_eq!((code, found.len()), (Some(0), 0), "{found:?}");
}

#[test]
fn a_centre_that_refuses_has_answered() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 100);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('missing')");
    refused(
        client.batch_execute("SELECT leaf_tag_attach('missing')"),
        "55000",
    );
    let (code, found) = findings(&shard);
    assert_eq!(code, Some(0), "{found:?}");
    let shown = client.text("SELECT last_error FROM leaf.stat_upstream");
    assert!(
        shown.contains("missing") && !shown.contains("\\n"),
        "{shown}"
    );
}

#[test]
fn centre_that_does_not_answer_is_found() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let mut shard = centre.shard();
    attach(&shard, "orders", 100);
    shard.restart(Mode::Fast);
    let (code, found) = findings(&shard);
    assert_eq!(code, Some(0), "{found:?}");
    assert!(
        found[0].starts_with("notice centre: it has not been asked"),
        "{found:?}"
    );
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    assert_eq!(findings(&shard).0, Some(0));
    centre.0.stop(Mode::Immediate);
    client.run("SET leaf.wait_timeout = '1s'");
    wait_until("the buffers are empty", || client.next("orders").is_err());
    wait_until("the shard has noticed", || {
        let sql = "SELECT (last_error_at > last_answer_at)::int::bigint FROM leaf.stat_upstream";
        client.number(sql) == 1
    });
    let (code, found) = findings(&shard);
    assert_eq!(code, Some(4));
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("error centre: it last answered at")),
        "{found:?}"
    );

    shard.reload("leaf.upstream", "");
    let (_, found) = findings(&shard);
    assert!(
        found
            .iter()
            .any(|it| it
                .starts_with("error centre: there are fed tags, but leaf.upstream is not set")),
        "{found:?}"
    );
}
