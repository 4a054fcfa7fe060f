//! The tags in shared memory; the view `leaf.stat_segment` adds the catalog's rows.

use std::sync::atomic::Ordering;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::iter::TableIterator;
use pgrx::name;
use pgrx::prelude::*;

use crate::catalog;
use crate::pg;
use crate::session;
use crate::shmem::Slot;

// The tag is returned as the bytes of a `bytea`, which are laid out as those of
// the `text` that SQL declares: it is in the database's encoding already.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn leaf_segment_stats() -> TableIterator<
    'static,
    (
        name!(biz_tag, Vec<u8>),
        name!(position, Option<i64>),
        name!(current_left, i64),
        name!(next_left, i64),
        name!(step, i64),
        name!(loads, i64),
        name!(waits, i64),
        name!(longest_wait_ms, f64),
        name!(timeouts, i64),
        name!(ids_per_second, f64),
        name!(last_error, Option<String>),
        name!(last_error_at, Option<TimestampWithTimeZone>),
    ),
> {
    let shared = session::shared();
    let Some(catalog) = catalog::alloc() else {
        return TableIterator::new(std::iter::empty());
    };
    let mut rows = Vec::with_capacity(shared.slots.len());
    shared.each_of(pg::database().to_u32(), |key, _, slot| {
        if key.catalog == catalog.to_u32() {
            rows.push((key.tag.to_vec(), observe(slot)));
        }
    });
    TableIterator::new(rows.into_iter().map(|(tag, seen)| seen.into_row(tag)))
}

/// A row of the view, in the order of the columns above.
type Row = (
    Vec<u8>,
    Option<i64>,
    i64,
    i64,
    i64,
    i64,
    i64,
    f64,
    i64,
    f64,
    Option<String>,
    Option<TimestampWithTimeZone>,
);

/// A slot's numbers, copied while the index is locked.
struct Seen {
    levels: leaf_core::buffer::Levels,
    step: u64,
    loads: u64,
    waits: u64,
    longest_us: u64,
    timeouts: u64,
    ids_per_second: f64,
    error: crate::shmem::slot::LastError,
}

fn observe(slot: &Slot) -> Seen {
    let state = slot.state.shared();
    Seen {
        levels: slot.buffer.levels(),
        step: state.step,
        loads: state.loads,
        waits: slot.waits.count.load(Ordering::Relaxed),
        longest_us: slot.waits.longest_us.load(Ordering::Relaxed),
        timeouts: slot.waits.timeouts.load(Ordering::Relaxed),
        ids_per_second: state.ids_per_second,
        error: state.error,
    }
}

impl Seen {
    fn into_row(self, tag: Vec<u8>) -> Row {
        let at = self.error.message().map(|_| self.error.at);
        (
            tag,
            self.levels.position,
            self.levels.current as i64,
            self.levels.next as i64,
            self.step as i64,
            self.loads as i64,
            self.waits as i64,
            self.longest_us as f64 / 1e3,
            self.timeouts as i64,
            self.ids_per_second,
            self.error.message(),
            at.and_then(|at| TimestampWithTimeZone::try_from(at).ok()),
        )
    }
}
