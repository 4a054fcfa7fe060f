//! A relay between clients and a server, which delays connections and loses answers.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::Server;

/// Forwards connections to a server; ends with the test's process.
pub struct Relay {
    port: u16,
    loses_answers: Arc<AtomicBool>,
}

impl Relay {
    /// Starts one that passes on the first bytes of a connection only after `delay`.
    pub fn start(server: &Server, delay: Duration) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let socket = PathBuf::from(server.host()).join(format!(".s.PGSQL.{}", server.port()));
        let loses_answers = Arc::new(AtomicBool::new(false));
        let loses = loses_answers.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (socket, loses) = (socket.clone(), loses.clone());
                thread::spawn(move || {
                    thread::sleep(delay);
                    forward(&client, &socket, &loses);
                });
            }
        });
        Relay {
            port,
            loses_answers,
        }
    }

    /// Whether the server's answers are lost from now on. What clients send arrives.
    pub fn lose_answers(&self, loses: bool) {
        self.loses_answers.store(loses, Ordering::SeqCst);
    }

    /// The host and port that it listens on.
    pub fn address(&self) -> (&'static str, u16) {
        ("127.0.0.1", self.port)
    }

    /// How to connect through it.
    pub fn connection_string(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres",
            self.port
        )
    }
}

/// Copies both ways until one side ends.
fn forward(client: &TcpStream, socket: &Path, loses_answers: &AtomicBool) {
    let Ok(server) = UnixStream::connect(socket) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            copy(client, &server, || true);
            let _ = server.shutdown(Shutdown::Both);
        });
        copy(&server, client, || !loses_answers.load(Ordering::SeqCst));
        let _ = client.shutdown(Shutdown::Both);
    });
}

fn copy(mut from: impl Read, mut to: impl Write, passes: impl Fn() -> bool) {
    let mut buffer = [0; 8192];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 || passes() && to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
