//! Where callers wait for what a background task brings, and how the attempts of
//! the task and the waits of the callers have ended.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::Error;

/// How often a caller that sleeps looks again, and asks for another attempt: a task
/// that has failed permanently does not repeat itself.
const SLICE: Duration = Duration::from_millis(100);

/// Guards a `T` that a background task changes.
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
    /// Attempts that succeeded.
    successes: u64,
    /// Attempts that have begun.
    begun: u64,
    /// Of the last attempt, if it failed.
    failure: Option<Error>,
    /// The last attempt that failed permanently, unless one has succeeded since.
    permanent_failure: Option<(Attempt, Error)>,
    /// Of the last attempt that failed.
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

/// The number of an attempt; the first is 1.
#[derive(Clone, Copy)]
pub(crate) struct Attempt(u64);

/// A call that waits.
pub(crate) struct Wait {
    since: Instant,
    limit: Duration,
    /// Attempts that had begun before the wait. Their failures may have causes that
    /// are gone: only the failure of a later one ends the wait.
    begun: u64,
}

impl<T> Gate<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock()
    }

    /// Wakes all callers that sleep.
    pub(crate) fn wake(&self) {
        self.changed.notify_all();
        self.notify.notify_waiters();
    }

    pub(crate) fn begin_attempt(&self) -> Attempt {
        let mut state = self.lock();
        state.begun += 1;
        Attempt(state.begun)
    }

    /// Records an attempt that failed permanently, which ends the waits that began
    /// before it. The other callers are woken, too, and ask for another attempt:
    /// the task must be ready to begin one.
    pub(crate) fn failed_permanently(&self, attempt: Attempt, error: &Error) {
        let mut state = self.lock();
        state.failed(error);
        state.permanent_failure = Some((attempt, error.clone()));
        drop(state);
        self.wake();
    }

    /// Begins a wait. An attempt that is asked for after this can end it.
    pub(crate) fn begin_wait(&self, limit: Duration) -> Wait {
        Wait {
            since: Instant::now(),
            limit,
            begun: self.lock().begun,
        }
    }

    /// Counts a wait that has ended with an id.
    pub(crate) fn waited(&self, wait: &Wait) {
        let mut state = self.lock();
        state.waits += 1;
        state.longest_wait = state.longest_wait.max(wait.since.elapsed());
    }

    /// Blocks the thread until the caller should draw again, or ask again; an error
    /// if it should stop waiting.
    pub(crate) fn sleep(&self, wait: &Wait, is_ready: impl Fn() -> bool) -> Result<(), Error> {
        let mut state = self.lock();
        if is_ready() {
            return Ok(());
        }
        state.may_wait(wait)?;
        self.changed.wait_until(&mut state, wait.slice());
        match is_ready() {
            true => Ok(()),
            false => state.may_wait(wait),
        }
    }

    /// Like [`sleep`](Self::sleep), asynchronous.
    #[cfg(feature = "async")]
    pub(crate) async fn sleep_async(
        &self,
        wait: &Wait,
        is_ready: impl Fn() -> bool,
    ) -> Result<(), Error> {
        // Registered before the check, so that no change in between is missed.
        let mut notified = std::pin::pin!(self.notify.notified());
        notified.as_mut().enable();
        if is_ready() {
            return Ok(());
        }
        self.lock().may_wait(wait)?;
        let _ = tokio::time::timeout_at(wait.slice().into(), notified).await;
        match is_ready() {
            true => Ok(()),
            false => self.lock().may_wait(wait),
        }
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
    /// Records an attempt that succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.successes += 1;
        self.failure = None;
        self.permanent_failure = None;
    }

    /// Records an attempt that failed.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.last_error = Some(error.to_string());
        self.failure = Some(error.clone());
    }

    /// From now on, all waits end with [`Error::Closed`].
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// An error if the caller should stop waiting.
    fn may_wait(&self, wait: &Wait) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        if let Some((attempt, error)) = &self.permanent_failure
            && attempt.0 > wait.begun
        {
            return Err(error.clone());
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
        let slice = Instant::now() + SLICE;
        let end = self.since.checked_add(self.limit);
        end.map_or(slice, |end| end.min(slice))
    }

    /// How long to sleep if nothing but time is needed, `wanted` of it.
    pub(crate) fn pause(&self, wanted: Duration) -> Duration {
        wanted.min(self.slice().saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn fail(gate: &Gate<()>, attempt: Attempt) {
        gate.failed_permanently(attempt, &Error::TimeUsedUp);
    }

    #[test]
    fn wait_is_ended_only_by_an_attempt_that_began_later() {
        let gate = Gate::default();
        let early = gate.begin_attempt();
        let wait = gate.begin_wait(LONG);
        fail(&gate, early);
        gate.sleep(&wait, || false).expect("the wait goes on");
        let late = gate.begin_attempt();
        fail(&gate, late);
        let ended = gate.sleep(&wait, || false);
        assert!(matches!(ended, Err(Error::TimeUsedUp)), "{ended:?}");
    }

    #[test]
    fn failure_ends_a_sleep_at_once_and_is_forgotten_after_a_success() {
        let gate = Gate::default();
        let wait = gate.begin_wait(LONG);
        fail(&gate, gate.begin_attempt());
        assert!(gate.sleep(&wait, || true).is_ok(), "ids are at hand");
        assert!(gate.sleep(&wait, || false).is_err());
        gate.lock().succeeded();
        gate.sleep(&wait, || false).expect("the wait goes on");
    }

    #[test]
    fn wait_may_be_without_end() {
        let gate = Gate::<()>::default();
        let wait = gate.begin_wait(Duration::MAX);
        gate.sleep(&wait, || false).expect("the wait goes on");
    }

    #[test]
    fn wait_that_is_over_says_what_failed_last() {
        let gate = Gate::<()>::default();
        gate.lock().failed(&Error::TimeUsedUp);
        let wait = gate.begin_wait(Duration::ZERO);
        let Err(Error::Timeout { after, last }) = gate.sleep(&wait, || false) else {
            panic!("it is over");
        };
        assert_eq!(after, Duration::ZERO);
        assert_eq!(last, Some(Error::TimeUsedUp.to_string()));
    }
}
