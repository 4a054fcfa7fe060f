//! The trait of all sources.

use std::time::Duration;

use crate::{Error, IdType};

/// A source of ids in this process: a [`SegmentSource`](crate::SegmentSource), a
/// [`SnowflakeGenerator`](crate::SnowflakeGenerator), or, in tests without a server, a
/// [`MemorySource`](crate::MemorySource). Another source of ids needs only
/// [`try_next`](IdSource::try_next) and [`next`](IdSource::next).
///
/// ```no_run
/// use leaf_sdk::{Error, Id, IdSource};
///
/// struct Orders<S> {
///     ids: S,
/// }
///
/// impl<S: IdSource> Orders<S> {
///     fn place(&self, item: &str) -> Result<Id, Error> {
///         let id = self.ids.next()?;
///         println!("order {id}: {item}");
///         Ok(id.into())
///     }
/// }
/// ```
pub trait IdSource: Clone + Send + Sync + 'static {
    /// The type of its ids, such as [`SegmentId`](crate::SegmentId).
    type Id: IdType;

    /// The next id, if one is at hand. Never waits.
    fn try_next(&self) -> Option<Self::Id>;

    /// The next id. Waits if none is at hand, up to the configured
    /// [`timeout`](crate::Config::timeout).
    ///
    /// # Errors
    /// The reason why the server grants no ids or no lease; [`Error::Timeout`] if the
    /// reason may be temporary. [`Error::WouldBlockRuntime`] if the call would have to wait
    /// inside an async runtime. Of a generator also [`Error::Clock`] if the clock has gone
    /// back too far, and [`Error::LeaseLost`] if the lease could not be renewed.
    fn next(&self) -> Result<Self::Id, Error>;

    /// Like [`next`](Self::next), with its own timeout.
    fn next_timeout(&self, timeout: Duration) -> Result<Self::Id, Error> {
        let _ = timeout;
        self.next()
    }

    /// `count` ids, ascending. The timeout applies to each wait. A call that fails, or is
    /// cancelled, takes no id of a tag; snowflake ids that it had already are lost.
    fn next_n(&self, count: usize) -> Result<Vec<Self::Id>, Error> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Waits until ids are at hand, up to the configured timeout: at the start of a
    /// service, or as its readiness probe. Takes no id.
    ///
    /// # Errors
    /// The errors of [`next`](Self::next).
    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Like [`next`](Self::next), asynchronous.
    #[cfg(feature = "async")]
    fn next_async(&self) -> impl Future<Output = Result<Self::Id, Error>> + Send {
        async { self.next() }
    }

    /// Like [`next_timeout`](Self::next_timeout), asynchronous.
    #[cfg(feature = "async")]
    fn next_timeout_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Self::Id, Error>> + Send {
        async move { self.next_timeout(timeout) }
    }

    /// Like [`next_n`](Self::next_n), asynchronous.
    #[cfg(feature = "async")]
    fn next_n_async(
        &self,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Self::Id>, Error>> + Send {
        async move { self.next_n(count) }
    }

    /// Like [`ready`](Self::ready), asynchronous.
    #[cfg(feature = "async")]
    fn ready_async(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { self.ready() }
    }
}
