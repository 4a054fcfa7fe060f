//! One trait for both kinds of sources, for code that works with either.

use std::fmt::Display;
use std::time::Duration;

use crate::{Error, Id, SegmentId, SegmentSource, SnowflakeGenerator, SnowflakeId};

/// A source of ids in this process: a [`SegmentSource`], a [`SnowflakeGenerator`], or, in
/// tests without a server, a [`MemorySource`](crate::MemorySource). They have these methods
/// themselves; the trait is for code that works with any of them. Another source of ids
/// needs only [`try_next`](IdSource::try_next) and [`next`](IdSource::next).
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
    /// The type of its ids: [`SegmentId`] or [`SnowflakeId`].
    type Id: Copy + Display + Into<Id> + Into<i64> + Send + Sync + 'static;

    /// The next id, if one is at hand. Never waits.
    ///
    /// ```no_run
    /// # fn example(ids: &impl leaf_sdk::IdSource) {
    /// let Some(id) = ids.try_next() else { return };
    /// # let _ = id; }
    /// ```
    fn try_next(&self) -> Option<Self::Id>;

    /// The next id. Waits if none is at hand, up to the configured timeout.
    ///
    /// # Errors
    /// Those of [`SegmentSource::next`] and [`SnowflakeGenerator::next`].
    ///
    /// ```no_run
    /// # fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// let id = ids.next()?;
    /// # let _ = id; Ok(()) }
    /// ```
    fn next(&self) -> Result<Self::Id, Error>;

    /// Like [`next`](Self::next), with its own timeout.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// let id = ids.next_timeout(Duration::from_millis(50))?;
    /// # let _ = id; Ok(()) }
    /// ```
    fn next_timeout(&self, timeout: Duration) -> Result<Self::Id, Error> {
        let _ = timeout;
        self.next()
    }

    /// `count` ids, ascending. The timeout applies to each wait.
    ///
    /// ```no_run
    /// # fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// let ids = ids.next_n(500)?;
    /// # let _ = ids; Ok(()) }
    /// ```
    fn next_n(&self, count: usize) -> Result<Vec<Self::Id>, Error> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Waits until ids are at hand, up to the configured timeout. Takes no id.
    ///
    /// ```no_run
    /// # fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// ids.ready()?;
    /// # Ok(()) }
    /// ```
    fn ready(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Like [`next`](Self::next), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// let id = ids.next_async().await?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    fn next_async(&self) -> impl Future<Output = Result<Self::Id, Error>> + Send {
        async { self.next() }
    }

    /// Like [`next_timeout`](Self::next_timeout), asynchronous.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// let id = ids.next_timeout_async(Duration::from_millis(50)).await?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    fn next_timeout_async(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Self::Id, Error>> + Send {
        async move { self.next_timeout(timeout) }
    }

    /// Like [`next_n`](Self::next_n), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// let ids = ids.next_n_async(500).await?;
    /// # let _ = ids; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    fn next_n_async(
        &self,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Self::Id>, Error>> + Send {
        async move { self.next_n(count) }
    }

    /// Like [`ready`](Self::ready), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(ids: &impl leaf_sdk::IdSource) -> Result<(), leaf_sdk::Error> {
    /// ids.ready_async().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    fn ready_async(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { self.ready() }
    }
}

macro_rules! id_source {
    ($source:ty, $id:ty) => {
        impl IdSource for $source {
            type Id = $id;

            #[inline]
            fn try_next(&self) -> Option<$id> {
                <$source>::try_next(self)
            }

            #[inline]
            fn next(&self) -> Result<$id, Error> {
                <$source>::next(self)
            }

            fn next_timeout(&self, timeout: Duration) -> Result<$id, Error> {
                <$source>::next_timeout(self, timeout)
            }

            fn next_n(&self, count: usize) -> Result<Vec<$id>, Error> {
                <$source>::next_n(self, count)
            }

            fn ready(&self) -> Result<(), Error> {
                <$source>::ready(self)
            }

            #[cfg(feature = "async")]
            fn next_async(&self) -> impl Future<Output = Result<$id, Error>> + Send {
                <$source>::next_async(self)
            }

            #[cfg(feature = "async")]
            fn next_timeout_async(
                &self,
                timeout: Duration,
            ) -> impl Future<Output = Result<$id, Error>> + Send {
                <$source>::next_timeout_async(self, timeout)
            }

            #[cfg(feature = "async")]
            fn next_n_async(
                &self,
                count: usize,
            ) -> impl Future<Output = Result<Vec<$id>, Error>> + Send {
                <$source>::next_n_async(self, count)
            }

            #[cfg(feature = "async")]
            fn ready_async(&self) -> impl Future<Output = Result<(), Error>> + Send {
                <$source>::ready_async(self)
            }
        }
    };
}

id_source!(SegmentSource, SegmentId);
id_source!(SnowflakeGenerator, SnowflakeId);
