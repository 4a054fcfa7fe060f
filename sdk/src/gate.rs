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
    /// Tries that have begun.
    begun: u64,
    /// Of the last try, if it failed.
    failure: Option<Error>,
    /// The last try that failed for good, unless one has succeeded since.
    hopeless: Option<(Try, Error)>,
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

/// A try, by its number: they count from 1.
#[derive(Clone, Copy)]
pub(crate) struct Try(u64);

/// A call that waits.
pub(crate) struct Wait {
    since: Instant,
    limit: Duration,
    /// The tries that had begun before it. How they end is not known to say
    /// anything about now: only a later one ends the wait.
    begun: u64,
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

    pub(crate) fn begin_try(&self) -> Try {
        let mut state = self.lock();
        state.begun += 1;
        Try(state.begun)
    }

    /// Records a try that failed for good: it ends the waits that began before
    /// the try did. Whoever waits on is woken to ask for another try, so this one
    /// must be over for whoever counts those under way.
    pub(crate) fn failed_for_good(&self, which: Try, error: &Error) {
        let mut state = self.lock();
        state.failed(error);
        state.hopeless = Some((which, error.clone()));
        drop(state);
        self.wake();
    }

    /// Begins a wait; what is asked for after this will end it.
    pub(crate) fn begin_wait(&self, limit: Duration) -> Wait {
        Wait {
            since: Instant::now(),
            limit,
            begun: self.lock().begun,
        }
    }

    /// Counts a wait that has ended well.
    pub(crate) fn waited(&self, wait: &Wait) {
        let mut state = self.lock();
        state.waits += 1;
        state.longest_wait = state.longest_wait.max(wait.since.elapsed());
    }

    /// Blocks the thread until it is worth drawing or asking again; an error
    /// once it is not.
    pub(crate) fn sleep(&self, wait: &Wait, is_ready: impl Fn() -> bool) -> Result<(), Error> {
        let mut state = self.lock();
        if is_ready() {
            return Ok(());
        }
        state.is_worth_waiting(wait)?;
        self.changed.wait_until(&mut state, wait.slice());
        match is_ready() {
            true => Ok(()),
            false => state.is_worth_waiting(wait),
        }
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
        if is_ready() {
            return Ok(());
        }
        self.lock().is_worth_waiting(wait)?;
        let _ = tokio::time::timeout_at(wait.slice().into(), notified).await;
        match is_ready() {
            true => Ok(()),
            false => self.lock().is_worth_waiting(wait),
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
    /// Records a try that succeeded.
    pub(crate) fn succeeded(&mut self) {
        self.successes += 1;
        self.failure = None;
        self.hopeless = None;
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
        if let Some((which, error)) = &self.hopeless
            && which.0 > wait.begun
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
        (Instant::now() + SLICE).min(self.since + self.limit)
    }

    /// How long to sleep where nothing is waited for but so much time.
    pub(crate) fn pause(&self, wanted: Duration) -> Duration {
        wanted.min(self.slice().saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn fail(gate: &Gate<()>, which: Try) {
        gate.failed_for_good(which, &Error::TimeUsedUp);
    }

    #[test]
    fn wait_is_ended_only_by_a_try_that_began_later() {
        let gate = Gate::default();
        let early = gate.begin_try();
        let wait = gate.begin_wait(LONG);
        fail(&gate, early);
        gate.sleep(&wait, || false).expect("the wait goes on");
        let late = gate.begin_try();
        fail(&gate, late);
        let ended = gate.sleep(&wait, || false);
        assert!(matches!(ended, Err(Error::TimeUsedUp)), "{ended:?}");
    }

    #[test]
    fn failure_ends_a_sleep_at_once_and_is_forgotten_after_a_success() {
        let gate = Gate::default();
        let wait = gate.begin_wait(LONG);
        fail(&gate, gate.begin_try());
        assert!(gate.sleep(&wait, || true).is_ok(), "ids are at hand");
        assert!(gate.sleep(&wait, || false).is_err());
        gate.lock().succeeded();
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
