//! The decisions of a grant, without access to the table.

use std::time::Duration;

use super::position::{Exhausted, Position, history_skip};
use crate::run::Run;
use crate::step::StepPolicy;

/// A tag's row, as it is before a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// How far its ids are granted.
    pub position: Position,
    /// The smallest number of ids in a segment.
    pub step: u64,
    /// The largest number of ids in a segment that is chosen for the tag; `None` if the
    /// policy's applies.
    pub max_step: Option<u64>,
    /// The identity of the row: a tag that was dropped and created again has
    /// another one.
    pub incarnation: [u8; 16],
    /// Whether the row was made, or last granted ids, in another history of the cluster.
    pub from_other_history: bool,
    /// Ids in the last segment; of a stripe, the number that a whole block would have given.
    pub last_grant: u64,
    /// Ids in the largest block reserved so far.
    pub largest_reserve: u64,
    /// Unused ids below are not taken back: the tag was moved here, or ids below may be
    /// in use otherwise.
    pub floor: i64,
    /// The identity of the centre's tag from which the ids come, if the tag is fed.
    pub upstream: Option<[u8; 16]>,
    /// Whether the row may lack numbers that were fed to shards, because it was copied or
    /// restored since. Only the tag's owner knows how far those numbers reach.
    pub may_lack_feeds: bool,
    /// Whether numbers were fed to a shard, by the grants that are being made.
    pub has_fed: bool,
}

impl Row {
    /// The step policy of this tag.
    pub fn policy(&self, policy: &StepPolicy) -> StepPolicy {
        StepPolicy {
            max_step: self.max_step.unwrap_or(policy.max_step),
            ..*policy
        }
    }

    /// If the row is from another history of the cluster, skips numbers, because this copy
    /// may have missed the last grants: `skip_factor` times the last segment and the
    /// largest reserved block. A row without a grant may have missed its first ones, each
    /// of `step` ids.
    pub fn enter_history(&mut self, skip_factor: u64) {
        // The numbers of a fed tag come from elsewhere.
        if std::mem::take(&mut self.from_other_history) && self.upstream.is_none() {
            let segment = match self.last_grant {
                0 => self.step,
                last_grant => last_grant,
            };
            let skipped = history_skip(skip_factor, segment, self.largest_reserve);
            self.position.skip(skipped);
        }
    }
}

/// What a search for a tag's row has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The row, locked for the grant.
    Row(Row),
    /// The row is locked by another transaction.
    Busy,
    /// There is no row.
    Missing,
}

/// What is requested from a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A segment, of the size that the step policy determines.
    Segment,
    /// A block of exactly `count` ids.
    Block {
        /// How many ids.
        count: u64,
    },
    /// Numbers for a fed tag of another cluster.
    Feed {
        /// How many.
        count: u64,
        /// Whether fewer are of no use.
        exact: bool,
    },
    /// To take unused ids back, which is possible only if nothing was granted after them.
    TakeBack {
        /// The ids. They were granted, and nobody uses them any more.
        unused: Run,
    },
}

/// What is kept in memory about the earlier grants of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// One past the largest id published, or `i64::MIN`.
    pub high_water: i64,
    /// Ids in the last segment; 0 before the first.
    pub step: u64,
    /// How long the last segment lasted.
    pub lasted: Duration,
}

impl Past {
    /// The past of a tag that is not in memory.
    pub const NONE: Past = Past {
        high_water: i64::MIN,
        step: 0,
        lasted: Duration::ZERO,
    };
}

/// Numbers that the centre has granted to a fed tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// The numbers.
    pub run: Run,
    /// The identity of the centre's tag.
    pub incarnation: [u8; 16],
    /// How many numbers were asked for.
    pub asked: u64,
}

/// The result of a request for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The ids were taken back.
    TakenBack,
    /// The ids were not taken back, because ids after them have been granted.
    NotLast,
    /// Ids were granted.
    Granted {
        /// The ids.
        run: Run,
        /// The number of ids that the segment should have; the grant has fewer if the
        /// tag has fewer left. For a block, 0.
        step: u64,
    },
    /// The tag has reached its `max_value`, or has fewer ids left than the block
    /// needs.
    Exhausted,
    /// There is no row.
    Missing,
    /// The row has another incarnation than the requested one.
    Changed,
    /// Another transaction has locked the row.
    Busy,
    /// The row's `max_id` lies below ids that were handed out. A grant would repeat
    /// them.
    Below {
        /// One past the largest id handed out.
        high_water: i64,
    },
    /// The tag is fed: numbers must be fetched from the centre.
    ToBeFed {
        /// How many.
        count: u64,
        /// Whether fewer are of no use.
        exact: bool,
    },
    /// The numbers come from another tag of the centre than the one that the tag was
    /// attached to.
    OtherUpstream,
    /// The centre's numbers lie below numbers that the tag has granted already. A grant could
    /// repeat them.
    FedBelow {
        /// The first number not yet granted.
        max_id: i64,
    },
    /// The tag feeds nothing, because its own numbers come from a centre.
    IsFed,
    /// The tag feeds nothing, because its row may lack numbers that were fed before.
    MayLackFeeds,
}

/// A tag's row while several grants are made from it.
///
/// ```
/// use leaf_core::StepPolicy;
/// use leaf_core::grant::{Decision, Found, Ledger, Past, Wanted};
///
/// let mut ledger = Ledger::new(Found::Missing, 10);
/// let policy = StepPolicy::default();
/// let decision = ledger.decide(&Wanted::Segment, [0; 16], &Past::NONE, &policy);
/// assert_eq!(decision, Decision::Missing);
/// assert_eq!(ledger.changed(), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    found: Found,
    /// The row's `max_id` before the first grant.
    before: i64,
    is_changed: bool,
}

impl Ledger {
    /// Starts with the row as it was found, after [`Row::enter_history`].
    pub fn new(mut found: Found, history_skip_factor: u64) -> Self {
        let mut before = i64::MIN;
        if let Found::Row(row) = &mut found {
            before = row.position.max_id;
            row.enter_history(history_skip_factor);
        }
        Ledger {
            found,
            before,
            is_changed: false,
        }
    }

    /// Whether the tag is fed.
    pub fn is_fed(&self) -> bool {
        matches!(&self.found, Found::Row(row) if row.upstream.is_some())
    }

    /// The row with that incarnation, or why there is none.
    fn row(&mut self, incarnation: [u8; 16]) -> Result<&mut Row, Decision> {
        match &mut self.found {
            Found::Row(row) if row.incarnation == incarnation => Ok(row),
            Found::Row(_) => Err(Decision::Changed),
            Found::Busy => Err(Decision::Busy),
            Found::Missing => Err(Decision::Missing),
        }
    }

    /// Grants what is requested from the row with that incarnation, or returns the reason
    /// why not.
    pub fn decide(
        &mut self,
        wanted: &Wanted,
        incarnation: [u8; 16],
        past: &Past,
        policy: &StepPolicy,
    ) -> Decision {
        let row = match self.row(incarnation) {
            Ok(row) => row,
            Err(decision) => return decision,
        };
        if row.upstream.is_some() {
            return to_be_fed(row, wanted, past, policy);
        }
        if row.position.max_id < past.high_water {
            return Decision::Below {
                high_water: past.high_water,
            };
        }
        let granted = match *wanted {
            Wanted::Segment => segment(row, past, policy),
            Wanted::Block { count } => block(row, count),
            Wanted::Feed { .. } if row.may_lack_feeds => return Decision::MayLackFeeds,
            Wanted::Feed { count, exact } => feed(row, count, exact),
            Wanted::TakeBack { unused } => {
                return match unused.first >= row.floor && row.position.take_back(unused) {
                    true => {
                        self.is_changed = true;
                        Decision::TakenBack
                    }
                    false => Decision::NotLast,
                };
            }
        };
        match granted {
            Ok((run, step)) => {
                self.is_changed = true;
                Decision::Granted { run, step }
            }
            Err(Exhausted) => Decision::Exhausted,
        }
    }

    /// Grants numbers that the centre has granted to the tag, for what was [`wanted`](Wanted)
    /// when they were asked for.
    pub fn receive(
        &mut self,
        fed: &Fed,
        wanted: &Wanted,
        incarnation: [u8; 16],
        past: &Past,
    ) -> Decision {
        let row = match self.row(incarnation) {
            Ok(row) => row,
            Err(decision) => return decision,
        };
        if row.upstream != Some(fed.incarnation) {
            return Decision::OtherUpstream;
        }
        let max_id = row.position.max_id.max(past.high_water);
        if fed.run.first < max_id {
            return Decision::FedBelow { max_id };
        }
        row.position.max_id = fed.run.first;
        let granted = match *wanted {
            Wanted::Segment => row.position.grant_up_to(fed.run.len),
            Wanted::Block { .. } | Wanted::Feed { .. } | Wanted::TakeBack { .. } => {
                row.position.grant_block(fed.run.len)
            }
        };
        let Ok(run) = granted else {
            return Decision::Exhausted;
        };
        let mut step = 0;
        if *wanted == Wanted::Segment {
            row.last_grant = run.len;
            step = fed.asked;
        }
        self.is_changed = true;
        Decision::Granted { run, step }
    }

    /// The row as it must be written, if anything was granted from it or taken back.
    pub fn changed(&self) -> Option<&Row> {
        match &self.found {
            Found::Row(row) if self.is_changed => Some(row),
            Found::Row(_) | Found::Busy | Found::Missing => None,
        }
    }

    /// Whether more was taken back than was granted: the row's `max_id` moves back.
    pub fn moves_back(&self) -> bool {
        self.changed()
            .is_some_and(|row| row.position.max_id < self.before)
    }
}

/// What must be asked of the centre for what is wanted from a fed tag.
fn to_be_fed(row: &Row, wanted: &Wanted, past: &Past, policy: &StepPolicy) -> Decision {
    if row.position.left() == 0 {
        return Decision::Exhausted;
    }
    match *wanted {
        Wanted::Segment => Decision::ToBeFed {
            count: row
                .policy(policy)
                .next_step(past.step, row.step, past.lasted),
            exact: false,
        },
        Wanted::Block { count } => Decision::ToBeFed { count, exact: true },
        Wanted::Feed { .. } => Decision::IsFed,
        Wanted::TakeBack { .. } => Decision::NotLast,
    }
}

fn segment(row: &mut Row, past: &Past, policy: &StepPolicy) -> Result<(Run, u64), Exhausted> {
    let policy = row.policy(policy);
    let step = policy.next_step(past.step, row.step, past.lasted);
    let run = row.position.grant_up_to(step)?;
    // A segment that was cut by the end of a block says little of the ones before.
    row.last_grant = match row.position.numbers.stripe().width() {
        Some(width) => run.len.max(step.min(width)),
        None => run.len,
    };
    Ok((run, step))
}

fn feed(row: &mut Row, count: u64, exact: bool) -> Result<(Run, u64), Exhausted> {
    let run = match exact {
        true => row.position.grant_block(count)?,
        false => row.position.grant_up_to(count)?,
    };
    row.largest_reserve = row.largest_reserve.max(run.len);
    row.has_fed = true;
    Ok((run, 0))
}

fn block(row: &mut Row, count: u64) -> Result<(Run, u64), Exhausted> {
    let run = row.position.grant_block(count)?;
    row.largest_reserve = row.largest_reserve.max(run.len);
    Ok((run, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::{OwnNumbers, Stripe};

    const ROW: Row = Row {
        position: Position {
            max_id: 1,
            max_value: 10_000,
            numbers: OwnNumbers::ALL,
        },
        step: 100,
        max_step: None,
        incarnation: [7; 16],
        from_other_history: false,
        last_grant: 0,
        largest_reserve: 0,
        floor: i64::MIN,
        upstream: None,
        may_lack_feeds: false,
        has_fed: false,
    };

    fn decide(ledger: &mut Ledger, wanted: Wanted, past: Past) -> Decision {
        ledger.decide(&wanted, ROW.incarnation, &past, &StepPolicy::default())
    }

    fn granted(first: i64, len: u64, step: u64) -> Decision {
        Decision::Granted {
            run: Run { first, len },
            step,
        }
    }

    fn block_of(count: u64) -> Wanted {
        Wanted::Block { count }
    }

    #[test]
    fn grants_of_one_transaction_follow_each_other() {
        let mut ledger = Ledger::new(Found::Row(ROW), 10);
        let segment = decide(&mut ledger, Wanted::Segment, Past::NONE);
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
            let mut ledger = Ledger::new(Found::Row(row), 10);
            let policy = StepPolicy {
                max_step: 1_000,
                ..StepPolicy::default()
            };
            let decision = ledger.decide(&Wanted::Segment, ROW.incarnation, &past, &policy);
            assert_eq!(decision, granted(1, expected, expected), "{max_step:?}");
        }
    }

    #[test]
    fn a_row_below_what_was_handed_out_grants_nothing() {
        let past = Past {
            high_water: 2,
            ..Past::NONE
        };
        let mut ledger = Ledger::new(Found::Row(ROW), 10);
        let below = Decision::Below { high_water: 2 };
        assert_eq!(decide(&mut ledger, Wanted::Segment, past), below);
        assert_eq!(decide(&mut ledger, block_of(1), past), below);
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn what_is_taken_back_can_be_granted_again_and_the_row_moves_back() {
        let mut ledger = Ledger::new(Found::Row(ROW), 10);
        let Decision::Granted { run: unused, .. } = decide(&mut ledger, block_of(50), Past::NONE)
        else {
            panic!("a block is granted");
        };
        assert!(!ledger.moves_back());
        let take_back = Wanted::TakeBack { unused };
        let mut later = Ledger::new(Found::Row(*ledger.changed().unwrap()), 10);
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
            let mut ledger = Ledger::new(Found::Row(Row { floor, ..ROW }), 10);
            decide(&mut ledger, block_of(50), Past::NONE);
            let unused = Run { first: 1, len: 50 };
            let decision = decide(&mut ledger, Wanted::TakeBack { unused }, Past::NONE);
            assert_eq!(decision, expected, "{floor}");
        }
    }

    #[test]
    fn a_grant_is_from_the_row_that_was_asked_for() {
        let other = Row {
            incarnation: [8; 16],
            ..ROW
        };
        let mut ledger = Ledger::new(Found::Row(other), 10);
        for wanted in [Wanted::Segment, block_of(1)] {
            assert_eq!(decide(&mut ledger, wanted, Past::NONE), Decision::Changed);
        }
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn a_row_that_nobody_may_have_grants_nothing() {
        for (found, expected) in [
            (Found::Busy, Decision::Busy),
            (Found::Missing, Decision::Missing),
        ] {
            let mut ledger = Ledger::new(found, 10);
            assert_eq!(decide(&mut ledger, Wanted::Segment, Past::NONE), expected);
            assert_eq!(decide(&mut ledger, block_of(1), Past::NONE), expected);
            assert_eq!(ledger.changed(), None);
        }
    }

    #[test]
    fn an_exhausted_row_is_left_as_it_is() {
        let mut ledger = Ledger::new(Found::Row(ROW), 10);
        let decision = decide(&mut ledger, block_of(10_001), Past::NONE);
        assert_eq!(decision, Decision::Exhausted);
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn another_history_is_skipped_once() {
        let row = Row {
            from_other_history: true,
            last_grant: 100,
            largest_reserve: 20,
            ..ROW
        };
        let mut ledger = Ledger::new(Found::Row(row), 10);
        let first = decide(&mut ledger, Wanted::Segment, Past::NONE);
        assert_eq!(first, granted(1_201, 100, 100));
        let second = decide(&mut ledger, Wanted::Segment, Past::NONE);
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
        let mut ledger = Ledger::new(Found::Row(Row { position, ..ROW }), 10);
        let cut = decide(&mut ledger, Wanted::Segment, Past::NONE);
        assert_eq!(cut, granted(950, 50, 100));
        let row = Row {
            from_other_history: true,
            ..*ledger.changed().expect("a grant")
        };
        let mut ledger = Ledger::new(Found::Row(row), 10);
        let first = decide(&mut ledger, Wanted::Segment, Past::NONE);
        assert_eq!(first, granted(8_000, 100, 100));
    }

    #[test]
    fn a_row_without_a_grant_skips_by_its_step_in_another_history() {
        let row = Row {
            from_other_history: true,
            ..ROW
        };
        let mut ledger = Ledger::new(Found::Row(row), 10);
        let first = decide(&mut ledger, Wanted::Segment, Past::NONE);
        assert_eq!(first, granted(1_001, 100, 100));
    }

    const CENTRE: [u8; 16] = [9; 16];

    const FED_ROW: Row = Row {
        upstream: Some(CENTRE),
        ..ROW
    };

    fn fed(first: i64, len: u64) -> Fed {
        Fed {
            run: Run { first, len },
            incarnation: CENTRE,
            asked: len,
        }
    }

    #[test]
    fn a_fed_row_grants_nothing_of_its_own() {
        let mut ledger = Ledger::new(Found::Row(FED_ROW), 10);
        let asked = |count, exact| Decision::ToBeFed { count, exact };
        assert_eq!(
            decide(&mut ledger, Wanted::Segment, Past::NONE),
            asked(100, false)
        );
        assert_eq!(decide(&mut ledger, block_of(7), Past::NONE), asked(7, true));
        let unused = Run { first: 0, len: 1 };
        let take_back = Wanted::TakeBack { unused };
        assert_eq!(
            decide(&mut ledger, take_back, Past::NONE),
            Decision::NotLast
        );
        let feed = Wanted::Feed {
            count: 1,
            exact: false,
        };
        assert_eq!(decide(&mut ledger, feed, Past::NONE), Decision::IsFed);
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn a_fed_row_skips_nothing_in_another_history() {
        let row = Row {
            from_other_history: true,
            last_grant: 100,
            ..FED_ROW
        };
        let mut ledger = Ledger::new(Found::Row(row), 10);
        let granted_to =
            ledger.receive(&fed(1, 10), &Wanted::Segment, ROW.incarnation, &Past::NONE);
        assert_eq!(granted_to, granted(1, 10, 10));
    }

    #[test]
    fn numbers_of_the_centre_are_granted_only_above_the_row_and_from_the_right_tag() {
        let mut ledger = Ledger::new(Found::Row(FED_ROW), 10);
        let mut receive =
            |fed: Fed, wanted, past| ledger.receive(&fed, &wanted, ROW.incarnation, &past);
        let segment = receive(fed(500, 100), Wanted::Segment, Past::NONE);
        assert_eq!(segment, granted(500, 100, 100));
        let below = receive(fed(599, 100), Wanted::Segment, Past::NONE);
        assert_eq!(below, Decision::FedBelow { max_id: 600 });
        let past = Past {
            high_water: 700,
            ..Past::NONE
        };
        let below = receive(fed(699, 100), Wanted::Segment, past);
        assert_eq!(below, Decision::FedBelow { max_id: 700 });
        let of_other = Fed {
            incarnation: [8; 16],
            ..fed(900, 1)
        };
        let other = receive(of_other, Wanted::Segment, Past::NONE);
        assert_eq!(other, Decision::OtherUpstream);
        let block = receive(fed(700, 5), block_of(5), Past::NONE);
        assert_eq!(block, granted(700, 5, 0));
        assert_eq!(ledger.changed().unwrap().position.max_id, 705);
    }

    #[test]
    fn a_row_that_may_lack_feeds_feeds_nothing() {
        let row = Row {
            may_lack_feeds: true,
            ..ROW
        };
        let mut ledger = Ledger::new(Found::Row(row), 10);
        for exact in [true, false] {
            let feed = Wanted::Feed { count: 1, exact };
            assert_eq!(
                decide(&mut ledger, feed, Past::NONE),
                Decision::MayLackFeeds
            );
        }
        let segment = decide(&mut ledger, Wanted::Segment, Past::NONE);
        assert_eq!(segment, granted(1, 100, 100));
    }

    #[test]
    fn what_is_fed_counts_for_the_skip_of_another_history() {
        let mut ledger = Ledger::new(Found::Row(ROW), 10);
        let feed = Wanted::Feed {
            count: 20_000,
            exact: false,
        };
        assert_eq!(decide(&mut ledger, feed, Past::NONE), granted(1, 10_000, 0));
        let row = ledger.changed().unwrap();
        assert_eq!((row.largest_reserve, row.has_fed), (10_000, true));
    }
}
