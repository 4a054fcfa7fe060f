//! What is listened on: sockets from systemd, or the address of `--listen`.

use std::io;
use std::net::SocketAddr;

use listenfd::ListenFd;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// How many connections the system keeps until they are accepted.
const BACKLOG: i32 = 4_096;

/// The sockets that systemd has passed on, or, without any, one at the address.
///
/// # Errors
/// In a line, with a hint.
pub fn open(address: SocketAddr) -> Result<Vec<TcpListener>, String> {
    let passed = passed_on()
        .map_err(|error| format!("could not use the socket that was passed on: {error}"))?;
    if !passed.is_empty() {
        return Ok(passed);
    }
    let listener = listen(address).map_err(|error| {
        format!("could not listen on {address}: {error}; choose another address with --listen")
    })?;
    Ok(vec![listener])
}

fn passed_on() -> io::Result<Vec<TcpListener>> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for place in 0..passed.len() {
        if let Some(listener) = passed.take_tcp_listener(place)? {
            listener.set_nonblocking(true)?;
            listeners.push(TcpListener::from_std(listener)?);
        }
    }
    Ok(listeners)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}
