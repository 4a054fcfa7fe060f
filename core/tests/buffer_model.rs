//! The double buffer against a plain model: a queue of ids, used by one thread.
#![cfg(not(loom))]

use std::collections::VecDeque;

use leaf_core::DoubleBuffer;
use leaf_core::buffer::{Full, Levels, MAX_DRAW, Runs};
use proptest::prelude::*;

/// One segment of the model.
#[derive(Debug)]
struct Segment {
    ids: VecDeque<i64>,
    /// The id whose drawer is told that the next segment is due.
    wake: Option<i64>,
}

/// What the buffer promises, written down as simply as possible.
#[derive(Debug, Default)]
struct Model {
    /// At most two, none of them empty.
    segments: VecDeque<Segment>,
    /// Whether the threshold of the last segment published has been crossed.
    crossed: bool,
    epoch: u64,
}

impl Model {
    fn publish(&mut self, base: i64, len: u64, prefetch_after: u64) -> Result<bool, Full> {
        if !self.has_room() {
            return Err(Full);
        }
        let ids = (base..base + len as i64).collect();
        let wake = (prefetch_after < len).then(|| base + prefetch_after as i64);
        // A newer threshold replaces an older one.
        self.segments
            .iter_mut()
            .for_each(|segment| segment.wake = None);
        self.segments.push_back(Segment { ids, wake });
        self.crossed = false;
        Ok(false)
    }

    fn draw(&mut self) -> Option<(i64, bool)> {
        let segment = self.segments.front_mut()?;
        let id = segment.ids.pop_front()?;
        let due = segment.wake == Some(id);
        self.crossed |= due;
        if segment.ids.is_empty() {
            self.segments.pop_front();
        }
        Some((id, due))
    }

    fn draw_all(&mut self, count: u64) -> (Vec<i64>, bool) {
        let left: usize = self.segments.iter().map(|it| it.ids.len()).sum();
        match count <= left as u64 {
            true => self.draw_up_to(count as usize),
            false => (vec![], false),
        }
    }

    fn draw_many(&mut self, count: u64) -> (Vec<i64>, bool) {
        self.draw_up_to(count.min(MAX_DRAW) as usize)
    }

    fn draw_up_to(&mut self, count: usize) -> (Vec<i64>, bool) {
        let drawn: Vec<_> = std::iter::from_fn(|| self.draw()).take(count).collect();
        let due = drawn.iter().filter(|(_, due)| *due).count();
        assert!(due <= 1, "the model itself tells two callers");
        (drawn.into_iter().map(|(id, _)| id).collect(), due == 1)
    }

    fn take_rest(&mut self) -> Vec<i64> {
        self.segments
            .drain(..)
            .flat_map(|segment| segment.ids)
            .collect()
    }

    fn has_room(&self) -> bool {
        self.segments.len() < 2
    }

    fn is_due(&self) -> bool {
        self.crossed || self.segments.is_empty()
    }

    fn levels(&self) -> Levels {
        let left = |n: usize| self.segments.get(n).map_or(0, |s| s.ids.len() as u64);
        Levels {
            current: left(0),
            next: left(1),
            position: self.segments.front().and_then(|s| s.ids.front().copied()),
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Draw,
    DrawMany(u64),
    DrawAll(u64),
    Publish {
        skip: i64,
        len: u64,
        prefetch_after: u64,
    },
    TakeRest,
    BumpEpoch,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => Just(Op::Draw),
        3 => (0..20u64).prop_map(Op::DrawMany),
        3 => (1..50u64).prop_map(Op::DrawAll),
        1 => (0..3 * MAX_DRAW).prop_map(Op::DrawMany),
        5 => (0..5i64, 1..12u64, 0..14u64).prop_map(|(skip, len, prefetch_after)| {
            Op::Publish { skip, len, prefetch_after }
        }),
        1 => (0..5i64, 1..3 * MAX_DRAW, 0..3 * MAX_DRAW).prop_map(|(skip, len, prefetch_after)| {
            Op::Publish { skip, len, prefetch_after }
        }),
        1 => Just(Op::TakeRest),
        1 => Just(Op::BumpEpoch),
    ]
}

fn ids(runs: Runs) -> Vec<i64> {
    runs.iter()
        .flat_map(|run| run.first..run.first + run.len as i64)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_buffer_does_what_a_queue_of_ids_does(
        start in prop_oneof![Just(1i64), Just(i64::MIN), Just(-50), Just(i64::MAX - 1_000_000)],
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let buffer = DoubleBuffer::new();
        let mut model = Model::default();
        let mut granted = start;
        for op in ops {
            match op {
                Op::Draw => {
                    let drawn = buffer.draw().map(|drawn| (drawn.id, drawn.due));
                    prop_assert_eq!(drawn, model.draw());
                }
                Op::DrawMany(count) => {
                    let drawn = buffer.draw_many(count);
                    prop_assert!(drawn.is_none_or(|drawn| !drawn.runs.is_empty()));
                    let drawn = drawn.map_or((vec![], false), |drawn| (ids(drawn.runs), drawn.due));
                    prop_assert_eq!(drawn, model.draw_many(count));
                }
                Op::DrawAll(count) => {
                    let drawn = buffer.draw_all(count);
                    let drawn = drawn.map_or((vec![], false), |drawn| (ids(drawn.runs), drawn.due));
                    prop_assert_eq!(drawn, model.draw_all(count));
                }
                Op::Publish { skip, len, prefetch_after } => {
                    let base = granted + skip;
                    let published = buffer.publish(base, len, prefetch_after);
                    prop_assert_eq!(published, model.publish(base, len, prefetch_after));
                    if published.is_ok() {
                        granted = base + len as i64;
                    }
                }
                Op::TakeRest => {
                    let rest = buffer.take_rest();
                    let expected = model.take_rest();
                    prop_assert_eq!(rest.len(), expected.len() as u64);
                    prop_assert_eq!(ids(rest), expected);
                }
                Op::BumpEpoch => {
                    model.epoch += 1;
                    prop_assert_eq!(buffer.bump_epoch(), model.epoch);
                }
            }
            prop_assert_eq!(buffer.has_ids(), !model.segments.is_empty());
            prop_assert_eq!(buffer.has_room(), model.has_room());
            prop_assert_eq!(buffer.is_due(), model.is_due());
            prop_assert_eq!(buffer.levels(), model.levels());
            prop_assert_eq!(buffer.epoch(), model.epoch);
        }
    }
}

#[test]
fn draws_beyond_the_end_cost_no_ids_of_the_next_segment() {
    let buffer = DoubleBuffer::new();
    (0..100).for_each(|_| assert_eq!(buffer.draw(), None));
    buffer.publish(1, 10, 10).unwrap();
    let drawn: Vec<i64> = std::iter::from_fn(|| buffer.draw())
        .map(|drawn| drawn.id)
        .collect();
    assert_eq!(drawn, (1..11).collect::<Vec<_>>());
}

#[test]
fn a_segment_behind_an_unfinished_one_repeats_none_of_its_ids() {
    let buffer = DoubleBuffer::new();
    buffer.publish(1, 3, 3).unwrap();
    assert_eq!(buffer.draw().unwrap().id, 1);
    buffer.publish(100, 3, 3).unwrap();
    let drawn: Vec<i64> = std::iter::from_fn(|| buffer.draw())
        .map(|drawn| drawn.id)
        .collect();
    assert_eq!(drawn, [2, 3, 100, 101, 102]);
}

#[test]
fn unused_ids_are_never_overwritten() {
    let buffer = DoubleBuffer::new();
    buffer.publish(1, 2, 2).unwrap();
    buffer.publish(3, 2, 2).unwrap();
    assert_eq!(buffer.publish(5, 2, 2), Err(Full));
    assert_eq!(buffer.draw().unwrap().id, 1);
    assert_eq!(
        buffer.publish(5, 2, 2),
        Err(Full),
        "one id of the first segment is left"
    );
    assert_eq!(buffer.draw().unwrap().id, 2);
    assert_eq!(buffer.publish(5, 2, 2), Ok(false));
}

#[test]
fn one_batch_takes_no_more_than_a_dead_caller_may_lose() {
    let buffer = DoubleBuffer::new();
    buffer.publish(1, 10 * MAX_DRAW, u64::MAX).unwrap();
    assert_eq!(buffer.draw_many(u64::MAX).unwrap().runs.len(), MAX_DRAW);
    assert_eq!(buffer.draw().unwrap().id, MAX_DRAW as i64 + 1);
}

#[test]
fn a_batch_has_no_ids_of_an_epoch_that_its_caller_does_not_know() {
    let buffer = DoubleBuffer::new();
    let earlier = buffer.epoch();
    let epoch = buffer.bump_epoch();
    buffer.publish(7_000_000, 10, 1).unwrap();
    let drawn = buffer.draw_many_at(earlier, 5).unwrap();
    assert!(drawn.runs.is_empty());
    assert!(drawn.due, "nobody else requests the next segment");
    let drawn = buffer.draw_many_at(epoch, 2).unwrap();
    assert_eq!(ids(drawn.runs), [7_000_005, 7_000_006]);
}

#[test]
fn the_largest_ids_are_drawn_like_any_other() {
    let buffer = DoubleBuffer::new();
    buffer.publish(i64::MAX - 2, 2, 1).unwrap();
    assert_eq!(buffer.draw().unwrap().id, i64::MAX - 2);
    let last = buffer.draw().unwrap();
    assert_eq!((last.id, last.due), (i64::MAX - 1, true));
    assert_eq!(buffer.draw(), None);
}
