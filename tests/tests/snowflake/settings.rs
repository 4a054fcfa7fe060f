//! Settings of a database, which take effect while it is in use.

use leaf_tests::postgres::{Client, NoTls};
use leaf_tests::{Draw, Ledger, Server, Snowflake, refused, wait_until};
use std::sync::{Arc, Mutex};

/// Whose the next id is.
fn worker(client: &mut Client) -> i32 {
    let id = client.snowflake().expect("an id");
    client.parts(id).worker_id
}

#[test]
fn worker_id_of_a_database_takes_effect_with_its_next_session() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE other");
    server
        .connect_as("postgres", "other")
        .run("CREATE EXTENSION leaf");
    let databases = ["postgres", "other"];
    let mut pooled = databases.map(|database| server.connect_as("postgres", database));
    for client in &mut pooled {
        assert_eq!(worker(client), 0);
    }
    admin.run("ALTER DATABASE postgres SET leaf.worker_id = 1; ALTER DATABASE other SET leaf.worker_id = 2");
    for (database, worker_id) in databases.into_iter().zip([1, 2]) {
        let mut fresh = server.connect_as("postgres", database);
        assert_eq!(worker(&mut fresh), worker_id, "{database}");
    }
    // A session that began before has the old value, and draws from the lease in force.
    for (client, worker_id) in pooled.iter_mut().zip([1, 2]) {
        assert_eq!(worker(client), worker_id);
    }
    // Without a value, any worker id will do.
    admin.run("ALTER DATABASE postgres RESET leaf.worker_id");
    assert_eq!(worker(&mut server.connect()), 1);
    // A session's own value decides nothing.
    let mut session = server.connect();
    session.run("SET leaf.worker_id = 9");
    assert_eq!(worker(&mut session), 1);
    assert_eq!(worker(&mut pooled[0]), 1);
}

#[test]
fn worker_id_of_the_file_applies_again_once_the_database_has_none() {
    let server = Server::options().set("leaf.worker_id", "4").start();
    let mut admin = server.connect();
    admin.run("ALTER DATABASE postgres SET leaf.worker_id = 5");
    assert_eq!(worker(&mut server.connect()), 5);
    admin.run("ALTER DATABASE postgres RESET leaf.worker_id");
    assert_eq!(worker(&mut server.connect()), 4);
    // Also where the loader began with that of the database.
    admin.run("ALTER DATABASE postgres SET leaf.worker_id = 5");
    assert_eq!(worker(&mut server.connect()), 5);
    admin.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'leaf loader'",
    );
    assert_eq!(worker(&mut server.connect()), 5);
    server.reload("leaf.worker_id", "6");
    admin.run("ALTER DATABASE postgres RESET leaf.worker_id");
    assert_eq!(worker(&mut server.connect()), 6);
}

#[test]
fn changed_layout_is_an_error_for_those_who_have_it_until_it_is_reset() {
    let server = Server::start();
    let mut pooled = server.connect();
    worker(&mut pooled);
    let reset = "ALTER DATABASE postgres RESET ALL";
    for change in [
        "leaf.snowflake_layout = 'js53'",
        "leaf.snowflake_epoch = '2024-01-01T00:00:00Z'",
    ] {
        pooled.run(&format!("ALTER DATABASE postgres SET {change}"));
        let mut fresh = server.connect();
        for _ in 0..3 {
            refused(fresh.snowflake(), "55000");
            worker(&mut pooled);
        }
        pooled.run(reset);
        assert_eq!(worker(&mut server.connect()), 0, "{change}");
        // What was pooled meanwhile recovers, too.
        assert_eq!(worker(&mut fresh), 0, "{change}");
    }
}

#[test]
fn layout_that_was_changed_before_a_crash_is_reset_under_load() {
    let mut server = Server::start();
    worker(&mut server.connect());
    let mut admin = server.connect();
    admin.run("ALTER DATABASE postgres SET leaf.snowflake_layout = 'js53'");
    drop(admin);
    server.restart(leaf_tests::Mode::Immediate);
    let mut pooled = server.connect();
    for _ in 0..3 {
        refused(pooled.snowflake(), "55000");
    }
    pooled.run("ALTER DATABASE postgres RESET leaf.snowflake_layout");
    assert_eq!(worker(&mut server.connect()), 0);
    assert_eq!(worker(&mut pooled), 0);
}

#[test]
fn worker_id_that_the_layout_lacks_is_a_warning_and_recovers() {
    let server = Server::start();
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = notices.clone();
    let mut config = server.config("postgres", "postgres");
    config.notice_callback(move |notice| {
        let text = notice.message().to_owned();
        heard.lock().expect("no panic").push(text);
    });
    let mut admin = config.connect(NoTls).expect("a session");
    admin.run("ALTER DATABASE postgres SET leaf.worker_id = 5000");
    let heard = notices.lock().expect("no panic").join("; ");
    assert_eq!(heard, "layout leaf has no worker id 5000");
    refused(server.connect().snowflake(), "22023");
    admin.run("ALTER DATABASE postgres SET leaf.worker_id = 50");
    assert_eq!(worker(&mut server.connect()), 50);
    admin.run("ALTER DATABASE postgres SET leaf.worker_id = 5000");
    refused(server.connect().snowflake(), "22023");
    admin.run("ALTER DATABASE postgres RESET leaf.worker_id");
    assert_eq!(worker(&mut server.connect()), 50);
}

#[test]
fn settings_of_roles_do_not_count() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE ROLE app LOGIN; ALTER ROLE app SET leaf.worker_id = 3");
    for _ in 0..2 {
        assert_eq!(worker(&mut server.connect_as("app", "postgres")), 0);
        assert_eq!(worker(&mut admin), 0);
    }
}

#[test]
fn database_that_was_idle_gives_its_place_to_another() {
    // A place for each session and background worker: about eleven, for fourteen databases.
    let mut server = Server::options()
        .set("max_connections", "3")
        .set("superuser_reserved_connections", "0")
        .set("autovacuum_max_workers", "1")
        .set("max_worker_processes", "6")
        .set("max_logical_replication_workers", "0")
        .set("leaf.wait_timeout", "1s")
        .set("max_wal_senders", "0")
        .set("leaf.ceiling_ahead", "100ms")
        .set("leaf.loader_idle_timeout", "100ms")
        .start();
    let names: Vec<_> = (0..14).map(|number| format!("db{number}")).collect();
    let mut admin = server.connect();
    for name in &names {
        admin.run(&format!("CREATE DATABASE {name}"));
        server
            .connect_as("postgres", name)
            .run("CREATE EXTENSION leaf");
    }
    drop(admin);
    let draw = |client: &mut Client, ledger: &mut Ledger| {
        wait_until("a place is free", || match client.snowflakes(100) {
            Ok(ids) => {
                assert!(ids.iter().all(|id| client.parts(*id).worker_id == 0));
                ledger.add(ids);
                true
            }
            Err(error) => {
                let code = error.code().expect("an error of the server").code();
                // No place, or no background worker for the loader yet.
                assert!(["53400", "55P03"].contains(&code), "{error:?}");
                false
            }
        });
    };
    let mut ledgers: Vec<_> = names.iter().map(|_| Ledger::new()).collect();
    for round in 0..2 {
        // It stays connected, and goes on with what it has found before.
        let mut first = server.connect_as("postgres", &names[0]);
        draw(&mut first, &mut ledgers[0]);
        for (name, ledger) in names.iter().zip(&mut ledgers).skip(1) {
            draw(&mut server.connect_as("postgres", name), ledger);
        }
        draw(&mut first, &mut ledgers[0]);
        if round == 0 {
            server.restart(leaf_tests::Mode::Fast);
        }
    }
}
