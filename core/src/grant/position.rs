//! The arithmetic of grants: how far the ids of a tag are granted, and what is left.

use crate::run::Run;

/// The largest id that can be granted. It is one less than the type's maximum,
/// because the row stores the next value.
pub const MAX_ID: i64 = i64::MAX - 1;

/// The part of a tag's row that grants work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The first number not yet granted.
    pub max_id: i64,
    /// The largest id that may be granted.
    pub max_value: i64,
}

/// Why nothing was granted: the tag has reached its `max_value`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl Position {
    /// How many ids are left to grant.
    pub fn left(&self) -> u64 {
        let last = self.max_value.min(MAX_ID);
        if self.max_id > last {
            return 0;
        }
        // The difference of two i64 fits a u64; its successor does because
        // `last` is below `i64::MAX`.
        (last.wrapping_sub(self.max_id) as u64) + 1
    }

    /// Grants up to `count` ids: fewer if the tag has fewer left.
    pub fn grant_up_to(&mut self, count: u64) -> Result<Run, Exhausted> {
        let len = count.min(self.left());
        if len == 0 {
            return Err(Exhausted);
        }
        Ok(self.take(len))
    }

    /// Grants exactly `count` ids in one block, or none.
    pub fn grant_block(&mut self, count: u64) -> Result<Run, Exhausted> {
        if count == 0 || count > self.left() {
            return Err(Exhausted);
        }
        Ok(self.take(count))
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

    /// Skips `count` numbers without granting them, or all if fewer are left.
    pub fn skip(&mut self, count: u64) {
        let count = count.min(self.left());
        self.max_id = self.max_id.wrapping_add_unsigned(count);
    }

    fn take(&mut self, len: u64) -> Run {
        let first = self.max_id;
        self.max_id = first.wrapping_add_unsigned(len);
        Run { first, len }
    }
}

/// How many numbers to skip at the first grant in another history of the
/// cluster: `factor` times the last segment and the largest reserved block,
/// because a standby that was promoted may have missed that many grants.
pub fn history_skip(factor: u64, last_grant: u64, largest_reserve: u64) -> u64 {
    factor.saturating_mul(last_grant.saturating_add(largest_reserve))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(max_id: i64, max_value: i64) -> Position {
        Position { max_id, max_value }
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

    #[test]
    fn the_skip_covers_segments_and_reserves() {
        assert_eq!(history_skip(10, 1000, 500), 15_000);
        assert_eq!(history_skip(0, 1000, 500), 0);
        assert_eq!(history_skip(u64::MAX, u64::MAX, 1), u64::MAX);
    }
}
