//! What doctor finds of the nodes of Citus, whose catalogs and answers are imitated.

use super::{findings, finds};
use leaf_tests::{Draw, Server, join_citus};
use postgres::Client;

/// A coordinator that finds this server and two workers, which answer as it does but for what the
/// table `workers` says.
fn coordinator() -> (Server, Client) {
    let (server, mut client) = Server::with_orders(100);
    join_citus(&mut client, 0);
    client.run(
        "SET allow_system_table_mods = on;
         CREATE TABLE workers (nodeid integer, success boolean, says jsonb);
         CREATE FUNCTION pg_catalog.run_command_on_all_nodes(command text)
             RETURNS TABLE (nodeid integer, success boolean, result text) LANGUAGE plpgsql AS $$
         BEGIN
             EXECUTE command INTO result;
             RETURN QUERY SELECT 1, true, result
                 UNION ALL SELECT w.nodeid, w.success, (result::jsonb || w.says)::text FROM public.workers AS w;
         END $$;
         RESET allow_system_table_mods",
    );
    say(&mut client, "{}", "{}");
    (server, client)
}

/// Sets what the workers say that the coordinator does not.
fn say(client: &mut Client, second: &str, third: &str) {
    client.run(&format!(
        r#"TRUNCATE workers;
           INSERT INTO workers SELECT nodeid, true, format('{{"group": %s, "worker_id": %s, "is_shard": true, "tags": {{"orders": "fed"}}}}',
                                                           nodeid - 1, nodeid)::jsonb || says::jsonb
             FROM (VALUES (2, '{second}'), (3, '{third}')) AS v (nodeid, says)"#
    ));
}

#[test]
fn nodes_that_are_set_up_alike_are_right() {
    let (server, _client) = coordinator();
    assert_eq!(findings(&server), (Some(0), vec![]));
}

#[test]
fn what_is_wrong_between_the_nodes_is_found() {
    let (server, mut client) = coordinator();
    for (second, third, expected) in [
        (
            r#"{"tags": null}"#,
            r#"{"tags": {"other": "fed"}}"#,
            "error tag \"orders\": nodes do not have it, so inserts fail there: 2, 3",
        ),
        (
            "{}",
            r#"{"tags": {"orders": "all"}}"#,
            "error tag \"orders\": workers grant nothing, because other nodes may hand out the same ids: 3",
        ),
        (
            r#"{"tags": {"orders": "stripe 1 of 64"}}"#,
            r#"{"tags": {"orders": "stripe 1 of 64"}}"#,
            "error tag \"orders\": nodes have the same stripe 1 of 64: 2, 3",
        ),
        (
            r#"{"worker_id": 7}"#,
            r#"{"worker_id": 7}"#,
            "error snowflake ids: nodes have the same worker id, 7: 2, 3",
        ),
        (
            "{}",
            r#"{"is_shard": false}"#,
            "error centre: leaf.upstream is set on other workers, and not on nodes 3",
        ),
        (
            "{}",
            r#"{"settings": {"leaf.snowflake_layout": "js53"}}"#,
            "warning leaf.snowflake_layout: nodes differ: 'js53', 'leaf'",
        ),
    ] {
        say(&mut client, second, third);
        let (code, found) = findings(&server);
        assert_eq!(code, Some(4), "{expected}: {found:?}");
        assert!(
            found.iter().any(|it| it == expected),
            "{expected}: {found:?}"
        );
    }
    say(&mut client, "{}", "{}");
    client.run("UPDATE workers SET success = false WHERE nodeid = 3");
    finds(&server, "warning node 3: it does not answer: ");
    client.run(
        "UPDATE workers SET success = true; INSERT INTO pg_dist_partition VALUES ('leaf.alloc')",
    );
    finds(
        &server,
        "error table leaf.alloc: Citus spreads it over nodes",
    );
}
