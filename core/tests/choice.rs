//! Who gets which worker id, and whose clock is believed.
#![cfg(not(loom))]

use std::time::Duration;

use leaf_core::snowflake::choice::{
    self, Holder, Refused, RegistryRow, Request, is_credible, random_unused, usual_offset,
};
use leaf_core::time::WallTime;
use proptest::prelude::*;

const NOW: WallTime = WallTime::from_unix_us(1_000);

/// Whatever worker id there is, of four.
const ANY: Request = Request {
    worker_id: None,
    worker_ids: 4,
    now: NOW,
    reuse_after: us(500),
};

const fn us(count: u64) -> Duration {
    Duration::from_micros(count)
}

const fn wants(worker_id: u64) -> Request {
    Request {
        worker_id: Some(worker_id),
        ..ANY
    }
}

const fn held(worker_id: u64, holder: Holder, leased_until: WallTime) -> RegistryRow {
    RegistryRow {
        worker_id,
        holder,
        leased_until,
    }
}

const fn own(worker_id: u64) -> RegistryRow {
    held(worker_id, Holder::Claimant, NOW.plus_us(100))
}

/// Held by another node that lives.
const fn live(worker_id: u64) -> RegistryRow {
    held(worker_id, Holder::Other, NOW)
}

/// Held by another node whose lease ran out so many microseconds ago.
const fn expired(worker_id: u64, us_ago: i64) -> RegistryRow {
    held(worker_id, Holder::Other, NOW.plus_us(-us_ago))
}

/// Chooses from a whole registry, at random where copies choose, too.
fn choose_at(rows: &[RegistryRow], request: &Request, random: u64) -> Result<u64, Refused> {
    let taken: Vec<u64> = rows.iter().map(|row| row.worker_id).collect();
    let in_copies = rows.iter().any(|row| row.holder == Holder::OtherHistory);
    let random = if in_copies { random } else { 0 };
    choice::choose(rows, request, || {
        random_unused(&taken, 0..request.worker_ids, random)
    })
}

fn choose(rows: &[RegistryRow], request: &Request) -> Result<u64, Refused> {
    choose_at(rows, request, 0)
}

#[test]
fn the_first_of_all_gets_the_lowest() {
    assert_eq!(choose(&[], &ANY), Ok(0));
}

#[test]
fn a_node_keeps_the_worker_id_it_had() {
    assert_eq!(choose(&[live(0), own(2)], &ANY), Ok(2));
    let long_ago = held(2, Holder::Claimant, WallTime::MIN);
    assert_eq!(choose(&[live(0), long_ago], &ANY), Ok(2));
    assert_eq!(
        choose(&[own(3), own(1), live(0)], &ANY),
        Ok(1),
        "the lowest of its own"
    );
}

/// The registry does not grow without need.
#[test]
fn what_ran_out_goes_before_what_nobody_ever_had() {
    assert_eq!(choose(&[live(1), expired(2, 100)], &ANY), Ok(2));
    assert_eq!(choose(&[live(1), live(2)], &ANY), Ok(0));
}

/// All copies of the registry have it.
#[test]
fn what_ran_out_in_another_history_goes_last() {
    let elsewhere = held(1, Holder::OtherHistory, WallTime::MIN);
    assert_eq!(choose(&[elsewhere, live(0), live(2)], &ANY), Ok(3));
    let rows = [elsewhere, live(0), live(2), expired(3, 1)];
    assert_eq!(choose(&rows, &ANY), Ok(3));
    assert_eq!(choose(&[elsewhere, live(0), live(2), live(3)], &ANY), Ok(1));
}

#[test]
fn of_those_that_ran_out_the_first_goes_first() {
    let rows = [expired(0, 10), expired(1, 30), live(2), expired(3, 20)];
    assert_eq!(choose(&rows, &ANY), Ok(1));
    let rows = [live(0), expired(3, 10), expired(2, 10), live(1)];
    assert_eq!(choose(&rows, &ANY), Ok(2), "the lowest of those at once");
}

#[test]
fn a_lease_holds_up_to_its_last_microsecond() {
    assert_eq!(choose(&[live(1)], &wants(1)), Err(Refused::Held));
    assert_eq!(choose(&[expired(1, 1)], &wants(1)), Ok(1));
}

#[test]
fn a_lease_of_another_history_holds_for_long_after() {
    let row = |us_ago: i64| held(1, Holder::OtherHistory, NOW.plus_us(-us_ago));
    for us_ago in [0, 1, 500] {
        let refused = choose(&[row(us_ago)], &wants(1));
        assert_eq!(refused, Err(Refused::HeldInOtherHistory));
    }
    assert_eq!(choose(&[row(501)], &wants(1)), Ok(1));
    let others = [live(0), live(2), live(3)];
    let rows = |us_ago: i64| [&others[..], &[row(us_ago)]].concat();
    assert_eq!(choose(&rows(500), &ANY), Err(Refused::NoneLeft));
    assert_eq!(choose(&rows(501), &ANY), Ok(1));
}

#[test]
fn a_lease_for_ever_never_ends() {
    let rows = [
        held(1, Holder::OtherHistory, WallTime::MAX),
        held(2, Holder::Other, WallTime::MAX),
    ];
    for now in [WallTime::MIN, WallTime::default(), WallTime::MAX] {
        let request = Request { now, ..wants(1) };
        assert_eq!(choose(&rows, &request), Err(Refused::HeldInOtherHistory));
        let request = Request { now, ..wants(2) };
        assert_eq!(choose(&rows, &request), Err(Refused::Held));
    }
}

#[test]
fn a_worker_id_asked_for_is_given_or_none() {
    let rows = [own(0), live(1), expired(2, 1)];
    assert_eq!(choose(&rows, &wants(0)), Ok(0));
    assert_eq!(choose(&rows, &wants(1)), Err(Refused::Held));
    assert_eq!(choose(&rows, &wants(2)), Ok(2));
    assert_eq!(choose(&rows, &wants(3)), Ok(3));
    assert_eq!(choose(&rows, &wants(4)), Err(Refused::OutOfRange));
    assert_eq!(choose(&rows, &wants(u64::MAX)), Err(Refused::OutOfRange));
}

#[test]
fn rows_beyond_the_layout_do_not_count() {
    let rows = [own(4), live(5), expired(6, 1), live(0)];
    assert_eq!(choose(&rows, &ANY), Ok(1));
    let full = [live(0), live(1), live(2), live(3), own(4), expired(5, 1)];
    assert_eq!(choose(&full, &ANY), Err(Refused::NoneLeft));
}

#[test]
fn a_layout_with_one_worker_id_has_one_holder() {
    let request = Request {
        worker_ids: 1,
        ..ANY
    };
    assert_eq!(choose(&[], &request), Ok(0));
    assert_eq!(choose(&[live(0)], &request), Err(Refused::NoneLeft));
}

/// Nodes that lease from copies of a registry would all take the lowest.
#[test]
fn beside_another_history_chance_decides_among_the_free() {
    let rows = [held(1, Holder::OtherHistory, NOW), live(3)];
    let request = Request {
        worker_ids: 8,
        ..ANY
    };
    let chosen: Vec<_> = (0..7)
        .map(|random| choose_at(&rows, &request, random))
        .collect();
    assert_eq!(chosen, [0, 2, 4, 5, 6, 7, 0].map(Ok));
    let rows = [live(1), live(3)];
    assert_eq!(choose_at(&rows, &request, 5), Ok(0), "there is one history");
}

fn any_row() -> impl Strategy<Value = RegistryRow> {
    let holders = [Holder::Claimant, Holder::Other, Holder::OtherHistory];
    let until = prop_oneof![
        (-600..100i64).prop_map(|us| NOW.plus_us(us)),
        Just(NOW),
        Just(NOW.plus_us(-500)),
        any::<i64>().prop_map(WallTime::from_unix_us),
    ];
    // Nodes that have a worker id of their own are another matter.
    let holder = prop_oneof![1 => Just(holders[0]), 6 => Just(holders[1]), 6 => Just(holders[2])];
    (0..12u64, holder, until).prop_map(|(worker_id, holder, until)| held(worker_id, holder, until))
}

/// Rows of a registry, one for each worker id.
fn any_rows() -> impl Strategy<Value = Vec<RegistryRow>> {
    prop::collection::vec(any_row(), 0..14).prop_map(|mut rows| {
        rows.sort_by_key(|row| row.worker_id);
        rows.dedup_by_key(|row| row.worker_id);
        rows
    })
}

/// Whether somebody else may be using the worker id of a row.
fn is_taken(row: &RegistryRow) -> bool {
    let since = i128::from(NOW.unix_us()) - i128::from(row.leased_until.unix_us());
    match row.holder {
        Holder::Claimant => false,
        Holder::Other => since <= 0,
        Holder::OtherHistory => since <= ANY.reuse_after.as_micros() as i128,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn nobody_gets_what_another_may_be_using_and_nobody_goes_without(
        rows in any_rows().prop_shuffle(),
        worker_ids in 1..10u64,
        worker_id in prop::option::of(0..12u64),
        random: u64,
    ) {
        let is_free = |worker_id: u64| {
            let mut rows = rows.iter().filter(|row| row.worker_id == worker_id);
            worker_id < worker_ids && !rows.any(is_taken)
        };
        let request = Request { worker_id, worker_ids, ..ANY };
        match (choose_at(&rows, &request, random), worker_id) {
            (Ok(got), None) => prop_assert!(is_free(got)),
            (Ok(got), Some(wanted)) => prop_assert!(is_free(got) && got == wanted),
            (Err(_), Some(wanted)) => prop_assert!(!is_free(wanted)),
            (Err(why), None) => {
                prop_assert_eq!(why, Refused::NoneLeft);
                prop_assert!(!(0..worker_ids).any(is_free));
            }
        }
    }

    #[test]
    fn chance_reaches_every_worker_id_that_nobody_had(
        rows in any_rows(),
        worker_ids in 1..10u64,
    ) {
        let is_others = |row: &RegistryRow| {
            let goes_first = row.holder != Holder::OtherHistory && !is_taken(row);
            !goes_first || row.worker_id >= worker_ids
        };
        let rows: Vec<RegistryRow> = rows.into_iter().filter(is_others).collect();
        let free: Vec<u64> = (0..worker_ids)
            .filter(|worker_id| !rows.iter().any(|row| row.worker_id == *worker_id))
            .collect();
        let reached: Vec<u64> = (0..free.len() as u64)
            .filter_map(|random| choose_at(&rows, &Request { worker_ids, ..ANY }, random).ok())
            .collect();
        match rows.iter().any(|row| row.holder == Holder::OtherHistory) {
            true => prop_assert_eq!(reached, free),
            false => prop_assert!(reached.iter().all(|worker_id| *worker_id == free[0])),
        }
    }

    #[test]
    fn half_of_the_clocks_are_on_each_side_of_the_usual_one(
        others in prop::collection::vec(prop_oneof![-40..40i64, any::<i64>()], 0..5),
    ) {
        let median = usual_offset(&others);
        let (below, above) = (
            others.iter().chain(&[0]).filter(|other| **other < median).count(),
            others.iter().chain(&[0]).filter(|other| **other > median).count(),
        );
        let half = others.len().div_ceil(2);
        prop_assert!(below <= half && above <= half, "{median} of {others:?}");
    }
}

#[test]
fn a_clock_off_the_registrys_is_not_believed() {
    for (offset, believed) in [
        (0, true),
        (100, true),
        (-100, true),
        (101, false),
        (-101, false),
    ] {
        assert_eq!(is_credible(offset, us(100)), believed, "{offset}");
    }
    assert!(!is_credible(i64::MIN, us(i64::MAX as u64)));
    assert!(is_credible(i64::MAX, us(i64::MAX as u64)));
}
