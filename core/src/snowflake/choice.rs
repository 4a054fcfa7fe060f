//! Which worker id a node gets from a registry.
//!
//! The registry is a table of leases. This module only decides which node gets which
//! worker id. That no id is issued twice does not depend on this choice: if a worker
//! id passes to another node, that node starts at its ceiling, the time below which
//! ids may have been issued. A good choice prevents nodes from taking worker ids from
//! each other.

use std::ops::Range;
use std::time::Duration;

use crate::time::WallTime;

/// A row of the registry, as seen by a node that requests a worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryRow {
    /// The worker id.
    pub worker_id: u64,
    /// Which node holds it.
    pub holder: Holder,
    /// Until when its holder keeps it.
    pub leased_until: WallTime,
}

/// Which node holds a worker id, as seen by the node that requests one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The node itself, before a restart.
    Claimant,
    /// Another node that leases from this registry.
    Other,
    /// A node that leased it in another history of the registry, that is, from the
    /// original or another copy of this database. It may still be alive and renew its
    /// lease there.
    OtherHistory,
}

/// The request of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The worker id that the node must have, if any.
    pub worker_id: Option<u64>,
    /// How many worker ids the layout has.
    pub worker_ids: u64,
    /// The registry's clock.
    pub now: WallTime,
    /// How long after its lease has run out a worker id of another history can be
    /// leased to another node.
    pub reuse_after: Duration,
}

/// Why a node gets no worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The layout has no such worker id.
    OutOfRange,
    /// Another node holds it.
    Held,
    /// It was leased in another history of the registry.
    HeldInOtherHistory,
    /// All worker ids are leased.
    NoneLeft,
}

/// Chooses a worker id: the requested one, the node's own, the one whose lease ran out first
/// in this history, one that was never leased, or else one whose lease ran out in another
/// history. Used ones come before unused ones, because containers that restart would
/// otherwise fill the registry.
///
/// `held` has the rows that can matter: all of them, or, of a large registry, that of the
/// requested worker id, those of the node itself, and those whose leases ran out first.
/// `unused` finds a worker id without a row, such as the [lowest](lowest_unused).
///
/// If the registry has leases of another history, other nodes may be choosing from
/// copies of it at the same time. Then `unused` should return a
/// [random](random_unused) one instead of the lowest, which all of them would choose. For the
/// same reason, a lease that ran out in another history comes last: all copies have it.
///
/// # Errors
/// Why the node gets no worker id.
///
/// ```
/// use leaf_core::snowflake::choice::{choose, lowest_unused, RegistryRow, Holder, Request};
/// use leaf_core::time::WallTime;
/// use std::time::Duration;
///
/// let request = Request {
///     worker_id: None,
///     worker_ids: 4,
///     now: WallTime::from_unix_us(1000),
///     reuse_after: Duration::ZERO,
/// };
/// let until = |us| RegistryRow {
///     worker_id: 0,
///     holder: Holder::Other,
///     leased_until: WallTime::from_unix_us(us),
/// };
/// let unused = || lowest_unused(&[0], 0..4);
/// assert_eq!(choose(&[until(2000)], &request, unused), Ok(1));
/// assert_eq!(choose(&[until(900)], &request, unused), Ok(0));
/// ```
pub fn choose(
    held: &[RegistryRow],
    request: &Request,
    unused: impl FnOnce() -> Option<u64>,
) -> Result<u64, Refused> {
    let is_expired = |row: &RegistryRow| match row.holder {
        Holder::Claimant => true,
        Holder::Other => row.leased_until < request.now,
        Holder::OtherHistory => row.leased_until + request.reuse_after < request.now,
    };
    if let Some(worker_id) = request.worker_id {
        if worker_id >= request.worker_ids {
            return Err(Refused::OutOfRange);
        }
        return match held.iter().find(|row| row.worker_id == worker_id) {
            Some(row) if is_expired(row) => Ok(worker_id),
            Some(row) if row.holder == Holder::OtherHistory => Err(Refused::HeldInOtherHistory),
            Some(_) => Err(Refused::Held),
            None => Ok(worker_id),
        };
    }
    let rows = || held.iter().filter(|row| row.worker_id < request.worker_ids);
    let own = rows()
        .filter(|row| row.holder == Holder::Claimant)
        .map(|row| row.worker_id)
        .min();
    let expired = |holder: Holder| {
        rows()
            .filter(|row| row.holder == holder && is_expired(row))
            .min_by_key(|row| (row.leased_until, row.worker_id))
            .map(|row| row.worker_id)
    };
    own.or_else(|| expired(Holder::Other))
        .or_else(unused)
        .or_else(|| expired(Holder::OtherHistory))
        .ok_or(Refused::NoneLeft)
}

/// The lowest number of a range that is not in `taken`.
///
/// ```
/// use leaf_core::snowflake::choice::lowest_unused;
///
/// assert_eq!(lowest_unused(&[1, 0, 3], 0..4), Some(2));
/// assert_eq!(lowest_unused(&[1, 0], 0..2), None);
/// ```
pub fn lowest_unused(taken: &[u64], range: Range<u64>) -> Option<u64> {
    random_unused(taken, range, 0)
}

/// A number of a range that is not in `taken`, each with the same probability.
///
/// ```
/// use leaf_core::snowflake::choice::random_unused;
///
/// let unused = [0, 1, 2, 3].map(|random| random_unused(&[1], 0..4, random));
/// assert_eq!(unused, [Some(0), Some(2), Some(3), Some(0)]);
/// ```
pub fn random_unused(taken: &[u64], range: Range<u64>, random: u64) -> Option<u64> {
    let mut taken: Vec<u64> = taken
        .iter()
        .copied()
        .filter(|number| range.contains(number))
        .collect();
    taken.sort_unstable();
    taken.dedup();
    let count = (range.end - range.start).checked_sub(taken.len() as u64)?;
    if count == 0 {
        return None;
    }
    let mut unused = range.start + random % count;
    // The one that has so many unused ones below it.
    for taken in taken {
        if taken <= unused {
            unused += 1;
        }
    }
    Some(unused)
}

/// The usual offset of the clocks of a registry: the median of the live nodes' offsets and
/// of the registry's own, which is 0. If two of them are in the middle, the one nearer
/// to 0.
///
/// An offset is how far a clock is ahead of the registry's, in microseconds; negative if it
/// is behind. One node with a wrong clock does not change the median much, and not
/// at all if it is the only other one.
///
/// ```
/// use leaf_core::snowflake::choice::usual_offset;
///
/// assert_eq!(usual_offset(&[]), 0);
/// assert_eq!(usual_offset(&[3_600_000_000]), 0);
/// assert_eq!(usual_offset(&[20, 30, 3_600_000_000]), 20);
/// ```
pub fn usual_offset(others_us: &[i64]) -> i64 {
    let mut offsets = [others_us, &[0]].concat();
    offsets.sort_unstable();
    let (lower, upper) = ((offsets.len() - 1) / 2, offsets.len() / 2);
    let (lower, upper) = (offsets[lower], offsets[upper]);
    match lower.unsigned_abs() <= upper.unsigned_abs() {
        true => lower,
        false => upper,
    }
}

/// Whether a node's clock is credible: it is at most `most` off the registry's clock.
///
/// `offset_us` is how far the node's clock is ahead of the registry's. Other nodes' clocks do not
/// count, unlike in Meituan Leaf: one that is wrong, or lies, could keep all others out.
///
/// ```
/// use leaf_core::snowflake::choice::is_credible;
/// use std::time::Duration;
///
/// let most = Duration::from_micros(100);
/// assert!(is_credible(20, most));
/// assert!(!is_credible(200, most));
/// ```
pub fn is_credible(offset_us: i64, most: Duration) -> bool {
    u128::from(offset_us.unsigned_abs()) <= most.as_micros()
}
