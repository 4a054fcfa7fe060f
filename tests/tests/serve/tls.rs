//! TLS towards clients.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use leaf_tests::{Serve, Server, Signal, Tls, wait_until};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

fn write(folder: &Path, tls: &Tls) {
    fs::write(folder.join("certificate.pem"), tls.certificate()).expect("a file");
    fs::write(folder.join("key.pem"), tls.key()).expect("a file");
}

/// The answer to a client that trusts this authority.
fn get(serve: &Serve, tls: &Tls) -> std::io::Result<String> {
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let client = ClientConnection::new(Arc::new(tls.client()), name).expect("a client");
    let mut stream = StreamOwned::new(client, TcpStream::connect(serve.address())?);
    stream.write_all(
        b"GET /v1/segment/orders HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn only_tls_is_spoken_and_the_certificate_is_read_again_on_sighup() {
    let (server, _) = Server::with_orders(1000);
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (Tls::new(), Tls::new());
    write(folder.path(), &first);
    let option = |name: &str, file: &str| format!("{name}={}", folder.path().join(file).display());
    let (certificate, key) = (
        option("--tls-cert", "certificate.pem"),
        option("--tls-key", "key.pem"),
    );
    let serve = Serve::start(&server, &[&certificate, &key]);
    let answer = get(&serve, &first).expect("an answer");
    assert!(answer.ends_with("{\"ids\":[\"1\"]}\n"), "{answer}");
    assert!(get(&serve, &second).is_err());
    assert!(serve.try_get("/healthz").is_err());

    fs::write(folder.path().join("key.pem"), "no key").expect("a file");
    serve.signal(Signal::SIGHUP);
    wait_until("the wrong key is noticed", || {
        serve.log().contains("earlier certificate is kept")
    });
    get(&serve, &first).expect("an answer");
    write(folder.path(), &second);
    serve.signal(Signal::SIGHUP);
    wait_until("the new certificate is used", || {
        get(&serve, &second).is_ok()
    });
    assert!(get(&serve, &first).is_err());
}
