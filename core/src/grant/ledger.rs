//! The decisions of the grants of one transaction, without access to the table.

use super::fed::{self, Delivery};
use super::position::Exhausted;
use super::row::{Decision, Found, GrantRequest, Grantor, Past, Row};
use crate::run::Run;
use crate::step::StepPolicy;

/// A tag's row while several grants are made from it.
///
/// ```
/// use leaf_core::StepPolicy;
/// use leaf_core::grant::{Decision, Found, Ledger, Past, GrantRequest};
///
/// let mut ledger = Ledger::new(Found::Missing);
/// let policy = StepPolicy::default();
/// let decision = ledger.decide(&GrantRequest::Segment, [0; 16], &Past::NONE, &policy);
/// assert_eq!(decision, Decision::Missing);
/// assert_eq!(ledger.changed(), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    found: Found,
    is_changed: bool,
}

impl Ledger {
    /// Starts with the row as it was found.
    pub fn new(found: Found) -> Self {
        Ledger {
            found,
            is_changed: false,
        }
    }

    /// The row, if it was found.
    pub fn row(&self) -> Option<&Row> {
        match &self.found {
            Found::Row(row) => Some(row),
            Found::Busy | Found::Missing | Found::Replaced => None,
        }
    }

    /// Who grants the tag's numbers, as far as is known.
    pub fn grantor(&self) -> Grantor {
        self.row().map_or(Grantor::Row, Row::grantor)
    }

    /// The row with that incarnation, or why there is none.
    fn row_of(&mut self, incarnation: [u8; 16]) -> Result<&mut Row, Decision> {
        match &mut self.found {
            Found::Row(row) if row.incarnation == incarnation => Ok(row),
            Found::Row(_) => Err(Decision::Changed),
            Found::Busy => Err(Decision::Busy),
            Found::Missing => Err(Decision::Missing),
            Found::Replaced => Err(Decision::Replaced),
        }
    }

    /// Grants what is requested from the row with that incarnation, or returns the reason
    /// why not.
    pub fn decide(
        &mut self,
        wanted: &GrantRequest,
        incarnation: [u8; 16],
        past: &Past,
        policy: &StepPolicy,
    ) -> Decision {
        let row = match self.row_of(incarnation) {
            Ok(row) => row,
            Err(decision) => return decision,
        };
        if row.grantor() == Grantor::Centre {
            return fed::ask(row, wanted, past, policy);
        }
        if row.is_elsewhere {
            return Decision::Changed;
        }
        if row.position.max_id < past.high_water {
            return Decision::Below {
                high_water: past.high_water,
            };
        }
        let granted = match *wanted {
            GrantRequest::Segment => segment(row, past, policy),
            GrantRequest::Block { count } => block(row, count),
            GrantRequest::Feed { .. } if row.may_lack_feeds => return Decision::MayLackFeeds,
            GrantRequest::Feed { count, exact } => fed::feed(row, count, exact),
            GrantRequest::TakeBack { unused } => {
                return match unused.first >= row.floor && row.position.take_back(unused) {
                    true => {
                        self.is_changed = true;
                        Decision::TakenBack
                    }
                    false => Decision::NotLast,
                };
            }
        };
        self.conclude(granted.map_err(|Exhausted| Decision::Exhausted))
    }

    /// Grants numbers that the centre has granted to the tag, for what was [`wanted`](GrantRequest)
    /// when they were asked for.
    pub fn receive(
        &mut self,
        delivery: &Delivery,
        wanted: &GrantRequest,
        incarnation: [u8; 16],
        past: &Past,
    ) -> Decision {
        let row = match self.row_of(incarnation) {
            Ok(row) => row,
            Err(decision) => return decision,
        };
        let granted = fed::receive(row, delivery, wanted, past);
        self.conclude(granted)
    }

    /// Notes whether the row was changed.
    fn conclude(&mut self, granted: Result<(Run, u64), Decision>) -> Decision {
        match granted {
            Ok((run, step)) => {
                self.is_changed = true;
                Decision::Granted { run, step }
            }
            Err(decision) => decision,
        }
    }

    /// The row as it must be written, if anything was granted from it or taken back.
    pub fn changed(&self) -> Option<&Row> {
        self.row().filter(|_| self.is_changed)
    }

    /// Whether more was taken back than was granted: the row's `max_id` moves back.
    pub fn moves_back(&self) -> bool {
        self.changed()
            .is_some_and(|row| row.position.max_id < row.stored)
    }
}

fn segment(row: &mut Row, past: &Past, policy: &StepPolicy) -> Result<(Run, u64), Exhausted> {
    let policy = row.policy(policy);
    let step = policy.next_step(past.step, row.step, past.lasted);
    let step = step.min(row.position.most_at_once());
    let run = row.position.grant_up_to(step)?;
    // A segment that was cut by the end of a block says little of the ones before.
    row.last_grant = match row.position.numbers.stripe().width() {
        Some(width) => run.len.max(step.min(width)),
        None => run.len,
    };
    Ok((run, step))
}

fn block(row: &mut Row, count: u64) -> Result<(Run, u64), Exhausted> {
    if count > row.position.most_at_once() {
        return Err(Exhausted);
    }
    let run = row.position.grant_block(count)?;
    row.largest_reserve = row.largest_reserve.max(run.len);
    Ok((run, 0))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::grant::{OwnNumbers, Position, Stripe};

    pub const ROW: Row = Row {
        position: Position {
            max_id: 1,
            max_value: 100_000_000,
            numbers: OwnNumbers::ALL,
        },
        step: 100,
        max_step: None,
        incarnation: [7; 16],
        stored: 1,
        last_grant: 0,
        largest_reserve: 0,
        floor: i64::MIN,
        upstream: None,
        is_elsewhere: false,
        is_signed: true,
        may_lack_feeds: false,
        has_fed: false,
    };

    pub fn decide(ledger: &mut Ledger, wanted: GrantRequest, past: Past) -> Decision {
        ledger.decide(&wanted, ROW.incarnation, &past, &StepPolicy::default())
    }

    pub fn granted(first: i64, len: u64, step: u64) -> Decision {
        Decision::Granted {
            run: Run { first, len },
            step,
        }
    }

    pub fn block_of(count: u64) -> GrantRequest {
        GrantRequest::Block { count }
    }

    #[test]
    fn grants_of_one_transaction_follow_each_other() {
        let mut ledger = Ledger::new(Found::Row(ROW));
        let segment = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(segment, granted(1, 100, 100));
        let block = decide(&mut ledger, block_of(50), Past::NONE);
        assert_eq!(block, granted(101, 50, 0));
        let row = ledger.changed().unwrap();
        assert_eq!(row.position.max_id, 151);
        assert_eq!((row.last_grant, row.largest_reserve), (100, 50));
    }

    #[test]
    fn the_rows_own_maximum_bounds_the_step_instead_of_the_policys() {
        let past = Past {
            step: 400,
            ..Past::NONE
        };
        for (max_step, expected) in [(Some(300), 300), (Some(3_000_000), 25_600), (None, 1_000)] {
            let position = Position {
                max_value: i64::MAX,
                ..ROW.position
            };
            let row = Row {
                max_step,
                position,
                ..ROW
            };
            let mut ledger = Ledger::new(Found::Row(row));
            let policy = StepPolicy {
                max_step: 1_000,
                ..StepPolicy::default()
            };
            let decision = ledger.decide(&GrantRequest::Segment, ROW.incarnation, &past, &policy);
            assert_eq!(decision, granted(1, expected, expected), "{max_step:?}");
        }
    }

    #[test]
    fn a_row_below_what_was_handed_out_grants_nothing() {
        let past = Past {
            high_water: 2,
            ..Past::NONE
        };
        let mut ledger = Ledger::new(Found::Row(ROW));
        let below = Decision::Below { high_water: 2 };
        assert_eq!(decide(&mut ledger, GrantRequest::Segment, past), below);
        assert_eq!(decide(&mut ledger, block_of(1), past), below);
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn what_is_taken_back_can_be_granted_again_and_the_row_moves_back() {
        let mut ledger = Ledger::new(Found::Row(ROW));
        let Decision::Granted { run: unused, .. } = decide(&mut ledger, block_of(50), Past::NONE)
        else {
            panic!("a block is granted");
        };
        assert!(!ledger.moves_back());
        let take_back = GrantRequest::TakeBack { unused };
        let mut row = *ledger.changed().unwrap();
        row.stored = row.position.max_id;
        let mut later = Ledger::new(Found::Row(row));
        assert_eq!(
            decide(&mut later, take_back, Past::NONE),
            Decision::TakenBack
        );
        assert!(later.moves_back());
        assert_eq!(decide(&mut later, take_back, Past::NONE), Decision::NotLast);
        assert_eq!(
            decide(&mut later, block_of(50), Past::NONE),
            granted(1, 50, 0)
        );
        assert!(!later.moves_back());
        assert_eq!(
            decide(&mut later, block_of(1), Past::NONE),
            granted(51, 1, 0)
        );
        assert_eq!(decide(&mut later, take_back, Past::NONE), Decision::NotLast);
    }

    #[test]
    fn nothing_below_the_floor_is_taken_back() {
        for (floor, expected) in [(1, Decision::TakenBack), (2, Decision::NotLast)] {
            let mut ledger = Ledger::new(Found::Row(Row { floor, ..ROW }));
            decide(&mut ledger, block_of(50), Past::NONE);
            let unused = Run { first: 1, len: 50 };
            let decision = decide(&mut ledger, GrantRequest::TakeBack { unused }, Past::NONE);
            assert_eq!(decision, expected, "{floor}");
        }
    }

    #[test]
    fn a_grant_is_from_the_row_that_was_asked_for() {
        let other = Row {
            incarnation: [8; 16],
            ..ROW
        };
        let mut ledger = Ledger::new(Found::Row(other));
        for wanted in [GrantRequest::Segment, block_of(1)] {
            assert_eq!(decide(&mut ledger, wanted, Past::NONE), Decision::Changed);
        }
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn a_row_that_nobody_may_have_grants_nothing() {
        for (found, expected) in [
            (Found::Busy, Decision::Busy),
            (Found::Missing, Decision::Missing),
            (Found::Replaced, Decision::Replaced),
        ] {
            let mut ledger = Ledger::new(found);
            assert_eq!(
                decide(&mut ledger, GrantRequest::Segment, Past::NONE),
                expected
            );
            assert_eq!(decide(&mut ledger, block_of(1), Past::NONE), expected);
            assert_eq!(ledger.changed(), None);
        }
    }

    #[test]
    fn an_exhausted_row_is_left_as_it_is() {
        let mut ledger = Ledger::new(Found::Row(ROW));
        let decision = decide(&mut ledger, block_of(10_001), Past::NONE);
        assert_eq!(decision, Decision::Exhausted);
        assert_eq!(ledger.changed(), None);
    }

    /// A skip of ten segments and blocks is a small part of it.
    #[test]
    fn grants_of_a_narrow_row_are_small_parts_of_what_is_left() {
        let position = Position {
            max_id: 2_147_483_648 - 15_000_000,
            max_value: 2_147_483_647,
            ..ROW.position
        };
        let row = Row {
            position,
            step: 1_000_000,
            ..ROW
        };
        let mut ledger = Ledger::new(Found::Row(row));
        let segment = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(segment, granted(position.max_id, 1_500, 1_500));
        let block = |count, ledger: &mut Ledger| decide(ledger, block_of(count), Past::NONE);
        assert_eq!(block(1_500, &mut ledger), Decision::Exhausted);
        let first = position.max_id + 1_500;
        assert_eq!(block(1_499, &mut ledger), granted(first, 1_499, 0));
        let skipped = ledger.changed().unwrap().skipped(10);
        assert_eq!(skipped, 29_990);
        for left in [1, 10, 9_999] {
            let last = Position {
                max_id: 1,
                max_value: left,
                ..position
            };
            assert_eq!(last.most_at_once(), 1, "{left}");
        }
    }

    #[test]
    fn the_skip_covers_segments_and_reserves() {
        let row = |last_grant, largest_reserve| Row {
            last_grant,
            largest_reserve,
            ..ROW
        };
        assert_eq!(row(1_000, 500).skipped(10), 15_000);
        assert_eq!(row(1_000, 500).skipped(0), 0);
        assert_eq!(row(u64::MAX, 1).skipped(u64::MAX), u64::MAX);
    }

    #[test]
    fn another_history_is_skipped_once() {
        let mut row = Row {
            last_grant: 100,
            largest_reserve: 20,
            ..ROW
        };
        row.enter_history(10);
        let mut ledger = Ledger::new(Found::Row(row));
        let first = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(first, granted(1_201, 100, 100));
        let second = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(second, granted(1_301, 100, 100));
    }

    /// The last segment was cut by the end of a block; those that were missed need not be.
    #[test]
    fn a_stripe_skips_whole_segments_of_own_numbers() {
        let numbers = OwnNumbers::of(Stripe::new(4, 0, 1_000).expect("a stripe"));
        let position = Position {
            max_id: 950,
            max_value: i64::MAX,
            numbers,
        };
        let mut ledger = Ledger::new(Found::Row(Row { position, ..ROW }));
        let cut = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(cut, granted(950, 50, 100));
        let mut row = *ledger.changed().expect("a grant");
        row.enter_history(10);
        let mut ledger = Ledger::new(Found::Row(row));
        let first = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(first, granted(8_000, 100, 100));
    }

    #[test]
    fn a_row_without_a_grant_skips_by_its_step_in_another_history() {
        let mut row = ROW;
        row.enter_history(10);
        let mut ledger = Ledger::new(Found::Row(row));
        let first = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(first, granted(1_001, 100, 100));
    }
}
