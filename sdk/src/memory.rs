//! Ids without a server, for tests.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{Error, IdSource, IdType, SegmentId};

/// Ids in ascending order from memory, for tests of code that takes an [`IdSource`]. There
/// is no server, and nothing keeps the ids apart from those of other sources.
///
/// ```
/// use leaf_sdk::{Error, IdSource, MemorySource, SegmentId};
///
/// fn place_order(ids: &impl IdSource) -> Result<String, Error> {
///     Ok(format!("order {}", ids.next()?))
/// }
///
/// let ids = MemorySource::<SegmentId>::starting_at(1_000);
/// assert_eq!(place_order(&ids)?, "order 1000");
///
/// ids.fail_with(Error::TimeUsedUp);
/// assert!(place_order(&ids).is_err());
/// ids.recover();
/// assert_eq!(place_order(&ids)?, "order 1001");
/// # Ok::<(), Error>(())
/// ```
pub struct MemorySource<I = SegmentId> {
    state: Arc<Mutex<State>>,
    kind: PhantomData<fn() -> I>,
}

struct State {
    next: i64,
    failure: Option<Error>,
}

impl<I> MemorySource<I> {
    /// A source whose first id is this.
    ///
    /// ```
    /// let ids = leaf_sdk::MemorySource::<leaf_sdk::SnowflakeId>::starting_at(1);
    /// ```
    pub fn starting_at(first: i64) -> Self {
        let state = State {
            next: first,
            failure: None,
        };
        MemorySource {
            state: Arc::new(Mutex::new(state)),
            kind: PhantomData,
        }
    }

    /// From now on, calls fail with this error.
    ///
    /// ```
    /// let ids = leaf_sdk::MemorySource::<leaf_sdk::SegmentId>::starting_at(1);
    /// ids.fail_with(leaf_sdk::Error::Closed);
    /// ```
    pub fn fail_with(&self, error: Error) {
        self.state.lock().failure = Some(error);
    }

    /// From now on, calls succeed again.
    ///
    /// ```
    /// let ids = leaf_sdk::MemorySource::<leaf_sdk::SegmentId>::starting_at(1);
    /// ids.recover();
    /// ```
    pub fn recover(&self) {
        self.state.lock().failure = None;
    }
}

impl<I> Clone for MemorySource<I> {
    fn clone(&self) -> Self {
        MemorySource {
            state: self.state.clone(),
            kind: PhantomData,
        }
    }
}

impl<I> fmt::Debug for MemorySource<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut source = f.debug_struct("MemorySource");
        source.field("next", &self.state.lock().next).finish()
    }
}

impl<I: IdType> IdSource for MemorySource<I> {
    type Id = I;

    fn try_next(&self) -> Option<I> {
        self.next().ok()
    }

    fn next(&self) -> Result<I, Error> {
        let mut state = self.state.lock();
        match &state.failure {
            Some(error) => Err(error.clone()),
            None => {
                let id = state.next;
                state.next = id.wrapping_add(1);
                Ok(I::from(id))
            }
        }
    }

    fn ready(&self) -> Result<(), Error> {
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }
}
