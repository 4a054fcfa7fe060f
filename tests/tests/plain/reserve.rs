//! No block twice: open transactions, pools, kills, and tags that change meanwhile.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use leaf_tests::postgres::{Client, NoTls};
use leaf_tests::{
    Draw, INSTALLER, Ledger, Mode, Pooler, Server, failed, refused, reserve_by_call, wait_until,
};

use crate::reserve;

fn with_orders(settings: &[(&str, &str)]) -> (Server, Client) {
    let mut options = Server::options().plain();
    for (name, value) in settings {
        options = options.set(name, value);
    }
    options.start_with_orders(1000)
}

/// What drivers and pools do by default.
#[test]
fn open_transaction_reserves_nothing_and_says_how_to() {
    let (_server, mut client) = with_orders(&[]);
    let mut ids = Ledger::new();
    let max_id = "SELECT max_id FROM leaf.alloc";
    for (begin, end) in [
        ("BEGIN", "ROLLBACK"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY", "COMMIT"),
        ("BEGIN; SAVEPOINT one", "ROLLBACK TO one; COMMIT"),
    ] {
        let before = client.number(max_id);
        client.run(begin);
        let error = refused(reserve_by_call(&mut client, "orders", 10), "2D000");
        assert!(error.hint().expect("a hint").contains("autocommit"));
        client.run(end);
        assert_eq!(client.number(max_id), before, "{begin}");
        reserve(&mut client, "orders", 10, &mut ids);
    }
    client.fails("SELECT leaf.grant_block('orders', 10, NULL)", "2D000");
    // Several statements at once are a transaction, as are functions and blocks with EXCEPTION.
    let in_code = "DECLARE block int8range; BEGIN CALL leaf_segment_reserve('orders', 10, block);";
    client.run(&format!(
        "CREATE FUNCTION draws() RETURNS void LANGUAGE plpgsql AS $$ {in_code} END $$"
    ));
    let before = client.number(max_id);
    for statement in [
        "SELECT 1; CALL leaf_segment_reserve('orders', 10, NULL)",
        "SELECT draws()",
        &format!("DO $$ {in_code} EXCEPTION WHEN division_by_zero THEN END $$"),
    ] {
        refused(client.batch_execute(statement), "2D000");
    }
    assert_eq!(client.number(max_id), before);
}

/// A procedure without a transaction of its caller's may loop; each block is committed at once.
#[test]
fn procedures_in_autocommit_mode_reserve_whatever_the_role_has_set() {
    let (server, mut client) = with_orders(&[]);
    client.run(
        "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable';
         ALTER DATABASE postgres SET default_transaction_read_only = on;
         ALTER DATABASE postgres SET lc_messages = 'C'",
    );
    let mut ids = Ledger::new();
    let mut client = server.connect();
    client.run(
        "DO $$ DECLARE block int8range; BEGIN
                    FOR n IN 1..3 LOOP CALL leaf_segment_reserve('orders', 10, block); END LOOP;
                END $$",
    );
    assert_eq!(reserve(&mut client, "orders", 10, &mut ids), 31);
    // What fails after it has answered.
    let late = "DO $$ DECLARE block int8range; BEGIN
                    CALL leaf_segment_reserve('orders', 10, block); RAISE EXCEPTION 'late'; END $$";
    client.fails(late, "P0001");
    assert_eq!(reserve(&mut client, "orders", 10, &mut ids), 51);
    // Its own transactions are as before.
    client.fails("CREATE TABLE own (id int)", "25006");
}

/// Prepared statements or not, and one server connection for all.
#[test]
fn sessions_behind_a_pooler_share_no_block() {
    let (server, _client) = with_orders(&[]);
    let pooler = Pooler::start(&server, 2);
    let (ids, call) = (
        Mutex::new(Ledger::new()),
        "CALL leaf_segment_reserve('orders', 7, NULL)",
    );
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut client =
                    Client::connect(&pooler.connection_string(), NoTls).expect("a session");
                for n in 0..30 {
                    if n % 5 == 0 {
                        client.run("BEGIN");
                        client.fails(call, "2D000");
                        client.run("ROLLBACK");
                    }
                    let rows = client.query_typed(call, &[]).expect("a block");
                    let block: leaf_sdk::Block = rows[0].get(0);
                    let mut ids = ids.lock().expect("no panic");
                    ids.add(block.first.get()..=block.last.get());
                }
            });
        }
    });
    assert_eq!(ids.into_inner().expect("no panic").len(), 6 * 30 * 7);
}

fn goes_on(blocks: &AtomicUsize) {
    let before = blocks.load(Ordering::SeqCst);
    wait_until("blocks are reserved", || {
        blocks.load(Ordering::SeqCst) > before + 40
    });
}

#[test]
fn killed_sessions_and_servers_repeat_no_block() {
    for commits in ["on", "off"] {
        let (mut server, _client) = with_orders(&[("synchronous_commit", commits)]);
        let config = &server.config("postgres", "postgres");
        let (is_over, blocks, ids) = (
            AtomicBool::new(false),
            AtomicUsize::new(0),
            Mutex::new(Ledger::new()),
        );
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        let Ok(mut client) = config.connect(NoTls) else {
                            continue;
                        };
                        while !is_over.load(Ordering::SeqCst)
                            && let Ok(block) = reserve_by_call(&mut client, "orders", 5)
                        {
                            ids.lock().expect("no panic").add(block.ids());
                            blocks.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                });
            }
            for round in 0..6 {
                goes_on(&blocks);
                match round % 3 {
                    0 => server.restart(Mode::Immediate),
                    1 => {
                        server.kill_postmaster();
                        server.start_again();
                    }
                    _ => {
                        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                                     WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'";
                        server.connect().number(kill);
                    }
                }
            }
            goes_on(&blocks);
            is_over.store(true, Ordering::SeqCst);
        });
        assert!(ids.into_inner().expect("no panic").len() > 1000);
    }
}

/// A stronger value is kept, and a weaker one is the session's again.
#[test]
fn commits_are_durable_whatever_the_session_has_set() {
    let (server, mut client) = with_orders(&[]);
    client.run(
        "CREATE TABLE seen (value text); GRANT ALL ON seen TO PUBLIC;
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
         CREATE TRIGGER see AFTER UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION see();
         CREATE TRIGGER see AFTER INSERT ON leaf.worker FOR EACH ROW EXECUTE FUNCTION see()",
    );
    for (set, seen) in [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ] {
        let mut client = server.connect();
        client.run(&format!("SET synchronous_commit = {set}"));
        client.run("TRUNCATE seen");
        reserve(&mut client, "orders", 1, &mut Ledger::new());
        client.run("CALL leaf_worker_register('node')");
        assert_eq!(
            client.text("SELECT string_agg(value, ' ') FROM seen"),
            format!("{seen} {seen}")
        );
        assert_eq!(client.text("SHOW synchronous_commit"), set);
    }
}

/// The owner's search_path, and that of a role that may create functions and operators, lead nowhere.
#[test]
fn hostile_search_path_is_not_followed() {
    let (server, mut client) = with_orders(&[]);
    client.run("CREATE ROLE mallory LOGIN; CREATE SCHEMA mallory AUTHORIZATION mallory");
    let mut mallory = server.connect_as("mallory", "postgres");
    mallory.run(
        "CREATE FUNCTION mallory.harm(text, text) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'this was executed as %', current_user; END $$;
         CREATE OPERATOR mallory.= (LEFTARG = text, RIGHTARG = text, FUNCTION = mallory.harm);
         CREATE FUNCTION mallory.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'this was executed as %', current_user; END $$;
         CREATE DOMAIN mallory.text AS int",
    );
    client.run("SET search_path = mallory, pg_catalog, public");
    client.run("CALL leaf_segment_reserve('orders'::pg_catalog.text, 10, NULL)");
    client.run("CALL leaf_worker_register('node'::pg_catalog.text)");
}

#[test]
fn bad_arguments_and_used_up_tags_are_refused_with_a_way_out() {
    let (_server, mut client) = with_orders(&[]);
    let mut ids = Ledger::new();
    client.run(
        "SELECT leaf_tag_create('small', start => -5, max_value => 4);
                SELECT leaf_tag_create('last', start => 9223372036854775800)",
    );
    assert_eq!(reserve(&mut client, "small", 8, &mut ids), -5);
    refused(reserve_by_call(&mut client, "small", 3), "2200H");
    assert_eq!(reserve(&mut client, "small", 2, &mut ids), 3);
    refused(reserve_by_call(&mut client, "small", 1), "2200H");
    client.run("SELECT leaf_tag_alter('small', max_value => 10)");
    assert_eq!(reserve(&mut client, "small", 1, &mut Ledger::new()), 5);
    assert_eq!(
        reserve(&mut client, "last", 7, &mut ids),
        9_223_372_036_854_775_800
    );
    refused(reserve_by_call(&mut client, "last", 1), "2200H");
    let name = "x".repeat(129);
    for (call, code) in [
        ("leaf_tag_create('')", "22023"),
        (&format!("leaf_tag_create('{name}')"), "22023"),
        ("leaf_tag_create('a', step => 0)", "22023"),
        (
            "leaf_tag_create('a', start => 9223372036854775807)",
            "22023",
        ),
        ("leaf_tag_create('a', start => 5, max_value => 4)", "22023"),
        ("leaf_tag_create('a', step => NULL)", "22023"),
        ("leaf_tag_create('orders')", "42710"),
        ("leaf_tag_alter('orders', advance_to => -1)", "22023"),
        ("leaf_tag_alter('small', advance_to => 100)", "22023"),
        ("leaf_tag_alter('small', max_value => 3)", "22023"),
    ] {
        refused(client.simple_query(&format!("SELECT {call}")), code);
    }
    client.run("SELECT leaf_tag_create('orders', if_not_exists => true), leaf_tag_drop('nosuch', if_exists => true)");
}

/// Neither by functions nor by plain SQL; a replica's older row does not move one back either.
#[test]
fn tag_never_moves_backwards() {
    let (_server, mut client) = with_orders(&[]);
    let mut ids = Ledger::new();
    reserve(&mut client, "orders", 100, &mut ids);
    client.fails("UPDATE leaf.alloc SET max_id = 100", "22023");
    client.run("SET session_replication_role = replica; UPDATE leaf.alloc SET max_id = 1; RESET session_replication_role");
    assert_eq!(reserve(&mut client, "orders", 100, &mut ids), 101);
    client.run("SELECT leaf_tag_alter('orders', advance_to => 5000)");
    assert_eq!(reserve(&mut client, "orders", 1, &mut ids), 5000);
    client.run("UPDATE leaf.alloc SET max_id = 9000");
    assert_eq!(reserve(&mut client, "orders", 1, &mut ids), 9000);
}

/// A service's buffer of a dropped tag is not filled up from another one of its name.
#[test]
fn tag_that_was_created_again_is_told_from_the_one_before() {
    let (server, mut client) = with_orders(&[]);
    let incarnation = client.text("SELECT leaf_tag_incarnation('orders')::text");
    let call = format!("CALL leaf_segment_reserve('orders', 10, incarnation => '{incarnation}')");
    client.run(&call);
    server
        .connect()
        .run("SELECT leaf_tag_drop('orders'), leaf_tag_create('orders')");
    let error = refused(client.simple_query(&call), "55000");
    assert!(
        error
            .hint()
            .expect("a hint")
            .contains("leaf_tag_incarnation")
    );
    assert_eq!(reserve(&mut client, "orders", 1, &mut Ledger::new()), 1);
}

/// Rows of the library that belong to others.
#[test]
fn fed_tags_and_stripes_are_refused() {
    let (_server, mut client) = with_orders(&[]);
    client.run("INSERT INTO leaf.alloc (biz_tag, step, stripes, stripe) VALUES ('striped', 10, 4, 1);
                INSERT INTO leaf.alloc (biz_tag, step, upstream_tag, upstream_incarnation) VALUES ('fed', 10, 'orders', gen_random_uuid())");
    for tag in ["striped", "fed"] {
        refused(reserve_by_call(&mut client, tag, 1), "55000");
    }
}

/// Another session's lock delays no other tag, and ends a call after five seconds.
#[test]
fn locked_row_gives_a_bounded_wait() {
    let (server, mut client) = with_orders(&[]);
    client.run("SELECT leaf_tag_create('parcels')");
    let mut other = server.connect_as(INSTALLER, "postgres");
    other.run("BEGIN; SELECT leaf_tag_alter('orders', step => 5)");
    reserve(&mut client, "parcels", 1, &mut Ledger::new());
    failed(reserve_by_call(&mut client, "orders", 1), "55P03");
    other.run("COMMIT");
    reserve(&mut client, "orders", 1, &mut Ledger::new());
}

/// A standby says that it is one.
#[test]
fn standby_reserves_nothing() {
    let (server, _client) = with_orders(&[]);
    let standby = Server::options().plain().start_standby_of(&server);
    let mut client = standby.connect();
    refused(reserve_by_call(&mut client, "orders", 1), "25006");
    refused(
        client.simple_query("CALL leaf_worker_register('node')"),
        "25006",
    );
}
