//! The arithmetic of grants: how far the ids of a tag are granted, and what is left.

use super::stripe::OwnNumbers;
use crate::run::Run;

/// The largest id that can be granted. It is one less than the type's maximum,
/// because the row stores the next value.
pub const MAX_ID: i64 = i64::MAX - 1;

/// Of the ids that are left, one grant may take one in so many.
const PART_AT_ONCE: u64 = 10_000;

/// The part of a tag's row that grants work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first number not yet granted; it may be one of another stripe.
    pub max_id: i64,
    /// The largest id that may be granted.
    pub max_value: i64,
    /// The numbers that may be granted.
    pub numbers: OwnNumbers,
}

/// Why nothing was granted: the tag has reached its `max_value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Position {
    /// How many ids are left to grant.
    pub fn left(&self) -> u64 {
        self.numbers.count(self.max_id, self.last())
    }

    /// How many ids a segment or a block may have: a small part of those that are left, because
    /// each change of history skips several of them. A wide tag has more than is ever asked for.
    pub fn most_at_once(&self) -> u64 {
        (self.left() / PART_AT_ONCE).max(1)
    }

    /// The next id to be granted, if one is left.
    pub fn next(&self) -> Option<i64> {
        let next = i64::try_from(self.numbers.next(self.max_id)).ok()?;
        (next <= self.last()).then_some(next)
    }

    /// Grants up to `count` ids: fewer if the tag has fewer left, or the block of a stripe
    /// has. What is left of a block is divided in two rather than into a long segment and a
    /// short one, which would be used up before the next one is loaded.
    pub fn grant_up_to(&mut self, count: u64) -> Result<Run, Exhausted> {
        let first = self.next().filter(|_| count > 0).ok_or(Exhausted)?;
        let end = self.numbers.end_of_run(i128::from(first));
        let room = self.room(first, end);
        let is_cut = end <= i128::from(self.last());
        let len = match is_cut && count < room && room < count.saturating_mul(2) {
            true => room.div_ceil(2),
            false => count.min(room),
        };
        Ok(self.take(first, len))
    }

    /// Grants exactly `count` ids in one block, or none. A block of a stripe that has fewer
    /// left is passed over.
    pub fn grant_block(&mut self, count: u64) -> Result<Run, Exhausted> {
        if count == 0 {
            return Err(Exhausted);
        }
        let mut at = *self;
        // The rest of the current block, and the next one.
        for _ in 0..2 {
            let first = at.next().ok_or(Exhausted)?;
            let end = at.numbers.end_of_run(i128::from(first));
            if count <= at.room(first, end) {
                *self = at;
                return Ok(self.take(first, count));
            }
            at.max_id = i64::try_from(end).map_err(|_| Exhausted)?;
        }
        Err(Exhausted)
    }

    /// Takes back the ids that were granted last. Returns whether it did: it does not if
    /// other ids were granted after them.
    pub fn take_back(&mut self, unused: Run) -> bool {
        let is_last = unused.len > 0 && unused.end() == Some(self.max_id);
        if is_last {
            self.max_id = unused.first;
        }
        is_last
    }

    /// Skips `count` ids without granting them, or all if fewer are left.
    pub fn skip(&mut self, count: u64) {
        if count > 0 && self.max_id <= self.last() {
            let next = self.numbers.after(self.max_id, count);
            let end = self.last() + 1;
            self.max_id = i64::try_from(next).map_or(end, |next| next.min(end));
        }
    }

    /// The largest id that can be granted.
    fn last(&self) -> i64 {
        self.max_value.min(MAX_ID)
    }

    /// How many ids there are from `first` to `end`, which is not one of them.
    fn room(&self, first: i64, end: i128) -> u64 {
        let end = end.min(i128::from(self.last()) + 1);
        u64::try_from(end - i128::from(first)).unwrap_or(0)
    }

    fn take(&mut self, first: i64, len: u64) -> Run {
        self.max_id = first.wrapping_add_unsigned(len);
        Run { first, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Stripe;

    fn position(max_id: i64, max_value: i64) -> Position {
        Position {
            max_id,
            max_value,
            numbers: OwnNumbers::ALL,
        }
    }

    /// Stripe 1 of 4, with blocks of 100.
    fn striped(max_id: i64, max_value: i64) -> Position {
        let stripe = Stripe::new(4, 1, 100).expect("a stripe");
        Position {
            numbers: OwnNumbers::of(stripe),
            ..position(max_id, max_value)
        }
    }

    fn run(first: i64, len: u64) -> Result<Run, Exhausted> {
        Ok(Run { first, len })
    }

    #[test]
    fn grants_of_a_stripe_end_with_its_blocks() {
        let mut row = striped(1, i64::MAX);
        assert_eq!(row.next(), Some(100));
        assert_eq!(row.grant_up_to(30), run(100, 30));
        assert_eq!(row.grant_up_to(30), run(130, 30));
        // The rest is divided evenly.
        assert_eq!(row.grant_up_to(30), run(160, 20));
        assert_eq!(row.grant_up_to(30), run(180, 20));
        assert_eq!(row.grant_up_to(1_000), run(500, 100));
        assert_eq!(row.max_id, 600);
        assert_eq!(row.next(), Some(900));
        let mut negative = striped(-590, i64::MAX);
        assert_eq!(negative.grant_up_to(1_000), run(-300, 100));
        assert_eq!(negative.grant_up_to(1_000), run(100, 100));
    }

    #[test]
    fn a_block_that_does_not_fit_goes_to_the_next_own_one() {
        let mut row = striped(100, i64::MAX);
        assert_eq!(row.grant_block(60), run(100, 60));
        assert_eq!(row.grant_block(40), run(160, 40));
        assert_eq!(row.grant_block(30), run(500, 30));
        assert_eq!(row.grant_block(71), run(900, 71));
        assert_eq!(row.grant_block(101), Err(Exhausted));
        assert_eq!(row.max_id, 971);
        assert!(row.take_back(Run {
            first: 930,
            len: 41
        }));
        assert_eq!(row.grant_up_to(10), run(930, 10));
        let mut short = striped(100, 550);
        assert_eq!(short.grant_block(60), run(100, 60));
        assert_eq!(short.grant_block(52), Err(Exhausted));
        assert_eq!(short.grant_block(51), run(500, 51));
    }

    #[test]
    fn a_stripe_ends_with_max_value_and_with_bigint() {
        let mut row = striped(160, 510);
        assert_eq!(row.left(), 51);
        assert_eq!(row.grant_up_to(1_000), run(160, 40));
        assert_eq!(row.grant_up_to(1_000), run(500, 11));
        assert_eq!(row.grant_up_to(1), Err(Exhausted));
        // i64::MAX is the number 7 of block 92233720368547758, whose stripe is 2 of 4.
        let mut own = Position {
            numbers: OwnNumbers::of(Stripe::new(4, 2, 100).expect("a stripe")),
            ..position(i64::MAX - 9, i64::MAX)
        };
        assert_eq!(own.left(), 7);
        assert_eq!(own.grant_up_to(10), run(i64::MAX - 7, 7));
        assert_eq!(own.max_id, i64::MAX);
        assert_eq!(own.grant_up_to(1), Err(Exhausted));
        let mut other = striped(i64::MAX - 107, i64::MAX);
        assert_eq!(other.grant_up_to(1_000), run(i64::MAX - 107, 100));
        assert_eq!(other.grant_up_to(1), Err(Exhausted));
        assert_eq!(other.grant_block(1), Err(Exhausted));
        assert_eq!(other.left(), 0);
        other.skip(u64::MAX);
        assert_eq!(other.next(), None);
    }

    #[test]
    fn a_skip_counts_own_numbers() {
        let mut row = striped(150, 10_000);
        row.skip(60);
        assert_eq!(row.max_id, 510);
        row.skip(1_000);
        assert_eq!(row.max_id, 4_510);
        row.skip(u64::MAX);
        assert_eq!(row.max_id, 10_001);
    }

    #[test]
    fn a_grant_starts_where_the_last_one_ended() {
        let mut row = position(1, i64::MAX);
        assert_eq!(
            row.grant_up_to(1000),
            Ok(Run {
                first: 1,
                len: 1000
            })
        );
        assert_eq!(
            row.grant_block(5),
            Ok(Run {
                first: 1001,
                len: 5
            })
        );
        assert_eq!(row.max_id, 1006);
    }

    #[test]
    fn the_last_segment_is_cut_and_then_the_tag_is_exhausted() {
        let mut row = position(1, 10);
        assert_eq!(row.grant_up_to(1000), Ok(Run { first: 1, len: 10 }));
        assert_eq!(row.grant_up_to(1), Err(Exhausted));
        assert_eq!(row.grant_block(1), Err(Exhausted));
    }

    #[test]
    fn a_block_is_granted_whole_or_not_at_all() {
        let mut row = position(1, 10);
        assert_eq!(row.grant_block(11), Err(Exhausted));
        assert_eq!(row.max_id, 1);
        assert_eq!(row.grant_block(10), Ok(Run { first: 1, len: 10 }));
    }

    #[test]
    fn only_what_was_granted_last_is_taken_back() {
        let mut row = position(1, i64::MAX);
        let block = row.grant_block(100).unwrap();
        let end = Run { first: 41, len: 60 };
        row.grant_block(1).unwrap();
        assert!(!row.take_back(end), "an id was granted after it");
        assert!(row.take_back(Run { first: 101, len: 1 }));
        assert!(!row.take_back(Run { first: 41, len: 59 }));
        assert!(!row.take_back(Run { first: 41, len: 61 }));
        assert!(row.take_back(end));
        assert_eq!(row.max_id, 41);
        assert!(!row.take_back(block), "its end was taken back before");
        assert!(!row.take_back(Run { first: 41, len: 0 }));
    }

    #[test]
    fn the_end_of_bigint_never_wraps() {
        let mut row = position(i64::MAX - 3, i64::MAX);
        assert_eq!(row.left(), 3);
        row.skip(u64::MAX);
        assert_eq!(row.max_id, i64::MAX);
        assert_eq!(row.grant_up_to(1), Err(Exhausted));
        let mut whole = position(i64::MIN, i64::MAX);
        assert_eq!(whole.left(), u64::MAX);
        assert_eq!(whole.grant_up_to(u64::MAX).unwrap().first, i64::MIN);
        assert_eq!(whole.max_id, i64::MAX);
    }
}
