//! The client library's connections with TLS.

use leaf_sdk::{Config, Error, Leaf};
use leaf_tests::{Draw, Server, Tls};
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
        .tls_config(tls.client());
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
    let stranger = config(&server, "require").tls_config(Tls::new().client());
    let message = refused(stranger);
    assert!(message.contains("certificate"), "{message}");
}

#[test]
fn tls_that_is_required_and_not_configured_is_an_error() {
    let server = server(&Tls::new());
    let message = refused(config(&server, "require"));
    assert!(message.contains("TLS"), "{message}");
}
