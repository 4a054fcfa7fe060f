//! The double buffer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use leaf_core::DoubleBuffer;
use leaf_core::buffer::Runs;
use loom::thread;

use crate::check;

/// Tells nobody that the next segment is due.
const NO_PREFETCH: u64 = u64::MAX;

/// A buffer whose draws are watched: no id twice, and none at or below one
/// whose draw had returned before this draw began.
///
/// The record is kept with `std`, which the model checker does not see, so
/// that keeping it orders nothing.
#[derive(Default)]
struct Watched {
    buffer: DoubleBuffer,
    granted: Mutex<Vec<i64>>,
    drawn: Mutex<Vec<i64>>,
}

impl Watched {
    fn new(segments: &[(i64, u64)]) -> Arc<Self> {
        let watched = Arc::new(Watched::default());
        for &(base, len) in segments {
            watched.publish(base, len);
        }
        watched
    }

    /// Publishes if there is room.
    fn publish(&self, base: i64, len: u64) {
        if self.buffer.publish(base, len, NO_PREFETCH).is_ok() {
            let mut granted = self.granted.lock().unwrap();
            granted.extend(base..base + len as i64);
        }
    }

    fn draw(&self) -> Option<i64> {
        let before = self.highest();
        let id = self.buffer.draw()?.id;
        self.record(before, id);
        Some(id)
    }

    fn draw_many(&self, count: u64) {
        let mut before = self.highest();
        let Some(drawn) = self.buffer.draw_many(count) else {
            return;
        };
        assert!(drawn.runs.len() <= count, "more ids than asked for");
        for id in ids(drawn.runs) {
            self.record(before, id);
            before = id;
        }
    }

    /// Returns whether it got ids.
    fn draw_all(&self, count: u64) -> bool {
        let mut before = self.highest();
        let Some(drawn) = self.buffer.draw_all(count) else {
            return false;
        };
        assert_eq!(drawn.runs.len(), count, "not all that were there");
        for id in ids(drawn.runs) {
            self.record(before, id);
            before = id;
        }
        true
    }

    /// Counts what a discard owns as drawn: nobody else may draw it.
    fn take_rest(&self) {
        for id in ids(self.buffer.take_rest()) {
            self.record(i64::MIN, id);
        }
    }

    fn drain(&self) {
        while self.draw().is_some() {}
    }

    fn highest(&self) -> i64 {
        let drawn = self.drawn.lock().unwrap();
        drawn.iter().copied().max().unwrap_or(i64::MIN)
    }

    fn record(&self, before: i64, id: i64) {
        assert!(id > before, "{id} was drawn after {before}");
        let mut drawn = self.drawn.lock().unwrap();
        assert!(!drawn.contains(&id), "{id} was drawn twice");
        drawn.push(id);
    }

    /// Every id of the segments published was drawn, but for up to `lost` of
    /// them, and no other.
    fn assert_drawn(&self, lost: usize) {
        let (granted, drawn) = (self.granted.lock().unwrap(), self.drawn.lock().unwrap());
        for id in drawn.iter() {
            assert!(granted.contains(id), "{id} was never granted");
        }
        assert!(
            drawn.len() + lost >= granted.len(),
            "too many ids lost: {drawn:?} of {granted:?}"
        );
    }
}

fn ids(runs: Runs) -> Vec<i64> {
    runs.iter()
        .flat_map(|run| run.first..run.first + run.len as i64)
        .collect()
}

/// Starts a thread that works on the watched buffer.
fn spawn(watched: &Arc<Watched>, work: impl FnOnce(&Watched) + 'static) -> thread::JoinHandle<()> {
    let watched = watched.clone();
    thread::spawn(move || work(&watched))
}

#[test]
fn two_threads_never_draw_the_same_id() {
    check(|| {
        let watched = Watched::new(&[(10, 2), (20, 1)]);
        let other = spawn(&watched, |watched| {
            watched.draw();
            watched.draw();
        });
        watched.draw();
        watched.draw();
        other.join().unwrap();
        watched.drain();
        watched.assert_drawn(0);
    });
}

#[test]
fn a_draw_during_a_publish_gets_an_id_of_it_or_none() {
    check(|| {
        let watched = Watched::new(&[(10, 1)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw();
            watched.draw();
        });
        watched.publish(20, 2);
        drawer.join().unwrap();
        watched.drain();
        // The drawer may have passed the old limit before it saw the new one.
        watched.assert_drawn(1);
    });
}

/// The publisher draws nothing itself, because `loom` tries fewer interleavings
/// of what both threads have read.
#[test]
fn a_drawer_whose_cell_is_overwritten_draws_again() {
    check(|| {
        let watched = Watched::new(&[(10, 1), (20, 1)]);
        let drawer = spawn(&watched, |watched| {
            assert!(watched.draw().is_some(), "the second segment was there");
        });
        // There is room only once the drawer has come.
        watched.publish(30, 2);
        drawer.join().unwrap();
        watched.drain();
        watched.assert_drawn(1);
    });
}

#[test]
fn a_drawer_that_sleeps_while_both_cells_are_overwritten_repeats_no_id() {
    check(|| {
        let watched = Watched::new(&[(10, 1), (20, 1)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw();
        });
        let publisher = spawn(&watched, |watched| {
            watched.draw();
            watched.draw();
            // There is room only once the drawer has come.
            watched.publish(30, 2);
            watched.publish(40, 1);
            watched.draw();
        });
        drawer.join().unwrap();
        publisher.join().unwrap();
        watched.drain();
        watched.assert_drawn(2);
    });
}

#[test]
fn a_discard_owns_exactly_what_nobody_drew() {
    check(|| {
        let watched = Watched::new(&[(10, 1), (20, 2)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw();
            watched.draw();
        });
        watched.take_rest();
        drawer.join().unwrap();
        watched.assert_drawn(0);
    });
}

#[test]
fn a_discard_beside_batches_owns_exactly_what_nobody_drew() {
    check(|| {
        let watched = Watched::new(&[(10, 2), (20, 2)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw_many(3);
            watched.draw_many(3);
        });
        watched.take_rest();
        drawer.join().unwrap();
        watched.assert_drawn(0);
    });
}

/// The cursor must not move back to the limit: somebody may sleep on a ticket
/// beyond it.
#[test]
fn a_discard_of_nothing_under_a_sleeping_drawer_repeats_no_id() {
    check(|| {
        let watched = Watched::new(&[(10, 1)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw();
            watched.draw();
        });
        watched.take_rest();
        watched.publish(20, 2);
        watched.draw();
        drawer.join().unwrap();
        watched.drain();
        // Both draws of the other may fall between discard and publish.
        watched.assert_drawn(2);
    });
}

#[test]
fn draws_from_an_empty_buffer_do_not_eat_the_next_segment() {
    check(|| {
        let watched = Watched::new(&[]);
        let drawers = [0, 1].map(|_| {
            spawn(&watched, |watched| {
                watched.draw();
            })
        });
        watched.publish(10, 3);
        drawers
            .into_iter()
            .for_each(|drawer| drawer.join().unwrap());
        watched.drain();
        watched.assert_drawn(2);
    });
}

#[test]
fn a_batch_from_a_nearly_empty_buffer_does_not_eat_the_next_segment() {
    check(|| {
        let watched = Watched::new(&[(10, 1)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw_many(1_000);
        });
        watched.draw();
        watched.publish(20, 3);
        drawer.join().unwrap();
        watched.drain();
        watched.assert_drawn(1);
    });
}

#[test]
fn batches_across_two_cells_ascend_and_overlap_nowhere() {
    check(|| {
        let watched = Watched::new(&[(10, 2), (20, 2)]);
        let other = spawn(&watched, |watched| {
            watched.draw_many(3);
        });
        watched.draw_many(3);
        other.join().unwrap();
        watched.drain();
        watched.assert_drawn(0);
    });
}

#[test]
fn all_or_nothing_leaves_the_ids_to_others() {
    check(|| {
        let watched = Watched::new(&[(10, 1), (20, 2)]);
        let other = spawn(&watched, |watched| {
            watched.draw();
        });
        let has_all = watched.draw_all(3);
        other.join().unwrap();
        watched.assert_drawn(if has_all { 0 } else { 2 });
        watched.drain();
        watched.assert_drawn(0);
    });
}

#[test]
fn a_batch_during_an_overwrite_repeats_no_id() {
    check(|| {
        let watched = Watched::new(&[(10, 1), (20, 1)]);
        let drawer = spawn(&watched, |watched| {
            watched.draw_many(2);
        });
        watched.draw();
        watched.publish(30, 2);
        drawer.join().unwrap();
        watched.drain();
        watched.assert_drawn(2);
    });
}

/// A threshold is published while somebody draws past it: either a draw is told
/// that the next segment is due, or the publisher is.
fn crosses_the_threshold(
    prefetch_after: u64,
    draw: impl Fn(&DoubleBuffer) -> bool + Copy + Send + Sync + 'static,
) {
    check(move || {
        let buffer = Arc::new(DoubleBuffer::new());
        buffer.publish(10, 1, NO_PREFETCH).unwrap();
        let drawer = {
            let buffer = buffer.clone();
            thread::spawn(move || [(); 2].map(|()| draw(&buffer)).contains(&true))
        };
        let publisher_told = buffer.publish(20, 4, prefetch_after).unwrap();
        let drawer_told = drawer.join().unwrap();
        let crossed = buffer.levels().position > Some(20 + prefetch_after as i64);
        assert_eq!(publisher_told || drawer_told, crossed);
    });
}

#[test]
fn a_draw_never_crosses_the_prefetch_threshold_in_silence() {
    crosses_the_threshold(0, |buffer| buffer.draw().is_some_and(|drawn| drawn.due));
}

#[test]
fn a_batch_never_crosses_the_prefetch_threshold_in_silence() {
    crosses_the_threshold(1, |buffer| {
        buffer.draw_many(2).is_some_and(|drawn| drawn.due)
    });
}

/// What a drawer does with the epoch, in the right order or in the wrong one.
#[derive(Clone, Copy)]
enum EpochIsRead {
    BeforeTheDraw,
    AfterTheDraw,
}

/// What an owner does first when a buffer passes to another tag.
#[derive(Clone, Copy)]
enum OwnerBumps {
    First,
    Last,
}

const OLD_TAG: std::ops::Range<i64> = 100..102;
const NEW_TAG: std::ops::Range<i64> = 10..12;

/// A buffer passes to another tag while somebody draws for the old one.
fn reuse(epoch_is_read: EpochIsRead, owner_bumps: OwnerBumps) {
    check(move || {
        let buffer = Arc::new(DoubleBuffer::new());
        buffer.publish(OLD_TAG.start, 2, NO_PREFETCH).unwrap();
        let old_epoch = buffer.epoch();
        let discarded = Arc::new(AtomicBool::new(false));

        let drawer = {
            let (buffer, discarded) = (buffer.clone(), discarded.clone());
            thread::spawn(move || {
                let mut accepted = Vec::new();
                for _ in 0..2 {
                    let too_late = discarded.load(Ordering::Relaxed);
                    let before = buffer.epoch();
                    let Some(drawn) = buffer.draw() else { continue };
                    let epoch = match epoch_is_read {
                        EpochIsRead::BeforeTheDraw => before,
                        EpochIsRead::AfterTheDraw => buffer.epoch(),
                    };
                    if epoch == old_epoch {
                        assert!(OLD_TAG.contains(&drawn.id), "got an id of another tag");
                        assert!(!too_late, "got an id of a tag that was gone");
                        accepted.push(drawn.id);
                    }
                }
                accepted
            })
        };

        if matches!(owner_bumps, OwnerBumps::First) {
            buffer.bump_epoch();
        }
        let rest = ids(buffer.take_rest());
        discarded.store(true, Ordering::Relaxed);
        buffer.publish(NEW_TAG.start, 2, NO_PREFETCH).unwrap();
        if matches!(owner_bumps, OwnerBumps::Last) {
            buffer.bump_epoch();
        }

        let accepted = drawer.join().unwrap();
        assert!(
            accepted.iter().all(|id| !rest.contains(id)),
            "drawn and discarded"
        );
        let new = buffer.draw().map(|drawn| drawn.id);
        assert!(
            new.is_none_or(|id| NEW_TAG.contains(&id)),
            "the new tag got {new:?}"
        );
    });
}

#[test]
fn a_reused_buffer_gives_no_tag_an_id_of_another() {
    reuse(EpochIsRead::AfterTheDraw, OwnerBumps::First);
}

#[test]
#[should_panic(expected = "got an id")]
fn an_epoch_read_before_the_draw_would_not_protect() {
    reuse(EpochIsRead::BeforeTheDraw, OwnerBumps::First);
}

#[test]
#[should_panic(expected = "got an id")]
fn an_epoch_bumped_after_the_publish_would_not_protect() {
    reuse(EpochIsRead::AfterTheDraw, OwnerBumps::Last);
}
