//! How long a client takes.
//!
//! A connection is in one of four phases, and has been since an instant; both are one number, so
//! that a request costs no timer and no lock. What looks at all connections from time to time
//! closes those that have been in a phase for too long: clients that send a header byte by byte,
//! do not take their answer, or are idle.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Milliseconds since the start, as of the last look at the connections: near enough.
#[derive(Debug, Default)]
pub struct CoarseClock(AtomicU64);

impl CoarseClock {
    pub fn set(&self, since_start: Duration) {
        self.0
            .store(since_start.as_millis() as u64, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between two requests.
    Idle,
    /// A header is being received; a new connection begins here.
    Receiving,
    /// A request is being answered.
    Answering,
    /// The answer is being sent.
    Sending,
}

const PHASES: [Phase; 4] = [
    Phase::Idle,
    Phase::Receiving,
    Phase::Answering,
    Phase::Sending,
];

/// The phase of a connection, and since when.
#[derive(Debug)]
pub struct Watch {
    clock: Arc<CoarseClock>,
    /// The instant times four, plus the number of the phase.
    state: AtomicU64,
}

impl Watch {
    pub fn new(clock: &Arc<CoarseClock>) -> Watch {
        let watch = Watch {
            clock: clock.clone(),
            state: AtomicU64::new(0),
        };
        watch.enter(Phase::Receiving);
        watch
    }

    pub fn enter(&self, phase: Phase) {
        self.state
            .store(self.clock.now() * 4 + phase as u64, Ordering::Relaxed);
    }

    fn leave_for(&self, from: Phase, to: Phase) {
        if self.phase().0 == from {
            self.enter(to);
        }
    }

    /// The phase, and for how long it has lasted.
    pub fn phase(&self) -> (Phase, Duration) {
        let state = self.state.load(Ordering::Relaxed);
        let lasted = self.clock.now().saturating_sub(state / 4);
        (PHASES[(state % 4) as usize], Duration::from_millis(lasted))
    }
}

/// A stream that tells its [`Watch`] when a request begins to arrive and when an answer has
/// been sent.
pub struct Timed<S> {
    pub stream: S,
    pub watch: Arc<Watch>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.watch.leave_for(Phase::Idle, Phase::Receiving);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called when nothing is left to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.watch.leave_for(Phase::Sending, Phase::Idle);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_lasts_from_its_first_byte_on() {
        let clock = Arc::new(CoarseClock::default());
        let watch = Watch::new(&clock);
        clock.set(Duration::from_secs(1));
        watch.leave_for(Phase::Idle, Phase::Receiving);
        assert_eq!(watch.phase(), (Phase::Receiving, Duration::from_secs(1)));
        watch.enter(Phase::Sending);
        clock.set(Duration::from_secs(3));
        assert_eq!(watch.phase(), (Phase::Sending, Duration::from_secs(2)));
        watch.leave_for(Phase::Sending, Phase::Idle);
        assert_eq!(watch.phase(), (Phase::Idle, Duration::ZERO));
    }
}
