//! Drawing ids that are at hand in this process, and waiting if there are none: the
//! same for the ids of a tag and for snowflake ids.

use std::thread;
use std::time::Duration;

use crate::background::forbid_blocking_a_runtime;
use crate::gate::{Gate, Wait};
use crate::process::Process;
use crate::{Error, IdSource, IdType, SegmentSource, SnowflakeGenerator, SnowflakeId};

/// A source of ids with a background task: how to take ids without waiting, and what to do
/// if there are none. The methods of [`IdSource`] follow from that.
///
/// Taking does not ask the background tasks for ids that are missing. A caller asks
/// once its wait has begun, because an attempt that began earlier does not end the
/// wait.
pub(crate) trait Draw: Clone + Send + Sync + 'static {
    type Id: IdType;
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

/// Draws ids from a [`Draw`]. Two implementations of one text: one for all of a trait that is
/// private cannot be public.
macro_rules! id_source {
    ([$($generic:ident: $bound:ident)?] $source:ty, $id:ty) => {
        impl<$($generic: $bound)?> IdSource for $source {
            type Id = $id;

            #[inline]
            fn try_next(&self) -> Option<$id> {
                if !self.process().is_current() {
                    return None;
                }
                match self.take() {
                    Ok(id) => Some(id),
                    Err(stop) => {
                        self.ask(stop);
                        None
                    }
                }
            }

            #[inline]
            fn next(&self) -> Result<$id, Error> {
                self.process().check()?;
                match self.take() {
                    Ok(id) => Ok(id),
                    Err(stop) => wait(self, self.timeout(), stop, || self.take()),
                }
            }

            fn next_timeout(&self, timeout: Duration) -> Result<$id, Error> {
                self.process().check()?;
                match self.take() {
                    Ok(id) => Ok(id),
                    Err(stop) => wait(self, timeout, stop, || self.take()),
                }
            }

            fn next_n(&self, count: usize) -> Result<Vec<$id>, Error> {
                self.process().check()?;
                let mut ids = room_for(count)?;
                while ids.len() < count {
                    let mut take = || self.take_some(count - ids.len(), &mut ids);
                    if let Err(stop) = take() {
                        wait(self, self.timeout(), stop, take)?;
                    }
                }
                Ok(ids)
            }

            fn ready(&self) -> Result<(), Error> {
                self.process().check()?;
                if self.is_ready() {
                    return Ok(());
                }
                let is_ready = || self.is_ready().then_some(()).ok_or(Self::MISSING);
                wait(self, self.timeout(), Self::MISSING, is_ready)
            }

            #[cfg(feature = "async")]
            async fn next_async(&self) -> Result<$id, Error> {
                self.next_timeout_async(self.timeout()).await
            }

            #[cfg(feature = "async")]
            async fn next_timeout_async(&self, timeout: Duration) -> Result<$id, Error> {
                self.process().check()?;
                match self.take() {
                    Ok(id) => Ok(id),
                    Err(stop) => wait_async(self, timeout, stop, || self.take()).await,
                }
            }

            #[cfg(feature = "async")]
            async fn next_n_async(&self, count: usize) -> Result<Vec<$id>, Error> {
                self.process().check()?;
                let mut ids = room_for(count)?;
                while ids.len() < count {
                    let mut take = || self.take_some(count - ids.len(), &mut ids);
                    if let Err(stop) = take() {
                        wait_async(self, self.timeout(), stop, take).await?;
                    }
                }
                Ok(ids)
            }

            #[cfg(feature = "async")]
            async fn ready_async(&self) -> Result<(), Error> {
                self.process().check()?;
                if self.is_ready() {
                    return Ok(());
                }
                let is_ready = || self.is_ready().then_some(()).ok_or(Self::MISSING);
                wait_async(self, self.timeout(), Self::MISSING, is_ready).await
            }
        }
    };
}

id_source!([I: IdType] SegmentSource<I>, I);
id_source!([] SnowflakeGenerator, SnowflakeId);

/// An error if the memory does not suffice, instead of an abort.
fn room_for<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut ids = Vec::new();
    match ids.try_reserve_exact(count) {
        Ok(()) => Ok(ids),
        Err(_) => Err(Error::Argument(format!("no memory for {count} ids"))),
    }
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
