//! TCP ports of this machine.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that nothing listens on.
pub fn free() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// A port that nothing listens on, and that the system gives to no outgoing connection:
/// for servers that stop and start again.
pub fn reserved() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Two processes that run at once begin at different places.
    let begin = (std::process::id() % 500) as u16 * 20;
    for _ in 0..10_000 {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + (begin + step) % 10_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}
