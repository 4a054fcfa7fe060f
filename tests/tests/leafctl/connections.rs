//! Connections as psql makes them: options, environment, files, URLs and passwords.

use leaf_tests::postgres;
use leaf_tests::{Draw, Pooler, Said, Server, Terminal, leafctl, leafctl_on};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A server that asks the role `shop` for the password `secret`.
fn with_password() -> Server {
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE ROLE shop LOGIN PASSWORD 'secret'");
    server.write(
        "pg_hba.conf",
        b"local all postgres trust\nlocal all all scram-sha-256\n",
    );
    client.run("SELECT pg_reload_conf()");
    leaf_tests::wait_until("the server asks for a password", || {
        server
            .config("shop", "postgres")
            .connect(leaf_tests::postgres::NoTls)
            .is_err()
    });
    server
}

#[test]
fn options_come_before_the_environment_and_a_connection_string_before_both() {
    let server = Server::start();
    server.connect().run("CREATE DATABASE other");
    let mut other = server.connect_as("postgres", "other");
    other.run("CREATE EXTENSION leaf");
    let database = |command: &mut Command| {
        let status = Said::by(command).done();
        let first = status.lines().next().expect("a line").to_owned();
        first
            .trim_start_matches("Database ")
            .split(':')
            .next()
            .expect("a name")
            .to_owned()
    };
    let host = server.host();
    assert_eq!(database(leafctl_on(&server).arg("status")), "postgres");
    assert_eq!(
        database(leafctl_on(&server).args(["status", "-d", "other"])),
        "other"
    );
    let url = format!("postgresql://postgres@/other?host={host}");
    assert_eq!(database(leafctl().args(["status", "-d", &url])), "other");
    // Before the command as well as after it, which comes first.
    assert_eq!(
        database(leafctl().args(["-h", &host, "-U", "postgres", "-d", "other", "status"])),
        "other"
    );
    assert_eq!(
        database(leafctl_on(&server).args(["-d", "nowhere", "status", "-d", "other"])),
        "other"
    );
    let help = Said::by(leafctl().args(["status", "-?"])).done();
    assert!(help.contains("-h, --host <HOST>"), "{help}");
    let help = Said::by(leafctl().args(["decode", "--help"])).done();
    assert!(!help.contains("--host"), "{help}");
    let string = format!("host={host} dbname=other user=postgres");
    assert_eq!(
        database(leafctl().args(["status", "-h", "nowhere", "-d", &string])),
        "other"
    );
    let options = [
        "-h", &host, "-U", "postgres", "-d", "postgres", "-p", "5432",
    ];
    assert_eq!(
        database(
            leafctl()
                .arg("status")
                .args(options)
                .env("PGDATABASE", "other")
        ),
        "postgres"
    );

    let folder = tempfile::tempdir().expect("a folder");
    let services = folder.path().join("services");
    fs::write(
        &services,
        format!("[shop]\nhost={host}\ndbname=other\nuser=postgres\n"),
    )
    .expect("a file");
    let by_service = || {
        let mut command = leafctl();
        command.arg("status").env("PGSERVICEFILE", &services);
        command
    };
    assert_eq!(database(by_service().env("PGSERVICE", "shop")), "other");
    assert_eq!(database(by_service().args(["-d", "service=shop"])), "other");
}

#[test]
fn server_that_is_not_there_is_an_error_of_one_line_with_its_own_code() {
    for arguments in [
        vec!["-h", "/nonexistent"],
        vec!["-h", "127.0.0.1", "-p", "1"],
        vec!["-d", "postgresql://nobody@/nothing?host=/nonexistent"],
    ] {
        let error = Said::by(leafctl().arg("status").args(&arguments)).failed(3);
        assert!(error.contains("hint"), "{error}");
    }
    // It accepts and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port().to_string();
    let mut status = leafctl();
    status.env("PGCONNECT_TIMEOUT", "1");
    let error = Said::by(status.args(["status", "-h", "127.0.0.1", "-p", &port])).failed(3);
    assert!(error.contains("did not answer"), "{error}");
    let server = Server::start();
    let error = Said::by(leafctl_on(&server).args(["status", "-d", "nothing"])).failed(3);
    assert!(
        error.contains("database \"nothing\" does not exist"),
        "{error}"
    );
    let error = Said::by(leafctl().args(["status", "-d", "hots=db"])).failed(2);
    assert!(error.contains("hots"), "{error}");
    let error = Said::by(leafctl_on(&server).args(["status", "-d", "a", "-d", "b"])).failed(2);
    assert!(error.contains("--dbname"), "{error}");
}

#[test]
fn password_comes_from_the_environment_or_the_password_file() {
    let server = with_password();
    let status = || {
        let mut command = leafctl_on(&server);
        command.args(["status", "-U", "shop"]);
        command
    };
    let error = Said::by(&mut status()).failed(3);
    assert!(error.contains(".pgpass"), "{error}");
    Said::by(status().env("PGPASSWORD", "secret")).done();
    let error = Said::by(status().env("PGPASSWORD", "wrong-one")).failed(3);
    assert!(
        error.contains("authentication failed") && !error.contains("wrong-one"),
        "{error}"
    );

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("passwords");
    fs::write(&file, "*:*:postgres:shop:secret\n").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    Said::by(status().env("PGPASSFILE", &file)).done();
}

#[test]
fn password_is_asked_for_at_a_terminal_and_not_shown() {
    let server = with_password();
    let program = std::env::var("LEAF_CTL").expect("LEAF_CTL");
    let host = server.host();
    let variables = [("PGHOST", host.as_str()), ("PGDATABASE", "postgres")];
    let terminal = Terminal::start(&format!("{program} status -U shop"), &variables, 100, 20);
    terminal.wait_for("Password for user shop:");
    terminal.keys(&["secret", "Enter"]);
    let screen = terminal.wait_for("exit 0");
    assert!(!screen.contains("secret"), "{screen}");
    assert!(screen.contains("Database postgres"), "{screen}");

    let terminal = Terminal::start(&format!("{program} status -w -U shop"), &variables, 100, 20);
    let screen = terminal.wait_for("exit 3");
    assert!(!screen.contains("Password for"), "{screen}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('full', max_value => 10, start => 10)");
    let program = std::env::var("LEAF_CTL").expect("LEAF_CTL");
    let host = server.host();
    // Escapes are shown as text by cat, to which a terminal is simulated.
    let colored = |arguments: &str, variables: &[(&str, &str)]| {
        let line = format!("script -qec '{program} doctor {arguments}' /dev/null | cat -v");
        let mut variables = variables.to_vec();
        variables.extend([
            ("PGHOST", host.as_str()),
            ("PGUSER", "postgres"),
            ("PGDATABASE", "postgres"),
        ]);
        let terminal = Terminal::start(&line, &variables, 400, 20);
        let screen = terminal.wait_for("exit ");
        // What clears the line that says that it is under way, if that took long.
        screen.replace("^[[K", "").contains("^[[")
    };
    assert!(colored("", &[]));
    assert!(!colored("", &[("NO_COLOR", "1")]));
    assert!(!colored("--color never", &[]));
    let piped = Said::by(leafctl_on(&server).args(["doctor", "--color", "always"]));
    assert!(piped.out.contains('\x1b'));
}

#[test]
fn commands_work_through_a_pooler_and_leave_no_settings_in_its_sessions() {
    let server = Server::options().bare().start();
    // Functions that are not on the search path.
    server
        .connect()
        .run("CREATE SCHEMA leaf; CREATE EXTENSION leaf SCHEMA leaf");
    let pooler = Pooler::start(&server, 1);
    let said = |arguments: &[&str]| {
        let mut command = leafctl();
        command
            .args(arguments)
            .args(["-d", &pooler.connection_string()]);
        Said::by(&mut command).done()
    };
    // The settings of the only session, as another client finds them.
    let mut client = postgres::Client::connect(&pooler.connection_string(), postgres::NoTls)
        .expect("a connection");
    let mut settings = || {
        let sql = "SELECT name || ' = ' || setting FROM pg_settings
                    WHERE source = 'session' AND name <> 'application_name'";
        let rows = client.simple_query(sql).expect("settings");
        format!("{rows:?}")
    };
    let before = settings();
    for arguments in [
        &["tags", "create", "orders"][..],
        &["tags", "alter", "orders", "--step", "5"],
        &["tags", "align"],
        &["doctor"],
    ] {
        said(arguments);
        assert_eq!(settings(), before, "{arguments:?}");
    }
    // Names of statements would be the same in each of them.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for arguments in [&["status"][..], &["tags", "list"], &["status"], &["doctor"]] {
                    said(arguments);
                }
            });
        }
    });
}

#[test]
fn commands_that_change_something_find_the_server_that_takes_writes() {
    let primary = Server::start();
    let standby = Server::options().start_standby_of(&primary);
    let hosts = format!("{},{}", standby.host(), primary.host());
    let on_both = |arguments: &[&str]| {
        let mut command = leafctl();
        command
            .args(arguments)
            .args(["-U", "postgres", "-h", &hosts]);
        Said::by(&mut command)
    };
    on_both(&["tags", "create", "orders"]).done();
    assert!(on_both(&["status"]).done().contains("standby"));
    let primary_only = ["status", "-d", "target_session_attrs=read-write"];
    assert!(!on_both(&primary_only).done().contains("standby"));
}
