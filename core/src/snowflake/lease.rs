//! A lease between the node that holds it and the registry that grants it: what each of them
//! does when requests or answers are lost, nodes start again, or another registry stands where
//! the first one was.
//!
//! A registration carries a *nonce* that the node has made, a renewal the *token* of the lease
//! and the next one. Both are made once and sent again until there is an answer: a registry that
//! has done it already answers the same, so that a lost answer costs neither the lease nor a
//! second worker id. Whoever does not know the current token, such as a copy of the node, has
//! lost the lease.
//!
//! Each answer says which registry has given it. Another incarnation does not know the ceilings
//! of the lease, which therefore must not be used any more; another history of the same one, after
//! a failover, changes nothing.

use std::time::Duration;

use super::terms::{BadTerms, Terms};
use crate::time::WallTime;

/// Distinguishes a registration from all others.
pub type Nonce = [u8; 16];

/// How far ahead of the clock a registration sets the ceiling at most: a service that ends soon
/// after each start would take all worker ids otherwise. The first renewal, some seconds after the
/// start, gives the full length.
pub const UNRENEWED: Duration = Duration::from_secs(30);

/// The token of a lease that was registered at this instant and never renewed: a negative one. A
/// registration that arrives once more after its lease has ended makes another lease with the same
/// nonce, maybe of the same worker id, which must not be renewed with the token of the first.
pub fn first_token(now: WallTime) -> i64 {
    -now.unix_us().max(1)
}

/// The tokens that a renewal may propose: no registration gives these, and a release adds one.
pub const PROPOSED: std::ops::RangeInclusive<i64> = 2..=i64::MAX - 1;

/// A token, made of a random number, with which nobody else can renew: a copy of its holder does
/// not guess it. Has at most 53 bits, which a double can represent.
pub const fn random_token(random: u64) -> i64 {
    *PROPOSED.start() + (random >> 12) as i64
}

/// Which registry has granted a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Made with the registry's tables, and kept by promotion and physical copies.
    pub incarnation: [u8; 16],
    /// The history of its database, which such a copy begins anew.
    pub history: String,
}

/// A lease as its holder knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLease {
    /// Which ids may be issued.
    pub terms: Terms,
    /// The nonce of the registration.
    pub nonce: Nonce,
    /// The token of the last renewal whose answer is known.
    pub token: i64,
    /// The token of a renewal whose answer is not known.
    pub next_token: Option<i64>,
    /// Who has granted it.
    pub registry: Identity,
    /// Whether only the registry can tell if the lease exists: its release may have been
    /// committed, or it may be that of another registry.
    pub is_doubtful: bool,
}

/// The meaning of the answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease goes on.
    Confirmed,
    /// It goes on in another history: the registry has failed over.
    FailedOver,
    /// Another registry has answered: the lease must not be used any more.
    OtherRegistry,
}

impl HeldLease {
    /// A lease that was just granted.
    pub fn granted(terms: Terms, nonce: Nonce, token: i64, registry: Identity) -> Self {
        HeldLease {
            terms,
            nonce,
            token,
            next_token: None,
            registry,
            is_doubtful: false,
        }
    }

    /// The token with which to renew: the one that was proposed last, if its answer is not known,
    /// or else `new`, which nobody else may be able to guess. To be stored before it is sent.
    pub fn propose(&mut self, new: impl FnOnce() -> i64) -> i64 {
        *self.next_token.get_or_insert_with(new)
    }

    /// Enters what a registry has answered to a renewal.
    ///
    /// # Errors
    /// That the answer is impossible. Nothing has changed then.
    pub fn renewed(
        &mut self,
        token: i64,
        ceiling: WallTime,
        registry: Identity,
    ) -> Result<Renewed, BadTerms> {
        if registry.incarnation != self.registry.incarnation {
            return Ok(Renewed::OtherRegistry);
        }
        let terms = self.terms.with_ceiling(ceiling)?;
        let has_failed_over = registry.history != self.registry.history;
        *self = HeldLease::granted(terms, self.nonce, token, registry);
        Ok(match has_failed_over {
            true => Renewed::FailedOver,
            false => Renewed::Confirmed,
        })
    }
}

/// The action of a registry on a request, by the row that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Do,
    /// It was done before, and is answered again as it was then.
    Repeat,
    /// It is refused: the lease is lost, or the nonce was used for another one.
    Refuse,
}

/// Whether to renew a lease whose row has a nonce and a token.
pub fn renewal(row: (Nonce, i64), nonce: Nonce, token: i64, next_token: i64) -> Verdict {
    match row {
        (of_row, _) if of_row != nonce => Verdict::Refuse,
        (_, of_row) if of_row == next_token => Verdict::Repeat,
        (_, of_row) if of_row == token => Verdict::Do,
        _ => Verdict::Refuse,
    }
}

/// Whether to register a node, given the token of the row that has its nonce, if there is one, and
/// whether that is a row for the same request. A lease that was renewed or released was known to
/// its node, which has no reason to register with its nonce again.
pub fn registration(row: Option<i64>, is_same_request: bool) -> Verdict {
    match row {
        None => Verdict::Do,
        Some(token) if token < 0 && is_same_request => Verdict::Repeat,
        Some(_) => Verdict::Refuse,
    }
}
