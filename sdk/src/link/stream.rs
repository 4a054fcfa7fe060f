//! The bytes of a connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::Host;

use crate::connection::Target;

/// More than a server has to say before it lets a client in: its certificates, parameters and
/// messages. The driver would take gigabytes.
const MOST_AT_FIRST: u64 = 1 << 20;

/// A socket of either kind.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection to a server, which may send only so much until it is
/// [trusted](Allowance::lift).
pub(super) struct Stream {
    socket: Box<dyn Socket>,
    /// How many bytes may still come.
    left: Arc<AtomicU64>,
    is_ended_by_server: bool,
}

/// The bytes that a server may send.
pub(super) struct Allowance(Arc<AtomicU64>);

impl Allowance {
    /// The server has let the client in, and may send any amount.
    pub(super) fn lift(self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }
}

impl Stream {
    /// Connects to a host, with the driver's options of a socket.
    pub(super) async fn connect(
        host: &Target,
        driver: &tokio_postgres::Config,
    ) -> io::Result<(Stream, Allowance)> {
        let port = host.port;
        let socket: Box<dyn Socket> = match (&host.host, host.address) {
            (_, Some(address)) => {
                let socket = TcpStream::connect((address, port)).await?;
                Box::new(configured(socket, driver)?)
            }
            (Host::Tcp(name), None) => {
                let socket = TcpStream::connect((name.as_str(), port)).await?;
                Box::new(configured(socket, driver)?)
            }
            (Host::Unix(folder), None) => {
                let path = folder.join(format!(".s.PGSQL.{port}"));
                Box::new(UnixStream::connect(path).await?)
            }
        };
        let left = Arc::new(AtomicU64::new(MOST_AT_FIRST));
        let allowance = Allowance(left.clone());
        let stream = Stream {
            socket,
            left,
            is_ended_by_server: false,
        };
        Ok((stream, allowance))
    }

    /// For a request to cancel: the connection ends when the server ends it, which shows that
    /// the request was carried out. The driver would end it at once, and a pooler that has not
    /// passed on the request by then may not bear that (PgBouncer 1.18 crashes).
    pub(super) fn ended_by_server(self) -> Stream {
        Stream {
            is_ended_by_server: true,
            ..self
        }
    }
}

/// A socket with the options of the connection.
fn configured(socket: TcpStream, server: &tokio_postgres::Config) -> io::Result<TcpStream> {
    socket.set_nodelay(true)?;
    let options = SockRef::from(&socket);
    #[cfg(target_os = "linux")]
    options.set_tcp_user_timeout(server.get_tcp_user_timeout().copied())?;
    if server.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(server.get_keepalives_idle());
        if let Some(interval) = server.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(retries) = server.get_keepalives_retries() {
            keepalive = keepalive.with_retries(retries);
        }
        options.set_tcp_keepalive(&keepalive)?;
    }
    Ok(socket)
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        let left = self.left.load(Ordering::Relaxed);
        if left == u64::MAX {
            return read;
        }
        let count = (buffer.filled().len() - before) as u64;
        if count > left {
            return Poll::Ready(Err(io::Error::other(
                "the server sends too much before it accepts the connection",
            )));
        }
        self.left.store(left - count, Ordering::Relaxed);
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_ended_by_server {
            return Pin::new(&mut self.socket).poll_shutdown(context);
        }
        loop {
            let mut bytes = [0; 64];
            let mut buffer = ReadBuf::new(&mut bytes);
            match ready!(self.as_mut().poll_read(context, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // Closed, in one way or the other.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
