//! What goes wrong around a database: full disks, full houses, processes that
//! stand still, settings that make no sense. Nothing comes twice, callers are told,
//! and there are ids again once the cause is gone.

use leaf_tests::postgres::{Client, NoTls};
use leaf_tests::{
    Draw, Ledger, Load, Mode, Paused, Server, Snowflake, draw_many, refused, slow_grants,
    wait_until,
};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const SMALL: &str = "SELECT leaf_tag_create('orders', step => 10)";

/// Segments stay small, and callers are told soon.
fn options() -> leaf_tests::Options {
    Server::options()
        .set("leaf.max_step", "100")
        .set("leaf.wait_timeout", "500ms")
}

#[test]
fn grants_on_a_full_disk_are_refused_and_mend_by_themselves() {
    let server = options().set("leaf.ceiling_ahead", "1s").disk().start();
    let mut client = server.connect();
    client.run(SMALL);
    let (mut ids, mut snowflakes) = (Ledger::new(), Ledger::new());
    ids.add(draw_many(&mut client, "orders", 1_000));
    snowflakes.add([client.snowflake().expect("an id")]);
    // Old versions of the rows stay, so that the tables must grow.
    let mut holder = server.connect();
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    server.disk().fill();

    let refusal = loop {
        match client.batch("orders", 50) {
            Ok(more) => ids.add(more),
            refusal => break refused(refusal, "55P03"),
        }
    };
    let names_the_cause = |detail: Option<&str>| {
        let detail = detail.expect("a DETAIL");
        assert!(detail.contains("No space left on device"), "{detail}");
    };
    names_the_cause(refusal.detail());
    // Snowflake ids end with the ceiling, which is a second ahead.
    let refusal = loop {
        match client.snowflake() {
            Ok(id) => snowflakes.add([id]),
            refusal => break refused(refusal, "55P03"),
        }
    };
    names_the_cause(refusal.detail());

    server.disk().free();
    wait_until("there are ids again", || client.next("orders").is_ok());
    ids.add(draw_many(&mut client, "orders", 1_000));
    wait_until("there are snowflake ids again", || {
        client.snowflake().is_ok()
    });
    snowflakes.add(client.snowflakes(1_000).expect("ids"));
}

#[test]
fn full_disk_that_takes_the_server_down_repeats_no_id() {
    let mut server = options().disk().start();
    server.connect().run(SMALL);
    let config = server.config("postgres", "postgres");
    let snowflakes = Mutex::new(Ledger::new());
    let draw = |client: &mut Client, call: usize| match call % 3 {
        0 => client.batch("orders", 30),
        1 => client
            .reserve("orders", 20)
            .map(|block| block.ids().collect()),
        _ => {
            let ids = client.snowflakes(20)?;
            snowflakes.lock().expect("no panic").add(ids);
            Ok(vec![])
        }
    };
    Load::run(&config, 4, "55P03", draw, |load| {
        for _ in 0..3 {
            load.goes_on(2_000);
            server.disk().fill();
            let lost = load.lost();
            // The write-ahead log needs a new file sooner or later, and gets none.
            wait_until("the server is down", || {
                if let Ok(mut client) = config.connect(NoTls) {
                    let _ = client.batch_execute("SELECT txid_current(); SELECT pg_switch_wal()");
                }
                load.lost() > lost
            });
            server.disk().free();
            server.wait_up();
            load.goes_on(2_000);
        }
    });
}

#[test]
fn loader_that_stands_still_gives_bounded_waits() {
    let server = options().start();
    let mut observer = server.connect();
    observer.run(SMALL);
    let config = server.config("postgres", "postgres");
    let draw = |client: &mut Client, _: usize| client.batch("orders", 30);
    Load::run(&config, 4, "55P03", draw, |load| {
        for _ in 0..3 {
            load.goes_on(2_000);
            let loader = server.loaders("postgres")[0];
            // One that is stopped while it holds a lock of shared memory for a moment holds up
            // all others for as long, as each process of PostgreSQL does: it is stopped again.
            wait_until("callers are refused while the loader stands still", || {
                let _stopped = Paused::all(vec![loader]);
                load.is_refused_within(4, Duration::from_secs(5))
            });
            load.goes_on(2_000);
            assert_eq!(server.loaders("postgres"), [loader]);
        }
    });
}

#[test]
fn full_house_of_sessions_keeps_no_loader_out() {
    let server = options()
        .set("max_connections", "5")
        .set("superuser_reserved_connections", "0")
        .set("autovacuum", "off")
        .start();
    let mut client = server.connect();
    client.run(SMALL);
    let config = server.config("postgres", "postgres");
    let mut sessions = Vec::new();
    let full = loop {
        match config.connect(NoTls) {
            Ok(session) => sessions.push(session),
            Err(error) => break error,
        }
    };
    assert_eq!(full.code().map(|code| code.code()), Some("53300"));
    let mut ledger = Ledger::new();
    for _ in 0..5 {
        ledger.add(draw_many(&mut client, "orders", 500));
        // Another one must come.
        client.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE backend_type = 'leaf loader'",
        );
    }
}

#[test]
fn ten_thousand_tags_share_the_slots() {
    const TAGS: usize = 10_000;
    let server = Server::options().set("leaf.max_tags", "1024").start();
    server.connect().run(&format!(
        "SELECT leaf_tag_create('tag' || n, step => 2) FROM generate_series(1, {TAGS}) AS n"
    ));
    // Three groups of sessions, each of which meets all tags in an order of its
    // own, so that each tag is drawn from when others have long taken its place.
    let drawn: Vec<Mutex<Ledger>> = (0..TAGS).map(|_| Mutex::new(Ledger::new())).collect();
    thread::scope(|scope| {
        for (stride, part) in [1, 3, 7]
            .into_iter()
            .flat_map(|s| (0..4).map(move |p| (s, p)))
        {
            let (server, drawn) = (&server, &drawn);
            scope.spawn(move || {
                let mut client = server.connect();
                for n in (part..TAGS).step_by(4) {
                    let tag = n * stride % TAGS;
                    let id = client.next(&format!("tag{}", tag + 1)).expect("an id");
                    drawn[tag].lock().expect("no panic").add([id]);
                }
            });
        }
    });
    let mut client = server.connect();
    assert!(client.number("SELECT count(*) FROM leaf_segment_slots()") <= 1_024);
    for tag in drawn {
        assert_eq!(tag.into_inner().expect("no panic").len(), 3);
    }
}

#[test]
fn row_locked_by_a_prepared_transaction_gives_bounded_waits() {
    let mut server = options().set("max_prepared_transactions", "2").start();
    let mut client = server.connect();
    client.run(SMALL);
    client.run("SELECT leaf_tag_create('other')");
    let mut ledger = Ledger::new();
    client.run(
        "BEGIN; SELECT FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE;
         PREPARE TRANSACTION 'holder'",
    );
    drop(client);
    // It holds its locks through a crash, and through any number of sessions.
    for mode in [Mode::Fast, Mode::Immediate] {
        server.restart(mode);
        let mut client = server.connect();
        let refusal = loop {
            match client.next("orders") {
                Ok(id) => ledger.add([id]),
                refusal => break refusal,
            }
        };
        refused(refusal, "55P03");
        client.next("other").expect("others go on");
    }
    let mut client = server.connect();
    client.run("COMMIT PREPARED 'holder'");
    ledger.add(draw_many(&mut client, "orders", 1_000));
}

#[test]
fn small_timeouts_of_the_database_do_not_reach_the_loader() {
    let mut server = options().set("leaf.wait_timeout", "30s").start();
    let mut client = server.connect();
    client.run(SMALL);
    // Grants that take longer than all of them.
    slow_grants(&mut client, 0.02);
    client.run(
        "CREATE ROLE app LOGIN; GRANT pg_read_all_stats TO app;
         SELECT leaf_tag_grant('orders', 'app')",
    );
    let timeouts = client
        .query(
            "SELECT name FROM pg_settings
              WHERE name ~ '(statement|lock|transaction|session)_timeout$' AND context = 'user'",
            &[],
        )
        .expect("settings");
    let timeouts: Vec<String> = timeouts.iter().map(|row| row.get(0)).collect();
    assert!(timeouts.len() >= 4, "{timeouts:?}");
    for timeout in &timeouts {
        client.run(&format!(
            "ALTER DATABASE postgres SET {timeout} = '1ms'; ALTER ROLE app SET {timeout} = 0"
        ));
    }
    drop(client);
    server.restart(Mode::Fast);
    let mut app = server.connect_as("app", "postgres");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut app, "orders", 1_000));
    app.snowflake().expect("an id");
    assert_eq!(
        app.number("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'leaf loader'"),
        1
    );
}

#[test]
fn callers_cut_off_by_their_timeout_repeat_no_id() {
    let server = options().start();
    let mut client = server.connect();
    client.run(SMALL);
    slow_grants(&mut client, 0.003);
    let (ledger, cut_off) = (Mutex::new(Ledger::new()), Mutex::new(0));
    thread::scope(|scope| {
        for session in 1..=4 {
            let (server, ledger, cut_off) = (&server, &ledger, &cut_off);
            scope.spawn(move || {
                let mut client = server.connect();
                for call in 0..200 {
                    let set = format!("SET statement_timeout = {}", 1 + (call + session) % 8);
                    // On a busy machine the timeout before cuts this off, too.
                    while let Err(error) = client.batch_execute(&set) {
                        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
                    }
                    let drawn = match call % 3 {
                        0 => client.next("orders").map(|id| vec![id]),
                        1 => client.batch("orders", 40),
                        _ => client
                            .reserve("orders", 20)
                            .map(|block| block.ids().collect()),
                    };
                    match drawn {
                        Ok(ids) => ledger.lock().expect("no panic").add(ids),
                        Err(error) => {
                            let code = error.code().map(|code| code.code());
                            assert_eq!(code, Some("57014"), "{error:?}");
                            *cut_off.lock().expect("no panic") += 1;
                        }
                    }
                }
            });
        }
    });
    assert!(*cut_off.lock().expect("no panic") > 0, "none was cut off");
    let mut ledger = ledger.into_inner().expect("no panic");
    assert!(!ledger.is_empty(), "all were cut off");
    ledger.add(draw_many(&mut client, "orders", 1_000));
}

#[test]
fn every_setting_survives_reloads_with_good_and_bad_values() {
    let (server, mut client) = Server::with_orders(1000);
    let mut ids = Ledger::new();
    let settings = client
        .query(
            "SELECT name, vartype, min_val, max_val, enumvals FROM pg_settings
              WHERE name LIKE 'leaf.%' AND context <> 'postmaster' ORDER BY name",
            &[],
        )
        .expect("settings");
    assert!(settings.len() > 10);
    for setting in settings {
        let name: String = setting.get(0);
        let kind: String = setting.get(1);
        let (good, bad): (Vec<String>, Vec<String>) = match kind.as_str() {
            "integer" | "real" => {
                let bounds = [2, 3].map(|bound| setting.get::<_, String>(bound));
                let low: f64 = bounds[0].parse().expect("a number");
                let high: f64 = bounds[1].parse().expect("a number");
                let outside = [(low - 1.0).to_string(), (high + 1.0).to_string()];
                (bounds.into(), outside.into())
            }
            "enum" => (setting.get(4), vec![]),
            "bool" => (vec!["on".into(), "off".into()], vec![]),
            _ if name == "leaf.snowflake_layout" => (vec!["js53".into()], vec!["js54".into()]),
            _ if name == "leaf.snowflake_epoch" => (vec!["2020-01-01".into()], vec![]),
            _ if name == "leaf.upstream" => {
                (vec!["host=nowhere".into()], vec!["password=x".into()])
            }
            other => panic!("{name} is of the kind {other}, which this test does not know"),
        };
        let mut nonsense = vec!["nonsense".to_owned(), "1 fortnight".to_owned()];
        if name == "leaf.upstream" {
            // Only libpq knows what a connection string is, which a reload does not load.
            nonsense.clear();
        }
        for bad in bad.iter().chain(&nonsense) {
            client.fails(&format!("ALTER SYSTEM SET {name} = '{bad}'"), "22023");
            // A file can say it all the same, and is not believed.
            let before = client.text(&format!("SHOW {name}"));
            server.configure(&format!("{name} = '{bad}'\n"));
            client.run("SELECT pg_reload_conf()");
            wait_until("the server has seen it", || {
                client.number(&format!(
                    "SELECT count(*) FROM pg_file_settings
                      WHERE name = '{name}' AND setting = '{bad}' AND error IS NOT NULL"
                )) > 0
            });
            assert_eq!(client.text(&format!("SHOW {name}")), before);
            ids.add(draw_many(&mut client, "orders", 2_000));
            server.unconfigure(&name);
        }
        for good in good {
            server.reload(&name, &good);
            // Those that time out at once may be told so.
            for _ in 0..20 {
                match client.batch("orders", 500) {
                    Ok(drawn) => ids.add(drawn),
                    refusal => {
                        refused(refusal, "55P03");
                    }
                }
            }
        }
        client.run(&format!("ALTER SYSTEM RESET {name}"));
        client.run("SELECT pg_reload_conf()");
        let default = format!(
            "SELECT count(*) FROM pg_settings WHERE name = '{name}' AND setting = boot_val"
        );
        wait_until("the default is back", || client.number(&default) == 1);
    }
    ids.add(draw_many(&mut client, "orders", 10_000));
    client.snowflakes(1_000).expect("ids");
}
