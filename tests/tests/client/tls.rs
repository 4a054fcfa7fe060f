//! The client library's connections with TLS.

use leaf_sdk::{Config, Error, IdSource, Leaf};
use leaf_tests::{Draw, Relay, Server, Tls};
use std::time::Duration;

fn server(tls: &Tls) -> Server {
    let server = Server::options().tls(tls).start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    server
}

fn config(server: &Server, sslmode: &str) -> Config {
    let port = server.port();
    let string =
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode={sslmode}");
    Config::new(&string).expect("a connection string")
}

#[test]
fn connection_is_encrypted() {
    let tls = Tls::new();
    let server = server(&tls);
    let config = config(&server, "require")
        .timeout(Duration::from_secs(60))
        .tls_config(tls.connector());
    let leaf = Leaf::new(config).expect("a handle");
    leaf.segment("orders").next().expect("an id");
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                      WHERE application_name = 'leaf-sdk' AND ssl";
    assert_eq!(server.connect().number(encrypted), 1);
}

/// What a handle gets that cannot connect.
fn refused(config: Config) -> String {
    let config = config.timeout(Duration::from_millis(500));
    let leaf = Leaf::new(config).expect("a handle");
    let orders = leaf.segment("orders");
    let error = loop {
        match orders.next() {
            // A slow machine has not even tried.
            Err(Error::Timeout { last: None, .. }) => {}
            other => break other.expect_err("no connection"),
        }
    };
    assert!(error.is_retryable(), "{error:?}");
    error.to_string()
}

#[test]
fn server_of_another_authority_is_not_trusted() {
    let server = server(&Tls::new());
    let stranger = config(&server, "require").tls_config(Tls::new().connector());
    let message = refused(stranger);
    assert!(message.contains("certificate"), "{message}");
}

#[test]
fn tls_is_never_replaced_by_plain_text() {
    // The server has no TLS.
    let server = Server::start();
    let relay = Relay::start(&server, Duration::ZERO);
    for sslmode in ["", "sslmode=''", "sslmode=prefer", "sslmode=allow"] {
        let string = format!("{} {sslmode}", relay.connection_string());
        let config = Config::new(&string).expect("a connection string");
        let message = refused(config.tls_config(Tls::new().connector()));
        assert!(message.contains("TLS"), "{sslmode}: {message}");
    }
}

#[test]
fn tls_options_that_contradict_each_other_are_refused() {
    let tls = || Tls::new().connector();
    let config = |options: &str| {
        let string = format!("host=127.0.0.1 user=postgres {options}");
        Config::new(&string).expect("a connection string")
    };
    for (bad, word) in [
        (config("sslmode=require"), "tls"),
        (config("sslmode=verify-ca"), "tls"),
        (config("sslmode=verify-full"), "tls"),
        (config("sslnegotiation=direct"), "tls"),
        (config("sslmode=disable").tls_config(tls()), "disable"),
        (config("host=/run").tls_config(tls()), "Unix-domain"),
        (config("host=db,/run").tls_config(tls()), "Unix-domain"),
    ] {
        let error = Leaf::new(bad).expect_err("an error");
        assert!(matches!(error, Error::Config(_)), "{error:?}");
        assert!(error.to_string().contains(word), "{error}");
    }
    // As in libpq, a Unix-domain socket needs no TLS.
    Leaf::new(config("host=/run sslmode=verify-full")).expect("a handle");
}

#[test]
fn name_in_the_certificate_is_verified_unless_the_mode_is_verify_ca() {
    let tls = Tls::new();
    let server = server(&tls);
    let folder = tempfile::tempdir().expect("a folder");
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, tls.authority()).expect("a file");
    let connect = |host: &str, mode: &str| {
        let string = format!(
            "host={host} hostaddr=127.0.0.1 port={} user=postgres sslrootcert={} sslmode={mode}",
            server.port(),
            roots.display()
        );
        let config = Config::new(&string).expect("a connection string");
        config.tls().expect("the root certificates")
    };
    let draw = |config: Config| {
        let leaf = Leaf::new(config.timeout(Duration::from_secs(60))).expect("a handle");
        leaf.segment("orders").next().expect("an id");
    };
    draw(connect("127.0.0.1", "verify-full"));
    draw(connect("other.example", "verify-ca"));
    for mode in ["verify-full", "require", "prefer"] {
        let message = refused(connect("other.example", mode));
        assert!(message.contains("certificate"), "{mode}: {message}");
    }
    let missing = Config::new("host=db sslrootcert=/nowhere").expect("a connection string");
    assert!(matches!(missing.tls(), Err(Error::Config(_))));
}
