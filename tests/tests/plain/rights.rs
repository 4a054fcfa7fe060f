//! Functions run as their owner: nobody gets more by them than was granted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, INSTALLER, Server, Snowflake, failed, refused, wait_until};

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
    for function in ["leaf_new_history", "leaf.close"] {
        let call = format!("SELECT {function}()");
        failed(stranger.simple_query(&call), "42501");
        // While a dump is restored, it is everybody's.
        installer.run(&format!("GRANT EXECUTE ON FUNCTION {function} TO PUBLIC"));
        refused(stranger.simple_query(&call), "42501");
    }

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

/// With SET SESSION AUTHORIZATION, a superuser draws as another role, whatever the two are called by now.
#[test]
fn session_of_another_role_draws_as_that() {
    let (server, _) = shop();
    let mut superuser = server.connect();
    superuser.run("CREATE ROLE boss LOGIN SUPERUSER");
    let mut boss = server.connect_as("boss", "postgres");
    boss.reserve("orders", 1).expect("a block");
    boss.run("SET SESSION AUTHORIZATION shop");
    boss.reserve("orders", 1).expect("a block");
    boss.run("SET SESSION AUTHORIZATION stranger");
    refused(boss.reserve("orders", 1), "42501");
    superuser.run("ALTER ROLE stranger RENAME TO former; ALTER ROLE boss RENAME TO stranger");
    refused(boss.reserve("orders", 1), "42501");
    boss.run("RESET SESSION AUTHORIZATION");
    boss.reserve("orders", 1).expect("a block");
}

/// A session need not take note of what becomes of roles, its own too, while its transaction is open, in which it reads
/// the tags of now; nor need it know of it when a function begins.
#[test]
fn open_transaction_gets_nothing_of_the_next_role_of_a_name() {
    let (server, mut installer) = shop();
    let [mut superuser, mut shop] =
        ["postgres", "shop"].map(|role| server.connect_as(role, "postgres"));
    installer.run("SELECT leaf_tag_create('common'); SELECT leaf_tag_grant('common', 'public')");
    shop.run("SELECT leaf_tag_create('theirs')");
    let calls = [
        "leaf_mask_key('theirs')",
        "leaf_segment_reserve('theirs', 1)",
        "leaf_mask_rotate('theirs')",
    ];
    let before = [
        "SELECT session_user",
        "SELECT leaf_segment_reserve('common', 1), session_user",
        "SELECT leaf_mask_key('common'), leaf_segment_reserve('common', 1) FROM generate_series(1, 2)",
        // It forgets what it knows of the role, and learns its name once more, but not whose the name is.
        "SELECT leaf_mask_key('common'), leaf_segment_reserve('common', 1) FROM pg_roles;
         SAVEPOINT before; ALTER ROLE member PASSWORD 'secret'; ROLLBACK TO before; SELECT session_user",
    ];
    for (before, call) in before.iter().flat_map(|it| calls.map(|call| (it, call))) {
        for name in ["team", "member"] {
            superuser.run("CREATE ROLE team; CREATE ROLE member LOGIN IN ROLE team");
            let mut member = server.connect_as("member", "postgres");
            member.run("BEGIN");
            member.run(before);
            superuser.run(&format!(
                "ALTER ROLE {name} RENAME TO former; CREATE ROLE {name};
                 UPDATE leaf.alloc SET owner = '{name}' WHERE biz_tag = 'theirs'"
            ));
            refused(member.simple_query(&format!("SELECT {call}")), "42501");
            superuser.run("DROP ROLE former");
            member.run("ROLLBACK; BEGIN");
            // Nor when the session's own role is no more.
            refused(member.simple_query(&format!("SELECT {call}")), "42501");
            drop(member);
            superuser.run("DROP ROLE IF EXISTS member, team");
        }
    }
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

/// Which a snapshot from before need not show.
#[test]
fn role_that_is_called_public_is_not_all_roles() {
    let (server, _installer) = shop();
    let mut shop = server.connect_as("shop", "postgres");
    shop.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    server.connect().run(r#"CREATE ROLE "Public""#);
    refused(
        shop.simple_query("SELECT leaf_tag_grant('orders', 'Public')"),
        "42704",
    );
}

/// Nor does a call that waits have the rights of what roles and tags have become meanwhile. A client that does not read makes
/// it wait, anywhere; here, catalogs are locked.
#[test]
fn call_that_waits_gets_nothing_of_the_next_role_of_a_name() {
    let taken = "SELECT leaf_tag_revoke('orders', 'clerk')";
    for (role, call, lock, meanwhile) in [
        (
            "clerk",
            "leaf_segment_reserve('orders', 1)",
            "SELECT FROM leaf.alloc FOR UPDATE",
            "ALTER ROLE clerk RENAME TO former; CREATE ROLE clerk",
        ),
        (
            "stranger",
            "leaf_mask_key('orders')",
            "LOCK TABLE pg_authid",
            "ALTER ROLE clerk RENAME TO former; ALTER ROLE stranger RENAME TO clerk",
        ),
        (
            "stranger",
            "leaf_mask_key('orders')",
            "LOCK TABLE pg_auth_members",
            "GRANT clerk TO stranger",
        ),
        // The row that is locked then is another one than that whose grantees were looked at.
        (
            "clerk",
            "leaf_segment_reserve('orders', 1)",
            "LOCK TABLE pg_auth_members",
            taken,
        ),
    ] {
        let (server, _) = shop();
        let mut holder = server.connect();
        holder.run("SET ROLE shop; SELECT leaf_tag_grant('orders', 'clerk'); RESET ROLE");
        let mut caller = server.connect_as(role, "postgres");
        if lock.starts_with("LOCK TABLE") {
            // From now on, it does not wait for plans, but for the memberships, which have changed.
            let before = caller.simple_query(&format!("SELECT {call}"));
            assert_eq!(before.is_ok(), role == "clerk");
            holder.run("CREATE ROLE another IN ROLE shop");
        }
        holder.run(&format!("BEGIN; {lock}"));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| caller.simple_query(&format!("SELECT {call}")));
            wait_until("the call waits", || {
                holder.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
            });
            if role == "stranger" {
                holder.run(taken);
            }
            holder.run(&format!("{meanwhile}; COMMIT"));
            refused(waiting.join().expect("an answer"), "42501");
        });
    }
}

/// What is revoked from a name must not stay with the role that had it.
#[test]
fn default_privileges_are_taken_back_from_roles_that_are_renamed() {
    let (server, mut installer) = shop();
    let mut superuser = server.connect();
    installer.run("ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO clerk");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                superuser.run(
                    "BEGIN; ALTER ROLE clerk RENAME TO another; ALTER ROLE stranger RENAME TO clerk;
                     ALTER ROLE another RENAME TO stranger; COMMIT",
                );
            }
        });
        for number in 0..150 {
            installer.run(&format!("SELECT leaf_tag_create('tag {number}')"));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let lent = "SELECT count(*) FROM pg_class, aclexplode(relacl) AS a \
                 WHERE relnamespace = 'leaf'::regnamespace AND relkind = 'S' AND a.grantee <> relowner";
    assert_eq!(installer.number(lent), 0);
}

/// He owns the schema, too, and could drop the triggers that keep the secrets of others out of rows.
#[test]
fn owner_of_the_database_adds_no_rows() {
    let (server, _) = shop();
    server
        .connect()
        .run("CREATE ROLE landlord LOGIN; ALTER DATABASE postgres OWNER TO landlord");
    let mut landlord = server.connect_as("landlord", "postgres");
    for denied in [
        "INSERT INTO leaf.alloc (biz_tag, step) VALUES ('mine', 1)",
        "INSERT INTO leaf.worker (worker_id) VALUES (1)",
        "SELECT FROM leaf.alloc",
        "SELECT FROM leaf.worker",
    ] {
        landlord.fails(denied, "42501");
    }
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
    installer.run("GRANT SELECT, UPDATE ON leaf.alloc TO shop");
    for (change, code) in [("max_value = 3", "22023"), ("stripes = 2", "55000")] {
        shop.run("SET leaf_plain.own = on");
        let change = format!("UPDATE leaf.alloc SET {change}");
        refused(shop.simple_query(&change), code);
    }
}
