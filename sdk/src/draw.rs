//! Drawing ids that are at hand in this process, and waiting if there are none: the
//! same for the ids of a tag and for snowflake ids.

use std::thread;
use std::time::Duration;

use crate::Error;
use crate::background::forbid_blocking_a_runtime;
use crate::gate::{Gate, Wait};
use crate::process::Process;

/// What is drawn from: how to take ids without waiting, and what to do if there are
/// none.
///
/// Taking does not ask the background tasks for ids that are missing. A caller asks
/// once its wait has begun, because an attempt that began earlier does not end the
/// wait.
pub(crate) trait Draw: Sync {
    type Id: Send;
    /// Why there is no id.
    type Stop: Copy + Send + Sync;
    /// What the gate guards.
    type Guarded: Send;

    /// What stops a draw that needs the background tasks.
    const MISSING: Self::Stop;

    /// The process that may draw.
    fn process(&self) -> &Process;

    /// Where callers wait for the background tasks.
    fn gate(&self) -> &Gate<Self::Guarded>;

    /// How long a call waits that has no timeout of its own.
    fn timeout(&self) -> Duration;

    /// Takes an id that is at hand.
    fn take(&self) -> Result<Self::Id, Self::Stop>;

    /// Takes ids that are at hand, at least one and up to `count`, which is at
    /// least 1.
    fn take_some(&self, count: usize, ids: &mut Vec<Self::Id>) -> Result<(), Self::Stop>;

    /// Asks the background tasks for what stopped a draw, if they can provide it.
    fn ask(&self, stop: Self::Stop);

    /// Whether there is now what the background tasks were asked for.
    fn is_ready(&self) -> bool;

    /// How long to sleep if only time has to pass, `None` if a background task has to
    /// provide ids; an error if waiting is of no use.
    fn pause(&self, _wait: &Wait<'_>, _stop: Self::Stop) -> Result<Option<Duration>, Error> {
        Ok(None)
    }

    /// The error for the caller when a wait for a background task ends with one.
    fn in_vain(&self, error: Error) -> Error {
        error
    }
}

/// The next id, if one is at hand.
#[inline]
pub(crate) fn try_next<S: Draw>(source: &S) -> Option<S::Id> {
    if !source.process().is_current() {
        return None;
    }
    match source.take() {
        Ok(id) => Some(id),
        Err(stop) => {
            source.ask(stop);
            None
        }
    }
}

/// The next id, after a wait if none is at hand.
#[inline]
pub(crate) fn next<S: Draw>(source: &S) -> Result<S::Id, Error> {
    source.process().check()?;
    match source.take() {
        Ok(id) => Ok(id),
        Err(stop) => wait(source, source.timeout(), stop, || source.take()),
    }
}

/// Like [`next`], with a timeout.
pub(crate) fn next_timeout<S: Draw>(source: &S, timeout: Duration) -> Result<S::Id, Error> {
    source.process().check()?;
    match source.take() {
        Ok(id) => Ok(id),
        Err(stop) => wait(source, timeout, stop, || source.take()),
    }
}

/// `count` ids, after as many waits as that takes, each up to the timeout.
pub(crate) fn next_n<S: Draw>(source: &S, count: usize) -> Result<Vec<S::Id>, Error> {
    source.process().check()?;
    let mut ids = room_for(count)?;
    while ids.len() < count {
        let mut take = || source.take_some(count - ids.len(), &mut ids);
        if let Err(stop) = take() {
            wait(source, source.timeout(), stop, take)?;
        }
    }
    Ok(ids)
}

/// Waits until an id is at hand, without taking it.
pub(crate) fn ready<S: Draw>(source: &S) -> Result<(), Error> {
    source.process().check()?;
    if source.is_ready() {
        return Ok(());
    }
    let is_ready = || source.is_ready().then_some(()).ok_or(S::MISSING);
    wait(source, source.timeout(), S::MISSING, is_ready)
}

/// Like [`ready`], asynchronous.
#[cfg(feature = "async")]
pub(crate) async fn ready_async<S: Draw>(source: &S) -> Result<(), Error> {
    source.process().check()?;
    if source.is_ready() {
        return Ok(());
    }
    let is_ready = || source.is_ready().then_some(()).ok_or(S::MISSING);
    wait_async(source, source.timeout(), S::MISSING, is_ready).await
}

/// An error if the memory does not suffice, instead of an abort.
fn room_for<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut ids = Vec::new();
    match ids.try_reserve_exact(count) {
        Ok(()) => Ok(ids),
        Err(_) => Err(Error::Argument(format!("no memory for {count} ids"))),
    }
}

/// Like [`next`], asynchronous.
#[cfg(feature = "async")]
pub(crate) async fn next_async<S: Draw>(source: &S) -> Result<S::Id, Error> {
    next_timeout_async(source, source.timeout()).await
}

/// Like [`next_timeout`], asynchronous.
#[cfg(feature = "async")]
pub(crate) async fn next_timeout_async<S: Draw>(
    source: &S,
    timeout: Duration,
) -> Result<S::Id, Error> {
    source.process().check()?;
    match source.take() {
        Ok(id) => Ok(id),
        Err(stop) => wait_async(source, timeout, stop, || source.take()).await,
    }
}

/// Like [`next_n`], asynchronous.
#[cfg(feature = "async")]
pub(crate) async fn next_n_async<S: Draw>(source: &S, count: usize) -> Result<Vec<S::Id>, Error> {
    source.process().check()?;
    let mut ids = room_for(count)?;
    while ids.len() < count {
        let mut take = || source.take_some(count - ids.len(), &mut ids);
        if let Err(stop) = take() {
            wait_async(source, source.timeout(), stop, take).await?;
        }
    }
    Ok(ids)
}

/// Waits until what stopped a draw is there, and takes it.
#[cold]
fn wait<S: Draw, T>(
    source: &S,
    limit: Duration,
    mut stop: S::Stop,
    mut take: impl FnMut() -> Result<T, S::Stop>,
) -> Result<T, Error> {
    let gate = source.gate();
    let wait = gate.begin_wait(limit);
    loop {
        source.ask(stop);
        forbid_blocking_a_runtime()?;
        match source.pause(&wait, stop)? {
            Some(pause) => thread::sleep(pause),
            None => gate
                .sleep(&wait, || source.is_ready())
                .map_err(|error| source.in_vain(error))?,
        }
        match take() {
            Ok(taken) => {
                gate.waited(&wait);
                return Ok(taken);
            }
            Err(again) => stop = again,
        }
    }
}

/// Like [`wait`], asynchronous.
#[cfg(feature = "async")]
async fn wait_async<S: Draw, T>(
    source: &S,
    limit: Duration,
    mut stop: S::Stop,
    mut take: impl FnMut() -> Result<T, S::Stop>,
) -> Result<T, Error> {
    let gate = source.gate();
    let wait = gate.begin_wait(limit);
    loop {
        source.ask(stop);
        match source.pause(&wait, stop)? {
            Some(pause) => tokio::time::sleep(pause).await,
            None => gate
                .sleep_async(&wait, || source.is_ready())
                .await
                .map_err(|error| source.in_vain(error))?,
        }
        match take() {
            Ok(taken) => {
                gate.waited(&wait);
                return Ok(taken);
            }
            Err(again) => stop = again,
        }
    }
}
