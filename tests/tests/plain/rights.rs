//! Functions run as their owner: nobody gets more by them than was granted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leaf_tests::postgres::Client;
use leaf_tests::{
    Draw, INSTALLER, Said, Server, Snowflake, failed, leafctl_on, refused, wait_until,
};

/// What leafctl has found is what it reads: the owner can neither hold it up between the two, nor move tables to and
/// fro so that it finds one thing by the snapshot and another by its name.
#[test]
fn leafctl_runs_nothing_of_an_owner_who_moves_tables() {
    let server = Server::options().plain().start();
    let [mut owner, mut mover] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    owner.run(HOSTILE);
    owner.run(
        "CREATE TABLE evil.rows AS SELECT * FROM leaf.stat_segment LIMIT 0;
         ALTER VIEW leaf.stat_segment RENAME TO stat_segment0;
         CREATE VIEW leaf.stat_segment AS SELECT * FROM evil.rows WHERE (SELECT evil.ran());
         DROP TRIGGER leaf_check ON leaf.alloc;
         CREATE TRIGGER leaf_check BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
         ALTER SCHEMA leaf RENAME TO stash;
         CREATE SCHEMA leaf",
    );
    let status = || Said::by(leafctl_on(&server).arg("status"));
    owner.run(
        "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
         ALTER DATABASE postgres SET default_transaction_deferrable = on",
    );
    owner.run("BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE; SELECT");
    thread::scope(|scope| {
        let command = scope.spawn(status);
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_safe_snapshot_blocking_pids(pid)) > 0";
        wait_until("leafctl ends", || {
            assert_eq!(mover.number(waits), 0, "leafctl waits for the owner");
            command.is_finished()
        });
    });
    owner.run("ROLLBACK; ALTER DATABASE postgres RESET ALL");
    let moves = |from: &str, to: &str| {
        format!(
            "ALTER TABLE {from}.plain SET SCHEMA {to}; ALTER VIEW {from}.stat_segment SET SCHEMA {to};
             ALTER TABLE {from}.alloc SET SCHEMA {to}"
        )
    };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                mover.run(&moves("stash", "leaf"));
                mover.run("SELECT pg_sleep(0.004)");
                mover.run(&moves("leaf", "stash"));
            }
        });
        for _ in 0..200 {
            status();
        }
        ended.store(true, Ordering::Relaxed);
    });
    let log = server.log();
    assert!(!log.contains("it ran as postgres"), "{log}");
}

/// A server with the tag `orders` of role `shop`, and roles without rights.
fn shop() -> (Server, Client) {
    let server = Server::options().plain().start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    server.connect().run(
        "CREATE ROLE shop LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE stranger LOGIN;
         GRANT CREATE ON SCHEMA public TO stranger",
    );
    client.run("GRANT EXECUTE ON FUNCTION leaf_tag_create TO shop");
    server
        .connect_as("shop", "postgres")
        .run("SELECT leaf_tag_create('orders')");
    (server, client)
}

#[test]
fn owners_and_grantees_alone_draw() {
    let (server, mut installer) = shop();
    let [mut shop, mut clerk, mut stranger] =
        ["shop", "clerk", "stranger"].map(|role| server.connect_as(role, "postgres"));
    shop.reserve("orders", 1).expect("a block");
    refused(clerk.reserve("orders", 1), "42501");
    // Not even the owner of the database, who is no superuser.
    refused(installer.reserve("orders", 1), "42501");
    shop.run("SELECT leaf_tag_grant('orders', 'clerk')");
    clerk.reserve("orders", 1).expect("a block");
    refused(
        clerk.simple_query("SELECT leaf_tag_alter('orders', step => 1)"),
        "42501",
    );
    refused(
        stranger.simple_query("SELECT leaf_tag_drop('orders')"),
        "42501",
    );
    refused(
        stranger.simple_query("SELECT leaf_tag_grant('orders', 'stranger')"),
        "42501",
    );
    refused(
        stranger.simple_query("SELECT * FROM leaf_mask_key('orders')"),
        "42501",
    );
    failed(stranger.simple_query("SELECT * FROM leaf.alloc"), "42501");
    failed(stranger.register("'node'"), "42501");
    failed(stranger.simple_query("SELECT leaf_new_history()"), "42501");

    // The role that was set counts, as PostgREST sets it.
    let mut superuser = server.connect();
    superuser.run("BEGIN; SET LOCAL ROLE stranger");
    refused(superuser.reserve("orders", 1), "42501");
    superuser.run("ROLLBACK; SET ROLE clerk");
    superuser.reserve("orders", 1).expect("a block");
}

/// PostgreSQL goes on with the role, and shows the name that it had when it was set.
#[test]
fn role_that_was_renamed_since_it_was_set_gets_nothing_of_the_next_one_of_that_name() {
    let (server, mut installer) = shop();
    let mut superuser = server.connect();
    superuser.run("GRANT clerk TO stranger");
    let mut stranger = server.connect_as("stranger", "postgres");
    stranger.run("SET ROLE clerk");
    superuser.run("ALTER ROLE clerk RENAME TO former; CREATE ROLE clerk");
    superuser.run("SET ROLE shop; SELECT leaf_tag_grant('orders', 'clerk')");
    refused(stranger.reserve("orders", 1), "42501");
    refused(installer.reserve("orders", 1), "42501");
}

/// Nor does a snapshot keep the name for a role, or the rights that one had when it was taken.
#[test]
fn snapshots_keep_no_rights() {
    let (server, mut installer) = shop();
    let mut superuser = server.connect();
    superuser.run(
        "CREATE ROLE former_superuser LOGIN SUPERUSER; GRANT clerk TO stranger; CREATE ROLE grantees",
    );
    superuser.run("SET ROLE shop; SELECT leaf_tag_grant('orders', 'grantees'); RESET ROLE");
    installer.run("GRANT EXECUTE ON FUNCTION leaf_worker_register TO former_superuser; UPDATE leaf.plain SET max_leases = 0");
    let [mut stranger, mut former] =
        ["stranger", "former_superuser"].map(|role| server.connect_as(role, "postgres"));
    stranger.run("SET ROLE clerk");
    for session in [&mut stranger, &mut former] {
        session.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_roles");
    }
    superuser.run(
        "ALTER ROLE clerk RENAME TO former_clerk; CREATE ROLE clerk; GRANT grantees TO clerk;
         ALTER ROLE former_superuser NOSUPERUSER",
    );
    for session in [&mut stranger, &mut former] {
        for call in [
            "leaf_mask_key('orders')",
            "leaf_segment_reserve('orders', 1)",
        ] {
            session.run("SAVEPOINT before");
            refused(session.simple_query(&format!("SELECT {call}")), "42501");
            session.run("ROLLBACK TO before");
        }
    }
    refused(former.register("'a'"), "53400");
    // The right to write to all tables makes no superuser.
    superuser.run("GRANT pg_write_all_data, pg_read_all_data TO clerk, stranger; GRANT ALL ON pg_authid TO stranger");
    stranger.run("ROLLBACK; RESET ROLE");
    refused(stranger.reserve("orders", 1), "42501");
}

/// The refusal could wait for a client that does not read it, while the row stays locked.
#[test]
fn rows_are_not_locked_for_those_who_are_refused() {
    let (server, _) = shop();
    let mut shop = server.connect_as("shop", "postgres");
    shop.run("BEGIN");
    shop.reserve("orders", 1).expect("a block");
    let mut stranger = server.connect_as("stranger", "postgres");
    for call in [
        "leaf_segment_reserve('orders', 1)",
        "leaf_tag_alter('orders', step => 2)",
        "leaf_tag_drop('orders')",
        "leaf_mask_rotate('orders')",
    ] {
        refused(stranger.simple_query(&format!("SELECT {call}")), "42501");
    }
}

/// It needs no right to make an object depend on a sequence, nor to lock it.
#[test]
fn views_and_locks_of_strangers_keep_no_tag() {
    let (server, mut installer) = shop();
    installer.run("REVOKE USAGE ON SCHEMA leaf FROM PUBLIC");
    let mut shop = server.connect_as("shop", "postgres");
    shop.run("SELECT leaf_tag_create('parcels')");
    let mut stranger = server.connect_as("stranger", "postgres");
    stranger.run(
        "DO $$ DECLARE high_water oid; BEGIN
             FOR high_water IN SELECT oid FROM pg_class WHERE relkind = 'S' AND relname ^@ 'g_' LOOP
                 EXECUTE format('CREATE VIEW public.v%s AS SELECT %L::regclass', high_water, high_water::text);
             END LOOP;
         END $$",
    );
    shop.run("SELECT leaf_tag_drop('orders')");
    stranger.run(
        "BEGIN;
         DO $$ DECLARE high_water oid; BEGIN
             FOR high_water IN SELECT oid FROM pg_class WHERE relkind = 'S' AND relname ^@ 'g_' LOOP
                 BEGIN
                     PERFORM nextval(high_water::regclass);
                 EXCEPTION WHEN insufficient_privilege THEN
                     EXECUTE format('DROP VIEW public.v%s', high_water);
                 END;
             END LOOP;
         END $$",
    );
    shop.run("SELECT leaf_tag_drop('parcels')");
    assert_eq!(installer.number("SELECT count(*) FROM leaf.alloc"), 0);
}

#[test]
fn search_path_of_the_caller_changes_nothing() {
    let (server, _) = shop();
    let mut stranger = server.connect_as("stranger", "postgres");
    server.connect().run("CREATE SCHEMA AUTHORIZATION stranger");
    stranger.run(
        "SET search_path = stranger, pg_temp, public, pg_catalog;
         CREATE FUNCTION stranger.session_user_is(name) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE FUNCTION stranger.greatest(bigint, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
         CREATE FUNCTION stranger.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT 'shop'$$;
         CREATE FUNCTION stranger.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$SELECT 'epoch'::timestamptz$$;
         CREATE FUNCTION stranger.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE OPERATOR stranger.= (LEFTARG = name, RIGHTARG = name, FUNCTION = pg_catalog.namene);
         CREATE TEMP TABLE alloc (biz_tag text, owner name)",
    );
    refused(
        stranger.simple_query("SELECT public.leaf_segment_reserve('orders', 1)"),
        "42501",
    );
    refused(
        stranger.simple_query("SELECT public.leaf_tag_drop('orders')"),
        "42501",
    );
}

/// While the server runs a stranger's code as its author, the session's role is another's.
#[test]
fn code_of_strangers_that_the_server_runs_gets_nothing() {
    let (server, _) = shop();
    let mut stranger = server.connect_as("stranger", "postgres");
    stranger.run(
        "CREATE TABLE log (call text, outcome text);
         CREATE FUNCTION grab() RETURNS integer LANGUAGE plpgsql AS $$
         DECLARE
             call text;
             result text;
         BEGIN
             FOREACH call IN ARRAY ARRAY[
                 $a$leaf_tag_grant('orders', 'stranger')$a$, $a$leaf_tag_alter('orders', advance_to => 1000000)$a$,
                 $a$leaf_tag_drop('orders')$a$, $a$leaf_segment_reserve('orders', 10)$a$, $a$leaf_mask_key('orders')$a$,
                 $a$leaf_mask_rotate('orders')$a$, $a$leaf_worker_register('node')$a$, $a$leaf_new_history()$a$,
                 $a$leaf_segment_feed('{orders}', '{1}')$a$] LOOP
                 BEGIN
                     EXECUTE 'SELECT result::text FROM public.' || call || ' AS result' INTO result;
                     -- A feed says in its row why there is none.
                     INSERT INTO public.log VALUES (call, coalesce(substring(result FROM '42501'), 'done'));
                 EXCEPTION WHEN OTHERS THEN
                     INSERT INTO public.log VALUES (call, SQLSTATE);
                 END;
             END LOOP;
             RETURN 1;
         END $$;
         CREATE FUNCTION grabbed(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN public.grab(); END';
         CREATE TABLE t (i integer);
         INSERT INTO t VALUES (1);
         CREATE INDEX t_grabbed ON t (grabbed(i));
         CREATE MATERIALIZED VIEW m AS SELECT grab() AS i WITH NO DATA",
    );
    server
        .connect()
        .run("UPDATE leaf.plain SET is_replicated = true");
    for command in [
        "REFRESH MATERIALIZED VIEW m",
        "REINDEX TABLE t",
        "ANALYZE t",
        "",
    ] {
        let mut superuser = server.connect();
        superuser.run("TRUNCATE log");
        if command.is_empty() {
            server.reload("autovacuum_naptime", "1s");
            superuser.run("ALTER TABLE t SET (autovacuum_analyze_threshold = 1, autovacuum_analyze_scale_factor = 0)");
            stranger.run("INSERT INTO t SELECT 1 FROM generate_series(1, 10); TRUNCATE log");
        }
        superuser.run(command);
        wait_until("the stranger's function has run", || {
            superuser.number("SELECT count(*) FROM log") >= 9
        });
        let outcomes = superuser.text(
            "SELECT coalesce(string_agg(DISTINCT call || ': ' || outcome, ', '), '') FROM log WHERE outcome <> '42501'",
        );
        assert_eq!(outcomes, "", "{command}");
    }
    let row = "SELECT owner || grantees::text || max_id FROM leaf.alloc";
    assert_eq!(server.connect().text(row), "shop{}1");
}

/// A collation for which other names are equal, which the caller brings along.
#[test]
fn collation_of_the_caller_changes_no_tag_of_others() {
    let (server, mut installer) = shop();
    installer.run("GRANT EXECUTE ON FUNCTION leaf_tag_create TO stranger; DELETE FROM leaf.alloc");
    let mut stranger = server.connect_as("stranger", "postgres");
    stranger.run("SELECT leaf_tag_create('ORDERS')");
    let equal = "CREATE COLLATION pg_temp.equal (provider = icu, locale = 'und-u-ks-level1', deterministic = false)";
    if let Err(error) = stranger.simple_query(equal) {
        // The server was built without them.
        assert_eq!(
            error.code().map(|code| code.code()),
            Some("0A000"),
            "{error}"
        );
        return;
    }
    let mut shop = server.connect_as("shop", "postgres");
    shop.run("SELECT leaf_tag_create('orders')");
    for call in [
        "leaf_tag_alter('orders' COLLATE pg_temp.equal, advance_to => 1000)",
        "leaf_tag_drop('orders' COLLATE pg_temp.equal)",
        "leaf_tag_grant('orders' COLLATE pg_temp.equal, 'stranger')",
        "leaf_tag_revoke('orders' COLLATE pg_temp.equal, 'shop')",
        "leaf_mask_rotate('orders' COLLATE pg_temp.equal)",
        "leaf_segment_reserve('orders' COLLATE pg_temp.equal, 1)",
    ] {
        let error = stranger.simple_query(&format!("SELECT {call}"));
        let error = error.expect_err(call).code().cloned();
        // Or no collation is found for the name of the role.
        let code = error.as_ref().map_or("", |code| code.code());
        assert!(["42501", "42P22"].contains(&code), "{call}: {code}");
    }
    assert_eq!(shop.reserve("orders", 1).expect("a block").first, 1);
}

/// The mark with which leaf's own statements pass its triggers.
#[test]
fn mark_that_a_session_sets_is_not_believed() {
    let (server, mut installer) = shop();
    installer.run(
        "GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release TO shop",
    );
    let mut shop = server.connect_as("shop", "postgres");
    shop.reserve("orders", 500).expect("a block");
    shop.run("SET leaf_plain.own = on");
    let alter = "SELECT leaf_tag_alter('orders', max_value => 100)";
    failed(shop.simple_query(alter), "22023");
    shop.run("SET leaf_plain.own = on");
    shop.run("SELECT leaf_tag_alter('orders', advance_to => 1000)");
    let written = "SELECT count(*) FROM leaf.alloc WHERE floor = 1000";
    assert_eq!(installer.number(written), 1, "the trigger has seen a move");
    installer.register("'a'").expect("a lease");
    installer.run("GRANT UPDATE ON leaf.worker TO shop; GRANT SELECT ON leaf.worker TO shop");
    shop.run("SET leaf_plain.own = on");
    let lower = "UPDATE leaf.worker SET ceiling = ceiling - interval '1 ms'";
    refused(shop.simple_query(lower), "22023");
}

/// A schema of the owner of a database before pg_catalog, with what leafctl and leaf's scripts use.
const HOSTILE: &str = "
    CREATE SCHEMA evil;
    GRANT USAGE ON SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.ran() RETURNS boolean LANGUAGE plpgsql AS
        $$ BEGIN RAISE LOG 'it ran as %', session_user; RETURN true; END $$;
    CREATE VIEW evil.pg_extension AS SELECT * FROM pg_catalog.pg_extension WHERE evil.ran();
    CREATE VIEW evil.pg_class AS SELECT * FROM pg_catalog.pg_class WHERE evil.ran();
    CREATE VIEW evil.pg_database AS SELECT * FROM pg_catalog.pg_database WHERE evil.ran();
    GRANT SELECT ON ALL TABLES IN SCHEMA evil TO PUBLIC;
    CREATE FUNCTION evil.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT evil.ran()';
    CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.same);
    CREATE FUNCTION evil.joined(integer, text) RETURNS text LANGUAGE sql AS 'SELECT evil.ran()::text';
    CREATE OPERATOR evil.|| (LEFTARG = integer, RIGHTARG = text, FUNCTION = evil.joined);";

/// What a superuser may be asked to look at, and to do.
const COMMANDS: [&str; 10] = [
    "status",
    "doctor",
    "doctor -A",
    "tags list",
    "tags create parcels",
    "plain install",
    "plain upgrade",
    "plain uninstall",
    "bench -T 1",
    "bench -T 1 --buffered",
];

/// Functions, views and settings are the owner's, who may have made others of them.
#[test]
fn leafctl_runs_nothing_of_the_owners_as_a_superuser() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run(HOSTILE);
    owner.run(
        "CREATE OR REPLACE FUNCTION leaf_tag_incarnation(tag text) RETURNS uuid LANGUAGE sql AS
             'SELECT gen_random_uuid() WHERE evil.ran()';
         SELECT leaf_tag_create('orders')",
    );
    let view = owner.text("SELECT pg_get_viewdef('leaf.stat_segment')");
    owner.run(&format!(
        "CREATE OR REPLACE VIEW leaf.stat_segment AS SELECT v.* FROM ({}) AS v WHERE leaf_tag_incarnation(v.biz_tag) IS NOT NULL",
        view.trim_end_matches(';')
    ));
    owner.run(
        "CREATE FUNCTION evil.changed() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM evil.ran(); RETURN NEW; END $$;
         CREATE TRIGGER changed BEFORE UPDATE ON leaf.plain FOR EACH ROW EXECUTE FUNCTION evil.changed();
         CREATE POLICY hidden ON leaf.alloc USING (evil.ran());
         ALTER TABLE leaf.alloc ENABLE ROW LEVEL SECURITY;
         ALTER TABLE leaf.alloc FORCE ROW LEVEL SECURITY",
    );
    server
        .connect()
        .run("CREATE ROLE creator CREATEROLE LOGIN; GRANT installer TO creator; CREATE ROLE member LOGIN; GRANT creator TO member");
    let settings = ["search_path = evil, pg_catalog, public", "role = installer"];
    for setting in ["search_path = DEFAULT"].into_iter().chain(settings) {
        owner.run(&format!("ALTER DATABASE postgres SET {setting}"));
        for (command, role) in COMMANDS
            .iter()
            .flat_map(|command| ["postgres", "creator", "member"].map(|role| (command, role)))
        {
            let mut leafctl = leafctl_on(&server);
            let said = Said::by(leafctl.env("PGUSER", role).args(command.split(' ')));
            assert_ne!(said.code, Some(0), "{setting} {command} {role}: {said:?}");
        }
    }
    let log = server.log();
    for role in ["postgres", "creator", "member"] {
        assert!(!log.contains(&format!("it ran as {role}")), "{log}");
    }
    // The owner himself may.
    let mut leafctl = leafctl_on(&server);
    Said::by(leafctl.env("PGUSER", INSTALLER).arg("status")).done();
    assert!(server.log().contains("it ran as installer"));
}

/// Nor in a database with the library, or without leaf, that belongs to somebody else.
#[test]
fn leafctl_looks_up_names_where_no_owner_has_put_any() {
    let server = Server::options().start();
    let mut superuser = server.connect();
    superuser.run("CREATE ROLE owner LOGIN");
    superuser.run("CREATE DATABASE shop OWNER owner");
    superuser.run("CREATE DATABASE without OWNER owner");
    for database in ["shop", "without"] {
        let mut owner = server.connect_as("owner", database);
        owner.run(HOSTILE);
        owner.run(&format!(
            "ALTER DATABASE {database} SET search_path = evil, pg_catalog, public"
        ));
    }
    let mut shop = server.connect_as("postgres", "shop");
    shop.run(
        "SET search_path = public; CREATE EXTENSION leaf SCHEMA public;
         SELECT leaf_tag_create('striped', stripes => 2, stripe => 1, stripe_width => 1000000);
         CREATE TABLE public.items (id bigint GENERATED ALWAYS AS IDENTITY)",
    );
    for command in COMMANDS.into_iter().chain(["tags adopt public.items id"]) {
        for database in ["shop", "without"] {
            let mut leafctl = leafctl_on(&server);
            let leafctl = leafctl.env("PGDATABASE", database).args(command.split(' '));
            let said = Said::by(leafctl);
            let is_refused = command.starts_with("plain") || command.contains("--buffered");
            let has_leaf = database == "shop" && !is_refused || command == "doctor -A";
            assert_eq!(
                said.code == Some(0),
                has_leaf,
                "{database} {command}: {said:?}"
            );
        }
    }
    let log = server.log();
    assert!(!log.contains("it ran as postgres"), "{log}");
}

/// Who owns a schema can drop a function in it, and with it leaf's triggers.
#[test]
fn superuser_installs_where_nobody_else_owns_the_schema() {
    let server = Server::options().plain().start();
    server.connect().run("CREATE ROLE owner CREATEDB");
    server.connect().run("CREATE DATABASE shop OWNER owner");
    let mut shop = server.connect_as("postgres", "shop");
    shop.run("CREATE SCHEMA ids");
    let install_as = |role: &str, arguments: &str| {
        let mut leafctl = leafctl_on(&server);
        leafctl.env("PGDATABASE", "shop").env("PGUSER", role);
        leafctl.args(["plain", "install"]);
        Said::by(leafctl.args(arguments.split_whitespace()))
    };
    let install = |arguments: &str| install_as("postgres", arguments);
    // Code that a member runs can become a superuser, too.
    shop.run(
        "CREATE ROLE member LOGIN; GRANT postgres TO member;
         CREATE ROLE administrator CREATEROLE LOGIN; CREATE ROLE other LOGIN; GRANT administrator TO other;
         CREATE ROLE replica LOGIN REPLICATION; CREATE ROLE killer LOGIN; GRANT pg_signal_backend TO killer",
    );
    let administrators = [
        "postgres",
        "member",
        "administrator",
        "other",
        "replica",
        "killer",
    ];
    for role in administrators {
        shop.run(&format!(
            "GRANT CREATE ON DATABASE shop TO {role}; GRANT CREATE ON SCHEMA public TO {role}"
        ));
        let error = install_as(role, "").failed(1);
        assert!(error.contains("belongs to another role"), "{error}");
        assert!(error.contains("--schema"), "{error}");
    }
    // Nor does leafctl call functions that the schema's owner may have replaced since.
    let mut leafctl = leafctl_on(&server);
    leafctl.env("PGDATABASE", "shop").env("PGUSER", "owner");
    shop.run("ALTER ROLE owner LOGIN");
    Said::by(leafctl.args(["plain", "install"])).done();
    for role in administrators {
        let mut leafctl = leafctl_on(&server);
        leafctl.env("PGDATABASE", "shop").env("PGUSER", role);
        let error = Said::by(leafctl.args(["tags", "create", "orders"])).failed(1);
        assert!(error.contains("what owner may have written"), "{error}");
    }
    let mut leafctl = leafctl_on(&server);
    leafctl.env("PGDATABASE", "shop").env("PGUSER", "owner");
    Said::by(leafctl.args(["plain", "uninstall"])).done();
    install("--schema ids").done();
    let list = || {
        let mut leafctl = leafctl_on(&server);
        Said::by(leafctl.env("PGDATABASE", "shop").args(["tags", "list"]))
    };
    list().done();
    shop.run("ALTER SCHEMA ids OWNER TO owner");
    list().failed(1);
    shop.run("ALTER SCHEMA ids OWNER TO postgres");
    // A trigger that is missing all the same stops all grants.
    shop.run("SELECT ids.leaf_tag_create('orders'); SELECT ids.leaf_segment_reserve('orders', 1)");
    shop.run("DROP TRIGGER leaf_check ON leaf.alloc");
    let reserve = shop.simple_query("SELECT ids.leaf_segment_reserve('orders', 1)");
    failed(reserve, "55000");
}
