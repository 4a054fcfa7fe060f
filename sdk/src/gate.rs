//! Where callers wait for what a background task brings, and how the attempts of
//! the task and the waits of the callers have ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::Error;
use crate::meter::Meter;

/// How often a caller that sleeps looks again, and asks for another attempt: a task
/// that has failed permanently does not repeat itself.
const SLICE: Duration = Duration::from_millis(100);

/// Guards a `T` that a background task changes.
pub(crate) struct Gate<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    notify: Notify,
    /// Calls that wait now.
    waiting: AtomicU64,
    /// How often a caller that sleeps looks again.
    slice: Duration,
}

/// The guarded value, and the bookkeeping.
pub(crate) struct State<T> {
    pub(crate) guarded: T,
    meter: Meter,
    /// Attempts that succeeded.
    successes: u64,
    /// Attempts that have begun.
    begun: u64,
    /// Of the last attempt, if it failed.
    failure: Option<Error>,
    /// The last attempt, if it failed permanently.
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
    pub(crate) waiting: u64,
    pub(crate) waits: u64,
    pub(crate) longest_wait: Duration,
    pub(crate) last_error: Option<String>,
}

/// The number of an attempt; the first is 1.
#[derive(Clone, Copy)]
pub(crate) struct Attempt(u64);

/// A call that waits, until this is dropped.
pub(crate) struct Wait<'a> {
    waiting: &'a AtomicU64,
    slice: Duration,
    since: Instant,
    limit: Duration,
    /// Attempts that had begun before the wait. Their failures may have causes that
    /// are gone: only the failure of a later one ends the wait.
    begun: u64,
}

impl<T: Default> Gate<T> {
    /// The gate of a source.
    pub(crate) fn new(meter: Meter) -> Self {
        Gate::with_slice(meter, SLICE)
    }

    /// A gate at which callers that sleep look again this often.
    pub(crate) fn with_slice(meter: Meter, slice: Duration) -> Self {
        let state = State {
            guarded: T::default(),
            meter,
            successes: 0,
            begun: 0,
            failure: None,
            permanent_failure: None,
            last_error: None,
            waits: 0,
            longest_wait: Duration::ZERO,
            is_closed: false,
        };
        Gate {
            state: Mutex::new(state),
            changed: Condvar::new(),
            notify: Notify::new(),
            waiting: AtomicU64::new(0),
            slice,
        }
    }
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
    pub(crate) fn begin_wait(&self, limit: Duration) -> Wait<'_> {
        let begun = self.lock().begun;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Wait {
            waiting: &self.waiting,
            slice: self.slice,
            since: Instant::now(),
            limit,
            begun,
        }
    }

    /// Counts a wait that has ended with an id.
    pub(crate) fn waited(&self, wait: &Wait<'_>) {
        let mut state = self.lock();
        state.waits += 1;
        let duration = wait.since.elapsed();
        state.longest_wait = state.longest_wait.max(duration);
        state.meter.waited(duration);
    }

    /// Blocks the thread until the caller should draw again, or ask again; an error
    /// if it should stop waiting.
    pub(crate) fn sleep(&self, wait: &Wait<'_>, is_ready: impl Fn() -> bool) -> Result<(), Error> {
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
        wait: &Wait<'_>,
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
            waiting: self.waiting.load(Ordering::Relaxed),
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
        // User code, which may panic.
        self.meter.attempt(true);
    }

    /// Whether the last attempt did not fail for the same reason: only then it is worth a warning.
    pub(crate) fn is_news(&self, error: &Error) -> bool {
        self.failure.as_ref().map(Error::to_string) != Some(error.to_string())
    }

    /// Whether the last attempt failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// The panic that ended the last attempt.
    pub(crate) fn panic(&self) -> Option<String> {
        let panic = self.failure.as_ref();
        let panic = panic.filter(|error| matches!(error, Error::Panic(_)));
        panic.map(Error::to_string)
    }

    /// Whether the last attempt failed, for a reason that may pass.
    pub(crate) fn is_failing(&self) -> bool {
        self.failure.as_ref().is_some_and(Error::is_retryable)
    }

    /// Records an attempt that failed.
    pub(crate) fn failed(&mut self, error: &Error) {
        self.permanent_failure = None;
        self.last_error = Some(error.to_string());
        self.failure = Some(error.clone());
        self.meter.attempt(false);
    }

    /// From now on, all waits end with [`Error::Closed`].
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// An error if the caller should stop waiting.
    fn may_wait(&self, wait: &Wait<'_>) -> Result<(), Error> {
        if self.is_closed {
            return Err(Error::Closed);
        }
        if let Some((attempt, error)) = &self.permanent_failure
            && attempt.0 > wait.begun
        {
            return Err(error.clone());
        }
        if wait.is_over() {
            // The next attempt after a permanent failure may come later than that.
            if let Some((_, error)) = &self.permanent_failure {
                return Err(error.clone());
            }
            return Err(Error::Timeout {
                after: wait.limit,
                last: self.failure.as_ref().map(Error::to_string),
            });
        }
        Ok(())
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Wait<'_> {
    /// Whether it has lasted as long as it may.
    pub(crate) fn is_over(&self) -> bool {
        self.since.elapsed() >= self.limit
    }

    /// When to look again.
    fn slice(&self) -> Instant {
        let slice = Instant::now() + self.slice;
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

    fn gate() -> Gate<()> {
        Gate::new(Meter::of("test", "test"))
    }

    fn fail(gate: &Gate<()>, attempt: Attempt) {
        gate.failed_permanently(attempt, &Error::TimeUsedUp);
    }

    #[test]
    fn wait_is_ended_only_by_an_attempt_that_began_later() {
        let gate = gate();
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
        let gate = gate();
        let wait = gate.begin_wait(LONG);
        fail(&gate, gate.begin_attempt());
        assert!(gate.sleep(&wait, || true).is_ok(), "ids are at hand");
        assert!(gate.sleep(&wait, || false).is_err());
        gate.lock().succeeded();
        gate.sleep(&wait, || false).expect("the wait goes on");
    }

    #[test]
    fn wait_may_be_without_end() {
        let gate = gate();
        let wait = gate.begin_wait(Duration::MAX);
        gate.sleep(&wait, || false).expect("the wait goes on");
    }

    #[test]
    fn wait_that_is_over_ends_with_the_permanent_failure_of_the_last_attempt() {
        let gate = gate();
        fail(&gate, gate.begin_attempt());
        let over = || {
            let wait = gate.begin_wait(Duration::ZERO);
            gate.sleep(&wait, || false)
        };
        assert!(matches!(over(), Err(Error::TimeUsedUp)));
        gate.lock().failed(&Error::Closed);
        assert!(matches!(over(), Err(Error::Timeout { .. })));
    }

    #[test]
    fn sleeper_is_woken() {
        for _ in 0..100 {
            let gate = Gate::<()>::with_slice(Meter::of("test", "test"), LONG);
            std::thread::scope(|scope| {
                let sleeper = scope.spawn(|| {
                    let wait = gate.begin_wait(LONG);
                    gate.sleep(&wait, || false)
                });
                while gate.tally().waiting == 0 {
                    std::thread::yield_now();
                }
                fail(&gate, gate.begin_attempt());
                let ended = sleeper.join().expect("no panic");
                assert!(matches!(ended, Err(Error::TimeUsedUp)), "{ended:?}");
            });
        }
    }

    #[cfg(feature = "async")]
    #[test]
    fn async_sleeper_is_woken() {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let gate = std::sync::Arc::new(Gate::<()>::with_slice(Meter::of("test", "test"), LONG));
            let sleeper = tokio::spawn({
                let gate = gate.clone();
                async move {
                    let wait = gate.begin_wait(LONG);
                    gate.sleep_async(&wait, || false).await
                }
            });
            while gate.tally().waiting == 0 {
                tokio::task::yield_now().await;
            }
            fail(&gate, gate.begin_attempt());
            let ended = sleeper.await.expect("no panic");
            assert!(matches!(ended, Err(Error::TimeUsedUp)), "{ended:?}");
        });
    }

    #[test]
    fn wait_that_is_over_says_what_failed_last() {
        let gate = gate();
        gate.lock().failed(&Error::TimeUsedUp);
        let wait = gate.begin_wait(Duration::ZERO);
        let Err(Error::Timeout { after, last }) = gate.sleep(&wait, || false) else {
            panic!("it is over");
        };
        assert_eq!(after, Duration::ZERO);
        assert_eq!(last, Some(Error::TimeUsedUp.to_string()));
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn attempts_and_waits_are_counted_for_the_recorder() {
        use metrics_util::debugging::{DebugValue, DebuggingRecorder};
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || {
            let gate = Gate::<()>::new(Meter::of("segment", "orders"));
            // Until it has had ids, the name may be made up.
            gate.lock().failed(&Error::TimeUsedUp);
            gate.lock().succeeded();
            gate.lock().failed(&Error::TimeUsedUp);
            gate.waited(&gate.begin_wait(LONG));
            let node = Gate::<()>::new(Meter::of("snowflake", "node"));
            node.lock().failed(&Error::TimeUsedUp);
        });
        let mut counted: Vec<_> = snapshotter
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, _, _, value)| {
                let labels: Vec<_> = key.key().labels().map(|label| label.value()).collect();
                let value = match value {
                    DebugValue::Counter(count) => count,
                    DebugValue::Histogram(values) => values.len() as u64,
                    DebugValue::Gauge(_) => panic!("there is no gauge"),
                };
                (format!("{} {}", key.key().name(), labels.join(" ")), value)
            })
            .collect();
        counted.sort();
        let expected = [
            "leaf_attempts_total segment orders failure",
            "leaf_attempts_total segment orders success",
            "leaf_attempts_total snowflake node failure",
            "leaf_wait_seconds segment orders",
        ];
        assert_eq!(counted, expected.map(|name| (name.to_owned(), 1)));
    }
}
