//! The double buffer under real threads for up to two seconds: what `loom` proves on
//! a few steps is seen here over millions.
#![cfg(not(loom))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leaf_core::DoubleBuffer;
use leaf_core::buffer::Runs;

const DRAWERS: usize = 4;
const DURATION: Duration = Duration::from_secs(2);

/// Small, so that cells are overwritten under the drawers all the time.
const SEGMENTS: [u64; 5] = [1, 2, 7, 64, 900];

/// Stops earlier once this many ids are granted: they are all remembered.
const ENOUGH: i64 = 8_000_000;

#[test]
fn no_id_twice_and_all_in_order_under_real_threads() {
    let buffer = DoubleBuffer::new();
    let highest = AtomicI64::new(0);
    let granted = AtomicI64::new(1);
    let over = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());

    thread::scope(|scope| {
        for number in 0..DRAWERS {
            let (buffer, highest, over, all) = (&buffer, &highest, &over, &all);
            scope.spawn(move || {
                let drawn = draw_until(buffer, highest, over, number % 2 == 1);
                all.lock().unwrap().extend(drawn);
            });
        }
        let discarded = publish_for_a_while(&buffer, &granted);
        over.store(true, Ordering::Release);
        all.lock().unwrap().extend(discarded);
    });

    let mut all = all.into_inner().unwrap();
    all.extend(ids(buffer.take_rest()));
    all.sort_unstable();
    let granted = granted.into_inner();
    assert!(
        all.windows(2).all(|pair| pair[0] < pair[1]),
        "an id came twice"
    );
    assert!(
        all.first() >= Some(&1) && all.last() < Some(&granted),
        "an id was never granted"
    );
    // Only a draw that met an empty buffer or an overwritten cell loses an id.
    let lost = granted - 1 - all.len() as i64;
    assert!(lost * 2 < granted, "{lost} of {granted} ids were lost");
}

/// Publishes whenever there is room, and now and then discards. Returns what
/// it discarded.
fn publish_for_a_while(buffer: &DoubleBuffer, granted: &AtomicI64) -> Vec<i64> {
    let start = Instant::now();
    let mut discarded = Vec::new();
    for round in 0.. {
        let base = granted.load(Ordering::Relaxed);
        if start.elapsed() > DURATION || base > ENOUGH {
            break;
        }
        if round % 97 == 0 {
            discarded.extend(ids(buffer.take_rest()));
        }
        let len = SEGMENTS[round % SEGMENTS.len()];
        if buffer.publish(base, len, len / 10).is_ok() {
            granted.store(base + len as i64, Ordering::Relaxed);
        } else {
            thread::yield_now();
        }
    }
    discarded
}

/// Draws, one by one or in batches, and checks that every id lies above all
/// whose draw had returned before.
fn draw_until(
    buffer: &DoubleBuffer,
    highest: &AtomicI64,
    over: &AtomicBool,
    batches: bool,
) -> Vec<i64> {
    let mut drawn = Vec::new();
    while !over.load(Ordering::Acquire) {
        if !buffer.has_ids() {
            thread::yield_now();
            continue;
        }
        let before = highest.load(Ordering::SeqCst);
        let from = drawn.len();
        match batches {
            true => drawn.extend(
                buffer
                    .draw_many(10)
                    .into_iter()
                    .flat_map(|many| ids(many.runs)),
            ),
            false => drawn.extend(buffer.draw().map(|one| one.id)),
        }
        let new = &drawn[from..];
        let Some(&last) = new.last() else { continue };
        assert!(new[0] > before, "{} was drawn after {before}", new[0]);
        assert!(new.is_sorted());
        highest.fetch_max(last, Ordering::SeqCst);
    }
    drawn
}

fn ids(runs: Runs) -> Vec<i64> {
    runs.iter()
        .flat_map(|run| run.first..run.first + run.len as i64)
        .collect()
}
