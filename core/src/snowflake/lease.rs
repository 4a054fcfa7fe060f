//! Which worker id a node gets from a registry.
//!
//! The registry is a table of leases; what is decided here is only who gets
//! what. That no id is issued twice does not depend on it: a worker id that
//! changes hands goes on above its ceiling. A good choice keeps nodes from
//! taking each other's.

/// A row of the registry, as it concerns a node that wants a worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The worker id.
    pub worker: u64,
    /// By whom it is held.
    pub holder: Holder,
    /// Until when its holder may expect to keep it, in microseconds.
    pub leased_until_us: i64,
}

/// Who holds a worker id, as seen by the node that wants one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The node itself, in an earlier life.
    Self_,
    /// Another node that leases from this registry.
    Other,
    /// A node that leased it in another history of the registry: it may be
    /// alive and renew its lease where that history goes on.
    OtherHistory,
}

/// What a node asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The worker id it insists on, if any.
    pub worker: Option<u64>,
    /// How many worker ids the layout has.
    pub workers: u64,
    /// The registry's clock, in microseconds.
    pub now_us: i64,
    /// How long after its lease has run out a worker id of another history may
    /// be given away, in microseconds.
    pub reuse_after_us: i64,
    /// Any number.
    pub random: u64,
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
    /// All are taken.
    NoneLeft,
}

/// Chooses a worker id: the one asked for, the node's own, the lowest that
/// nobody ever had, or the one whose lease ran out first.
///
/// Where the registry holds leases of another history, nodes that do not see
/// each other may be choosing from copies of it: then any free one is taken
/// instead of the lowest, which all of them would take.
///
/// ```
/// use leaf_core::snowflake::lease::{choose, Held, Holder, Request};
///
/// let request = Request { worker: None, workers: 4, now_us: 1000, reuse_after_us: 0, random: 0 };
/// let held = Held { worker: 0, holder: Holder::Other, leased_until_us: 900 };
/// assert_eq!(choose(&[], &request), Ok(0));
/// assert_eq!(choose(&[held], &request), Ok(1));
/// ```
pub fn choose(held: &[Held], request: &Request) -> Result<u64, Refused> {
    let is_expired = |row: &Held| match row.holder {
        Holder::Self_ => true,
        Holder::Other => row.leased_until_us < request.now_us,
        Holder::OtherHistory => {
            let until = row.leased_until_us.saturating_add(request.reuse_after_us);
            until < request.now_us
        }
    };
    if let Some(worker) = request.worker {
        if worker >= request.workers {
            return Err(Refused::OutOfRange);
        }
        return match held.iter().find(|row| row.worker == worker) {
            Some(row) if is_expired(row) => Ok(worker),
            Some(row) if row.holder == Holder::OtherHistory => Err(Refused::HeldInOtherHistory),
            Some(_) => Err(Refused::Held),
            None => Ok(worker),
        };
    }
    let rows = || held.iter().filter(|row| row.worker < request.workers);
    let own = rows()
        .filter(|row| row.holder == Holder::Self_)
        .map(|row| row.worker)
        .min();
    let expired = || {
        rows()
            .filter(|row| is_expired(row))
            .min_by_key(|row| (row.leased_until_us, row.worker))
            .map(|row| row.worker)
    };
    own.or_else(|| free(held, request))
        .or_else(expired)
        .ok_or(Refused::NoneLeft)
}

/// A worker id that stands in no row.
fn free(held: &[Held], request: &Request) -> Option<u64> {
    let mut taken: Vec<u64> = held
        .iter()
        .map(|row| row.worker)
        .filter(|&worker| worker < request.workers)
        .collect();
    taken.sort_unstable();
    taken.dedup();
    let count = request.workers - taken.len() as u64;
    if count == 0 {
        return None;
    }
    let in_copies = held.iter().any(|row| row.holder == Holder::OtherHistory);
    let mut worker = match in_copies {
        true => request.random % count,
        false => 0,
    };
    // The free one with that many free ones below it.
    for taken in taken {
        if taken <= worker {
            worker += 1;
        }
    }
    Some(worker)
}

/// Whether a node's clock can be believed, going by how far it and the live
/// nodes' clocks are off the registry's: all in microseconds, ahead positive.
///
/// Near the registry's clock, and near the mean of the others': where a
/// registry's own clock is wrong, the others show it (Meituan Leaf's check).
///
/// ```
/// use leaf_core::snowflake::lease::is_credible;
///
/// assert!(is_credible(20, &[], 100));
/// assert!(!is_credible(200, &[], 100));
/// assert!(!is_credible(0, &[5_000, 5_000], 100));
/// ```
pub fn is_credible(offset_us: i64, others_us: &[i64], max_us: i64) -> bool {
    if offset_us.unsigned_abs() > max_us.unsigned_abs() {
        return false;
    }
    if others_us.is_empty() {
        return true;
    }
    let sum: i128 = others_us.iter().map(|&us| i128::from(us)).sum();
    let mean = sum / others_us.len() as i128;
    (mean - i128::from(offset_us)).unsigned_abs() <= u128::from(max_us.unsigned_abs())
}
