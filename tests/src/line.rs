//! A line between programs of this machine that a test cuts.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Forwards TCP connections to a port; ends with the test's process.
pub struct Line {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Line {
    /// A line to a port of this machine.
    pub fn to(target: u16) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let line = Line {
            port,
            is_cut: is_cut.clone(),
        };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let is_cut = is_cut.clone();
                thread::spawn(move || forward(&client, target, &is_cut));
            }
        });
        line
    }

    /// Where it begins.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on, nothing arrives at the other end, and nobody is told: what is sent
    /// arrives when the line is mended, as with a network that loses packets.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Ends what [`cut`](Line::cut) began.
    pub fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

fn forward(client: &TcpStream, target: u16, is_cut: &AtomicBool) {
    wait(is_cut);
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| copy(client, &server, is_cut));
        copy(&server, client, is_cut);
    });
}

/// Copies until one side ends, then ends the other.
fn copy(mut from: &TcpStream, mut to: &TcpStream, is_cut: &AtomicBool) {
    let mut buffer = [0; 8192];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        wait(is_cut);
        if count == 0 || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn wait(is_cut: &AtomicBool) {
    while is_cut.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(10));
    }
}
