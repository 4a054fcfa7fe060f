//! Full houses, small timeouts, settings that make no sense: leaf works as if they were not there.

use leaf_tests::postgres::NoTls;
use leaf_tests::{
    Draw, Ledger, Mode, Server, Snowflake, draw_many, refused, slow_grants, wait_until,
};

pub const SMALL: &str = "SELECT leaf_tag_create('orders', step => 10)";

/// Segments stay small, and callers are told soon.
pub fn options() -> leaf_tests::Options {
    Server::options()
        .set("leaf.max_step", "100")
        .set("leaf.wait_timeout", "500ms")
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
