//! Drawing ids that are at hand in this process, and waiting if there are none: the
//! same for the ids of a tag and for snowflake ids.

use std::thread;
use std::time::Duration;

use crate::background::forbid_blocking_a_runtime;
use crate::gate::{Gate, Wait};
use crate::process::Process;
use crate::{Error, IdType};

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
    /// The value that the gate guards.
    type Guarded: Send;

    /// The reason for which a draw needs the background tasks.
    const MISSING: Self::Stop;

    /// The process that may draw.
    fn process(&self) -> &Process;

    /// Where callers wait for the background tasks.
    fn gate(&self) -> &Gate<Self::Guarded>;

    /// How long a call waits that has no timeout of its own.
    fn timeout(&self) -> Duration;

    /// Takes an id that is at hand.
    fn take(&self) -> Result<Self::Id, Self::Stop>;

    /// Takes ids that are at hand, up to `count`, which is at least 1: at least one, or, if a
    /// call that fails must not take ids from others, all of them.
    fn take_some(&self, count: usize, ids: &mut Vec<Self::Id>) -> Result<(), Self::Stop>;

    /// Asks the background tasks for what stopped a draw, if they can provide it.
    fn ask(&self, stop: Self::Stop);

    /// Whether the ids are there now that were missing when a draw stopped.
    fn is_ready(&self, stop: Self::Stop) -> bool;

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

/// Implements [`IdSource`](crate::IdSource) for a [`Draw`]. One implementation for all of them
/// cannot be public, because that trait is private.
macro_rules! id_source {
    ([$($generic:ident: $bound:ident)?] $source:ty, $id:ty) => {
        impl<$($generic: $bound)?> $crate::IdSource for $source {
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
            fn next(&self) -> Result<$id, $crate::Error> {
                self.process().check()?;
                match self.take() {
                    Ok(id) => Ok(id),
                    Err(stop) => $crate::draw::wait(self, self.timeout(), stop, || self.take()),
                }
            }

            fn next_timeout(&self, timeout: ::std::time::Duration) -> Result<$id, $crate::Error> {
                self.process().check()?;
                match self.take() {
                    Ok(id) => Ok(id),
                    Err(stop) => $crate::draw::wait(self, timeout, stop, || self.take()),
                }
            }

            fn next_n(&self, count: usize) -> Result<Vec<$id>, $crate::Error> {
                self.process().check()?;
                let mut ids = $crate::draw::room_for(count)?;
                while ids.len() < count {
                    let mut take = || self.take_some(count - ids.len(), &mut ids);
                    if let Err(stop) = take() {
                        $crate::draw::wait(self, self.timeout(), stop, take)?;
                    }
                }
                Ok(ids)
            }

            fn ready(&self) -> Result<(), $crate::Error> {
                self.process().check()?;
                if self.is_ready(Self::MISSING) {
                    return Ok(());
                }
                let is_ready = || self.is_ready(Self::MISSING).then_some(()).ok_or(Self::MISSING);
                $crate::draw::wait(self, self.timeout(), Self::MISSING, is_ready)
            }

            #[cfg(feature = "async")]
            async fn next_async(&self) -> Result<$id, $crate::Error> {
                self.next_timeout_async(self.timeout()).await
            }

            #[cfg(feature = "async")]
            async fn next_timeout_async(&self, timeout: ::std::time::Duration) -> Result<$id, $crate::Error> {
                self.process().check()?;
                match self.take() {
                    Ok(id) => Ok(id),
                    Err(stop) => $crate::draw::wait_async(self, timeout, stop, || self.take()).await,
                }
            }

            #[cfg(feature = "async")]
            async fn next_n_async(&self, count: usize) -> Result<Vec<$id>, $crate::Error> {
                self.process().check()?;
                let mut ids = $crate::draw::room_for(count)?;
                while ids.len() < count {
                    let mut take = || self.take_some(count - ids.len(), &mut ids);
                    if let Err(stop) = take() {
                        $crate::draw::wait_async(self, self.timeout(), stop, take).await?;
                    }
                }
                Ok(ids)
            }

            #[cfg(feature = "async")]
            async fn ready_async(&self) -> Result<(), $crate::Error> {
                self.process().check()?;
                if self.is_ready(Self::MISSING) {
                    return Ok(());
                }
                let is_ready = || self.is_ready(Self::MISSING).then_some(()).ok_or(Self::MISSING);
                $crate::draw::wait_async(self, self.timeout(), Self::MISSING, is_ready).await
            }
        }
    };
}

pub(crate) use id_source;

/// An error if the memory does not suffice, instead of an abort.
pub(crate) fn room_for<T>(count: usize) -> Result<Vec<T>, Error> {
    let mut ids = Vec::new();
    match ids.try_reserve_exact(count) {
        Ok(()) => Ok(ids),
        Err(_) => Err(Error::Argument(format!("no memory for {count} ids"))),
    }
}

/// Waits until what stopped a draw is there, and takes it.
#[cold]
pub(crate) fn wait<S: Draw, T>(
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
                .sleep(&wait, || source.is_ready(stop))
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
pub(crate) async fn wait_async<S: Draw, T>(
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
                .sleep_async(&wait, || source.is_ready(stop))
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
