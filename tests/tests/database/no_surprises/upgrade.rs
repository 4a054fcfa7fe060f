//! `pg_upgrade`, from the version that `LEAF_PG_BINDIR_OLD` stands for to the one
//! under test; without it, to another cluster of the same version.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, Snowflake, draw_many, refused};

/// The server that is to be upgraded.
pub fn old() -> Server {
    Server::options().old().start()
}

/// A new server with what the old one has, which is stopped.
pub fn upgraded(mut old: Server) -> Server {
    old.stop(Mode::Fast);
    let mut new = Server::options().fresh().bare().start();
    new.stop(Mode::Fast);
    new.upgrade_from(&old);
    new.start_again();
    new
}

/// All that the catalog and the registry of a database say.
fn rows(client: &mut Client) -> String {
    client.text(
        "SELECT (SELECT string_agg(a::text, E'\\n' ORDER BY biz_tag) FROM leaf.alloc AS a) || E'\\n' ||
                (SELECT string_agg(w::text, E'\\n' ORDER BY worker_id) FROM leaf.worker AS w)",
    )
}

#[test]
fn upgraded_cluster_keeps_tags_owners_and_grants() {
    let mut old = old();
    let mut admin = old.connect();
    admin.run(
        "CREATE ROLE owner LOGIN; CREATE ROLE grantee LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE leaver;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO owner;
         GRANT SET ON PARAMETER leaf.clock_policy TO owner;
         ALTER ROLE owner SET leaf.wait_timeout = '7s';
         SET ROLE owner;
         SELECT leaf_tag_create('orders', step => 10, start => 1000, max_value => 1000000, description => 'kept');
         SELECT leaf_tag_grant('orders', 'grantee'), leaf_tag_grant('orders', 'leaver');
         SELECT leaf_tag_create('open'), leaf_tag_grant('open', 'PUBLIC');
         RESET ROLE;
         DROP ROLE leaver",
    );
    let drawn = draw_many(&mut admin, "orders", 500).pop().expect("an id");
    admin.snowflakes(10).expect("ids");
    drop(admin);
    // Nobody asks for ids any more, so the rows stay as they are.
    old.restart(Mode::Fast);
    let mut admin = old.connect();
    let before = rows(&mut admin);
    let highest = admin.number(
        "SELECT max_id + current_setting('leaf.history_skip')::bigint * (last_grant + largest_reserve)
           FROM leaf.alloc WHERE biz_tag = 'orders'",
    );
    drop(admin);
    let new = upgraded(old);
    assert_eq!(rows(&mut new.connect()), before);

    let [mut owner, mut grantee, mut stranger] =
        ["owner", "grantee", "stranger"].map(|role| new.connect_as(role, "postgres"));
    let next = grantee.next("orders").expect("an id");
    // As far as the first grant in another history skips, and no farther.
    assert!(next > drawn, "{drawn}, then {next}");
    assert!(next <= highest, "{next} instead of {highest} at most");
    stranger.next("open").expect("an id");
    refused(stranger.next("orders"), "42501");
    let grant = "SELECT leaf_tag_grant('orders', 'stranger')";
    refused(grantee.batch_execute(grant), "42501");
    owner.run(grant);
    stranger.next("orders").expect("an id");
    owner.run("SET leaf.clock_policy = 'wait'; SELECT leaf_tag_create('another')");
    assert_eq!(owner.text("SHOW leaf.wait_timeout"), "7s");
    for statement in [
        "SET leaf.clock_policy = 'wait'",
        "SELECT leaf_tag_create('mine')",
    ] {
        stranger.fails(statement, "42501");
    }
}
