//! Connections: accepting, limiting, timing out, and ending them.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use slab::Slab;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::measures::OfConnections;
use super::problem::TOO_MANY_CONNECTIONS;
use super::timed::{CoarseClock, Phase, Timed, Watch};
use super::tls::Tls;

/// The largest header of a request, in bytes, and the most fields in it.
const LARGEST_HEADER: usize = 16 * 1024;
const MOST_FIELDS: usize = 64;

/// How often the connections are looked at.
const LOOK: Duration = Duration::from_millis(200);

/// How long to wait after an error of `accept`, which repeats itself if, for example, no file
/// descriptor is free.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// For sending a header while the server is being stopped.
const HEADER_AT_THE_END: Duration = Duration::from_secs(1);

/// How many clients above the limit are told so at once; others are only disconnected.
const MOST_TOLD: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: u32,
    /// For sending a header.
    pub header_timeout: Duration,
    /// For taking an answer.
    pub io_timeout: Duration,
    pub idle_timeout: Duration,
    /// For answering: longer than any request waits.
    pub answer_timeout: Duration,
}

/// The open connections.
pub struct Connections {
    router: Router,
    tls: Option<Arc<Tls>>,
    limits: Limits,
    permits: Arc<Semaphore>,
    to_tell: Arc<Semaphore>,
    open: Mutex<Slab<(Arc<Watch>, AbortHandle)>>,
    clock: Arc<CoarseClock>,
    counted: OfConnections,
}

/// Removes a connection from the open ones.
struct Opened {
    connections: Arc<Connections>,
    place: usize,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.connections.open.lock().remove(self.place);
        self.connections.counted.open.decrement(1);
    }
}

impl Connections {
    pub fn new(router: Router, tls: Option<Arc<Tls>>, limits: Limits) -> Arc<Connections> {
        Arc::new(Connections {
            router,
            tls,
            limits,
            permits: Arc::new(Semaphore::new(limits.connections as usize)),
            to_tell: Arc::new(Semaphore::new(MOST_TOLD)),
            open: Mutex::default(),
            clock: Arc::default(),
            counted: OfConnections::new(),
        })
    }

    /// Serves until `stop`; then lets requests end for three quarters of `grace`, or until
    /// `stop_now`. Returns what is left of `grace`.
    pub async fn serve(
        self: &Arc<Self>,
        listeners: Vec<TcpListener>,
        stop: &CancellationToken,
        stop_now: &CancellationToken,
        grace: Duration,
    ) -> Duration {
        let looking = tokio::spawn(self.clone().look_after(stop.clone()));
        let mut accepting = JoinSet::new();
        for listener in listeners {
            let accept = self.clone().accept(listener, stop.clone());
            let stop = stop.clone();
            accepting.spawn(async move { stop.run_until_cancelled(accept).await });
        }
        while accepting.join_next().await.is_some() {}
        let stopped = Instant::now();
        let of_requests = grace - grace / 4;
        // When all permits are there, no connection is open.
        let ended = tokio::time::timeout(
            of_requests,
            self.permits.acquire_many(self.limits.connections),
        );
        if !matches!(stop_now.run_until_cancelled(ended).await, Some(Ok(_))) {
            let left = self.abort_all();
            tracing::warn!(
                connections = left,
                "connections were closed before their requests ended"
            );
        }
        looking.abort();
        grace.saturating_sub(stopped.elapsed())
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let mut has_failed = false;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    has_failed = false;
                    self.open(stream, stop.clone());
                }
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    if !has_failed {
                        tracing::warn!(%error, "could not accept a connection");
                    }
                    has_failed = true;
                    tokio::time::sleep(AFTER_ERROR).await;
                }
            }
        }
    }

    fn open(self: &Arc<Self>, stream: TcpStream, stop: CancellationToken) {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            self.counted.refused.increment(1);
            return self.tell(stream);
        };
        let watch = Arc::new(Watch::new(&self.clock));
        // The task must not begin, and end, before it is entered.
        let mut open = self.open.lock();
        let entry = open.vacant_entry();
        let opened = Opened {
            connections: self.clone(),
            place: entry.key(),
            _permit: permit,
        };
        let serving = opened.run(stream, watch.clone(), stop);
        let task = tokio::spawn(serving);
        entry.insert((watch, task.abort_handle()));
        self.counted.open.increment(1);
    }

    /// Tells a client that there are too many connections.
    fn tell(&self, mut stream: TcpStream) {
        let Ok(permit) = self.to_tell.clone().try_acquire_owned() else {
            return;
        };
        // A client of TLS does not understand it.
        if self.tls.is_some() {
            return;
        }
        let timeout = self.limits.io_timeout.min(Duration::from_secs(1));
        tokio::spawn(async move {
            let told = async {
                stream.write_all(refusal().as_bytes()).await?;
                stream.shutdown().await?;
                // Closing while there is something to read would take the answer from the client.
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await? > 0 {}
                io::Result::Ok(())
            };
            let _ = tokio::time::timeout(timeout, told).await;
            drop(permit);
        });
    }

    /// Closes connections that have been in a phase for too long.
    async fn look_after(self: Arc<Self>, stop: CancellationToken) {
        let began = Instant::now();
        loop {
            tokio::time::sleep(LOOK).await;
            self.clock.set(began.elapsed());
            let limits = match stop.is_cancelled() {
                true => self.limits.at_the_end(),
                false => self.limits,
            };
            let open = self.open.lock();
            for (_, (watch, task)) in &*open {
                let (phase, lasted) = watch.phase();
                if lasted > limits.of(phase) {
                    self.counted.timed_out.increment(1);
                    task.abort();
                }
            }
        }
    }

    fn abort_all(&self) -> usize {
        let open = self.open.lock();
        open.iter().for_each(|(_, (_, task))| task.abort());
        open.len()
    }
}

impl Limits {
    /// A header that has not come yet is not waited for.
    fn at_the_end(self) -> Limits {
        Limits {
            header_timeout: self.header_timeout.min(HEADER_AT_THE_END),
            ..self
        }
    }

    fn of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Idle => self.idle_timeout,
            Phase::Receiving => self.header_timeout,
            Phase::Sending => self.io_timeout,
            Phase::Answering => self.answer_timeout,
        }
    }
}

impl Opened {
    async fn run(self, stream: TcpStream, watch: Arc<Watch>, stop: CancellationToken) {
        let _ = stream.set_nodelay(true);
        match &self.connections.tls {
            None => self.speak(stream, watch, &stop).await,
            Some(tls) => {
                if let Ok(stream) = tls.accept(stream).await {
                    self.speak(stream, watch, &stop).await;
                }
            }
        }
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        watch: Arc<Watch>,
        stop: &CancellationToken,
    ) {
        let router = &self.connections.router;
        let answering = watch.clone();
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            answering.enter(Phase::Answering);
            let answer = router.clone().call(request.map(Body::new));
            let watch = answering.clone();
            async move {
                let answer = answer.await;
                watch.enter(Phase::Sending);
                answer
            }
        });
        let mut http = http1::Builder::new();
        http.max_header_size(LARGEST_HEADER)
            .max_headers(MOST_FIELDS)
            .header_read_timeout(None);
        let connection = http.serve_connection(TokioIo::new(Timed { stream, watch }), service);
        let mut connection = pin!(connection);
        // What a client does wrong is no news: the connection ends.
        tokio::select! {
            _ = connection.as_mut() => {}
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
        }
    }
}

/// Whether an error of `accept` is that of a client who has gone.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

fn refusal() -> String {
    let body = TOO_MANY_CONNECTIONS.body();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         cache-control: no-store\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}
