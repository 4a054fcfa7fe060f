//! Stripes: which numbers of a tag are granted here, so that nodes that know nothing of each
//! other never grant the same one.
//!
//! A tag keeps its stripe. It can only be divided, from a number on that the tag has not
//! reached: then the tag gives numbers up, and gets none that it did not have. This is safe
//! whatever the other nodes do; the one that gets the numbers must start above that number.

use leaf_core::grant::{Grantor, NotRestriped, Stripe};

use super::error::{Error, Refusal};
use super::line::{self, Line};
use super::permissions::require_owner;
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::pg::display;

/// Gives a tag, from the number `from` on, a part of its stripe: what `part` makes of the
/// present one. Ids in memory are all below `from`, and remain valid.
pub fn restripe(tag: &[u8], from: i64, part: impl FnOnce(&Stripe) -> Stripe) {
    require_owner(tag);
    let Some(Line { row, .. }) = line::lock(tag) else {
        Error::NoSuchTag { tag: display(tag) }.raise();
    };
    if row.grantor() == Grantor::Centre {
        Refusal::StripeOfCentre.raise(tag);
    }
    let granted_to = row.position.max_id;
    let present = row.position.numbers;
    let stripe = part(present.stripe());
    check_step(&stripe, i32::try_from(row.step).unwrap_or(i32::MAX));
    let numbers = match present.restriped(stripe, from, granted_to) {
        Ok(numbers) => numbers,
        Err(NotRestriped::NotFiner) => Error::NotFiner {
            tag: display(tag),
            stripe: *present.stripe(),
        }
        .raise(),
        Err(NotRestriped::Passed) => Error::BoundPassed {
            tag: display(tag),
            from,
            granted_to,
        }
        .raise(),
        Err(NotRestriped::Pending { from }) => {
            let tag = display(tag);
            Error::BoundPending { tag, from }.raise()
        }
    };
    if numbers != present {
        catalog::as_owner(|| alloc::restripe(tag, numbers));
    }
}

/// Raises an error if a segment of `step` ids is longer than a block of the stripe.
pub fn check_step(stripe: &Stripe, step: i32) {
    if let Some(width) = stripe.width()
        && step.unsigned_abs() as u64 > width
    {
        Error::StepLongerThanStripe { step, width }.raise();
    }
}

/// Raises an error if a tag has numbers that are not of this stripe.
pub fn require_within(tag: &[u8], stripe: &Stripe) {
    let row = catalog::as_owner(|| alloc::position(tag));
    if let Some(row) = row
        && !row.numbers.stripe().is_within(stripe)
    {
        Error::OtherStripe {
            tag: display(tag),
            stripe: *row.numbers.stripe(),
        }
        .raise();
    }
}
