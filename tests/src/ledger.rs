//! What the tests know about ids: which were returned, and in which order.

use crate::Block;
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};

/// All ids that were ever returned for one tag.
#[derive(Default)]
pub struct Ledger {
    seen: HashSet<i64>,
    highest: i64,
}

impl Ledger {
    /// A ledger without entries.
    pub fn new() -> Ledger {
        Ledger {
            seen: HashSet::new(),
            highest: i64::MIN,
        }
    }

    /// Enters ids; panics if one is there already.
    pub fn add(&mut self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            assert!(self.seen.insert(id), "id {id} was returned twice");
            self.highest = self.highest.max(id);
        }
    }

    /// The highest id so far.
    pub fn highest(&self) -> i64 {
        self.highest
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }
}

/// Checks that ids ascend in the order of the calls, across sessions: a call that
/// begins after another has returned must get a higher id.
pub struct Order {
    highest: AtomicI64,
}

impl Default for Order {
    fn default() -> Order {
        Order::new()
    }
}

impl Order {
    /// Nothing was returned yet.
    pub fn new() -> Order {
        Order {
            highest: AtomicI64::new(i64::MIN),
        }
    }

    /// Runs a call of `next` or `batch` and checks what it returns against all
    /// calls that had returned before it began.
    pub fn ascending<E>(&self, call: impl FnOnce() -> Result<Vec<i64>, E>) -> Result<Vec<i64>, E> {
        let floor = self.highest.load(Ordering::SeqCst);
        let ids = call()?;
        let mut previous = floor;
        for &id in &ids {
            assert!(id > previous, "{id} was returned after {previous}");
            previous = id;
        }
        self.highest.fetch_max(previous, Ordering::SeqCst);
        Ok(ids)
    }

    /// Runs a call of `reserve`: its block lies above all that had been returned.
    /// What `next` returns later may lie below it, so the block counts no further.
    pub fn above<E>(&self, call: impl FnOnce() -> Result<Block, E>) -> Result<Block, E> {
        let floor = self.highest.load(Ordering::SeqCst);
        let block = call()?;
        assert!(block.first > floor, "{block:?} was reserved after {floor}");
        Ok(block)
    }
}
