//! Fed tags: at a shard, what to ask of the centre and what to do with its numbers; at the
//! centre, what it grants to them.

use super::position::{Exhausted, Position};
use super::row::{Decision, GrantRequest, Past, Row};
use crate::run::Run;
use crate::step::StepPolicy;

/// Numbers that the centre has granted to a fed tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The numbers.
    pub run: Run,
    /// The identity of the centre's tag.
    pub incarnation: [u8; 16],
    /// How many numbers were asked for.
    pub asked: u64,
}

/// The question to the centre for a request to a fed tag.
pub(super) fn ask(row: &Row, wanted: &GrantRequest, past: &Past, policy: &StepPolicy) -> Decision {
    if row.position.left() == 0 {
        return Decision::Exhausted;
    }
    match *wanted {
        GrantRequest::Segment => Decision::Ask {
            count: row
                .policy(policy)
                .next_step(past.step, row.step, past.lasted),
            exact: false,
        },
        GrantRequest::Block { count } => Decision::Ask { count, exact: true },
        GrantRequest::Feed { .. } => Decision::IsFed,
        GrantRequest::TakeBack { .. } => Decision::NotLast,
    }
}

/// Grants numbers that the centre has granted to the tag of a row, for what was
/// [`wanted`](GrantRequest) when they were asked for; or returns the reason why not.
pub(super) fn receive(
    row: &mut Row,
    delivery: &Delivery,
    wanted: &GrantRequest,
    past: &Past,
) -> Result<(Run, u64), Decision> {
    if row.upstream != Some(delivery.incarnation) {
        return Err(Decision::OtherUpstream);
    }
    let max_id = row.position.max_id.max(past.high_water);
    if delivery.run.first < max_id {
        return Err(Decision::DeliveredBelow { max_id });
    }
    let mut position = Position {
        max_id: delivery.run.first,
        ..row.position
    };
    let is_segment = *wanted == GrantRequest::Segment;
    let granted = match is_segment {
        true => position.grant_up_to(delivery.run.len),
        false => position.grant_block(delivery.run.len),
    };
    let run = granted.map_err(|Exhausted| Decision::Exhausted)?;
    row.position = position;
    if is_segment {
        row.last_grant = run.len;
    }
    Ok((run, if is_segment { delivery.asked } else { 0 }))
}

/// Grants numbers to a fed tag of another cluster.
pub(super) fn feed(row: &mut Row, count: u64, exact: bool) -> Result<(Run, u64), Exhausted> {
    let most = row.position.most_at_once();
    let run = match exact {
        true if count > most => return Err(Exhausted),
        true => row.position.grant_block(count)?,
        false => row.position.grant_up_to(count.min(most))?,
    };
    row.largest_reserve = row.largest_reserve.max(run.len);
    row.has_fed = true;
    Ok((run, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::ledger::tests::{ROW, block_of, decide, granted};
    use crate::grant::{Found, Ledger};

    const CENTRE: [u8; 16] = [9; 16];

    const FED_ROW: Row = Row {
        upstream: Some(CENTRE),
        ..ROW
    };

    fn fed(first: i64, len: u64) -> Delivery {
        Delivery {
            run: Run { first, len },
            incarnation: CENTRE,
            asked: len,
        }
    }

    #[test]
    fn a_fed_row_grants_nothing_of_its_own() {
        let mut ledger = Ledger::new(Found::Row(FED_ROW));
        let asked = |count, exact| Decision::Ask { count, exact };
        assert_eq!(
            decide(&mut ledger, GrantRequest::Segment, Past::NONE),
            asked(100, false)
        );
        assert_eq!(decide(&mut ledger, block_of(7), Past::NONE), asked(7, true));
        let unused = Run { first: 0, len: 1 };
        let take_back = GrantRequest::TakeBack { unused };
        assert_eq!(
            decide(&mut ledger, take_back, Past::NONE),
            Decision::NotLast
        );
        let feed = GrantRequest::Feed {
            count: 1,
            exact: false,
        };
        assert_eq!(decide(&mut ledger, feed, Past::NONE), Decision::IsFed);
        assert_eq!(ledger.changed(), None);
    }

    #[test]
    fn a_fed_row_skips_nothing_in_another_history() {
        let mut row = Row {
            last_grant: 100,
            ..FED_ROW
        };
        row.enter_history(10);
        let mut ledger = Ledger::new(Found::Row(row));
        let granted_to = ledger.receive(
            &fed(1, 10),
            &GrantRequest::Segment,
            ROW.incarnation,
            &Past::NONE,
        );
        assert_eq!(granted_to, granted(1, 10, 10));
    }

    #[test]
    fn numbers_of_the_centre_are_granted_only_above_the_row_and_from_the_right_tag() {
        let mut ledger = Ledger::new(Found::Row(FED_ROW));
        let mut receive = |delivery: Delivery, wanted, past| {
            ledger.receive(&delivery, &wanted, ROW.incarnation, &past)
        };
        let segment = receive(fed(500, 100), GrantRequest::Segment, Past::NONE);
        assert_eq!(segment, granted(500, 100, 100));
        let below = receive(fed(599, 100), GrantRequest::Segment, Past::NONE);
        assert_eq!(below, Decision::DeliveredBelow { max_id: 600 });
        let past = Past {
            high_water: 700,
            ..Past::NONE
        };
        let below = receive(fed(699, 100), GrantRequest::Segment, past);
        assert_eq!(below, Decision::DeliveredBelow { max_id: 700 });
        let of_other = Delivery {
            incarnation: [8; 16],
            ..fed(900, 1)
        };
        let other = receive(of_other, GrantRequest::Segment, Past::NONE);
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
        let mut ledger = Ledger::new(Found::Row(row));
        for exact in [true, false] {
            let feed = GrantRequest::Feed { count: 1, exact };
            assert_eq!(
                decide(&mut ledger, feed, Past::NONE),
                Decision::MayLackFeeds
            );
        }
        let segment = decide(&mut ledger, GrantRequest::Segment, Past::NONE);
        assert_eq!(segment, granted(1, 100, 100));
    }

    #[test]
    fn what_is_fed_counts_for_the_skip_of_another_history() {
        let mut ledger = Ledger::new(Found::Row(ROW));
        let feed = GrantRequest::Feed {
            count: 20_000,
            exact: false,
        };
        assert_eq!(decide(&mut ledger, feed, Past::NONE), granted(1, 10_000, 0));
        let row = ledger.changed().unwrap();
        assert_eq!((row.largest_reserve, row.has_fed), (10_000, true));
    }
}
