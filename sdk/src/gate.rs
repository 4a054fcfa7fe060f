//! Where callers wait for what a task in the background brings, and how the
//! task's tries and the callers' waits have fared.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::Error;

/// A sleeper looks around this often, to ask for another try: a task that has
/// failed for good does not repeat itself.
const SLICE: Duration = Duration::from_millis(100);

/// Guards a `T`, which a task in the background changes.
#[derive(Default)]
pub(crate) struct Gate<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    notify: Notify,
}

/// What is guarded, and the bookkeeping.
#[derive(Default)]
pub(crate) struct State<T> {
    pub(crate) guarded: T,
    /// Tries that succeeded.
    successes: u64,
    /// Tries that failed for good.
    failures: u64,
    /// Of the last try, if it failed.
    failure: Option<Error>,
    /// Of the last try that failed.
    last_error: Option<String>,
    waits: u64,
    longest_wait: Duration,
    is_closed: bool,
}

/// A copy of the bookkeeping.
pub(crate) struct Tally {
    pub(crate) successes: u64,
    pub(crate) waits: u64,
    pub(crate) longest_wait: Duration,
    pub(crate) last_error: Option<String>,
}

/// A call that waits.
pub(crate) struct Wait {
    since: Instant,
    limit: Duration,
    /// The failures it began with: only another one ends it.
    failures: u64,
}

impl<T> Gate<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    /// Has all sleepers look again.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
        self.notify.notify_waiters();
    }

    /// Records a try that failed; one `for_good` ends the wait of who waits now.
    pub(crate) fn failed(&self, error: &Error, for_good: bool) {
        let mut state = self.lock();
        state.failed(error);
        state.failures += u64::from(for_good);
        drop(state);
        if for_good {
            self.wake();
        }
    }

    pub(crate) fn begin_wait(&self, limit: Duration) -> Wait {
        Wait {
            since: Instant::now(),
            limit,
            failures: self.lock().failures,
        }
    }

    /// Counts a wait that has ended well.
    pub(crate) fn waited(&self, wait: &Wait) {
        let mut state = self.lock();
        state.waits += 1;
        state.longest_wait = state.longest_wait.max(wait.since.elapsed());
    }

    /// Blocks the thread until it is worth trying again.
    pub(crate) fn sleep(&self, wait: &Wait, is_ready: impl Fn() -> bool) -> Result<(), Error> {
        let mut state = self.lock();
        if !is_ready() {
            state.is_worth_waiting(wait)?;
            self.changed.wait_until(&mut state, wait.slice());
        }
        Ok(())
    }

    /// As [`sleep`](Self::sleep), for a task.
    #[cfg(feature = "async")]
    pub(crate) async fn sleep_async(
        &self,
        wait: &Wait,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), Error> {
        // Registered before the look: what happens in between wakes it.
        let mut notified = std::pin::pin!(self.notify.notified());
        notified.as_mut().enable();
        if !is_ready() {
            self.lock().is_worth_waiting(wait)?;
            let _ = tokio::time::timeout_at(wait.slice().into(), notified).await;
        }
        Ok(())
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = self.lock();
        Tally {
            successes: state.successes,
            waits: state.waits,
            longest_wait: state.longest_wait,
            last_error: state.last_error.clone(),
        }
    }
}

impl<T> State<T> {
    /// Records a try that succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.successes += 1;
        self.failure = None;
    }

    /// Records a try that failed.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.last_error = Some(error.to_string());
        self.failure = Some(error.clone());
    }

    /// From now on, who waits or begins to wait gets [`Error::Closed`].
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn is_worth_waiting(&self, wait: &Wait) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        if let Some(failure) = &self.failure
            && self.failures != wait.failures
        {
            return Err(failure.clone());
        }
        if wait.is_over() {
            return Err(Error::Timeout {
                after: wait.limit,
                last: self.failure.as_ref().map(Error::to_string),
            });
        }
        Ok(())
    }
}

impl Wait {
    /// Whether it has lasted as long as it may.
    pub(crate) fn is_over(&self) -> bool {
        self.since.elapsed() >= self.limit
    }

    /// When to look again.
    fn slice(&self) -> Instant {
        (Instant::now() + SLICE).min(self.since + self.limit)
    }

    /// How long to sleep where nothing is waited for but so much time.
    pub(crate) fn pause(&self, wanted: Duration) -> Duration {
        wanted.min(self.slice().saturating_duration_since(Instant::now()))
    }
}
