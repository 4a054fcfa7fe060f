//! The functions behind the monitoring views of schema `leaf`. Each value has the name of
//! the column that shows it.

use leaf_core::buffer::Levels;
use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;

use super::args;
use crate::catalog::relation;
use crate::pg::call::{Call, Datum, sql_functions};
use crate::pg::rows::Record;
use crate::pg::{clock, database};
use crate::segment::key::key;
use crate::shmem;
use crate::shmem::failures::Failures;
use crate::shmem::generators::{GeneratorSlot, Lease};
use crate::shmem::slot::Slot;
use crate::shmem::waits::WaitCounts;
use crate::snowflake::source;

sql_functions!(leaf_segment_stats, leaf_segment_slots, leaf_snowflake_stats);

/// A tag in shared memory. The arguments are the tag, `max_id` and `step` of its row;
/// the latter two are shown for values that are not in shared memory.
fn leaf_segment_stats(call: Call<'_>) -> Record {
    let shared = shmem::require();
    let tag = args::given(call.text(0), "tag");
    let max_id = args::given(call.bigint(1), "max_id");
    let step = i64::from(args::given(call.integer(2), "step"));
    let mut seen = SeenSlot::default();
    shared
        .index
        .with(key(tag), |slot| seen = SeenSlot::of(slot));
    let SeenSlot { levels, waits, .. } = seen;
    let record = Record::new()
        .with("position", levels.position.unwrap_or(max_id))
        .with("current_left", levels.current as i64)
        .with("next_left", levels.next as i64)
        .with("next_ready", levels.next > 0)
        .with("step", if seen.step > 0 { seen.step } else { step })
        .with("loads", seen.loads)
        .with("ids_per_second", seen.ids_per_second);
    with_common(record, waits, &seen.failures)
}

/// The statistics of a slot, copied while the index is locked.
#[derive(Default)]
struct SeenSlot {
    levels: Levels,
    step: i64,
    loads: i64,
    ids_per_second: f64,
    waits: WaitCounts,
    failures: Failures,
}

impl SeenSlot {
    fn of(slot: &Slot) -> Self {
        let state = slot.state.read();
        SeenSlot {
            levels: slot.buffer.levels(),
            step: state.step as i64,
            loads: state.loads as i64,
            ids_per_second: state.ids_per_second,
            waits: slot.waits.counts(),
            failures: state.failures,
        }
    }
}

/// The tags of this database that are in shared memory, with or without a row.
fn leaf_segment_slots(call: Call<'_>) -> Datum {
    call.each(|| {
        let shared = shmem::require();
        let database = database::current();
        let catalog = relation::alloc().map_or(0, |catalog| catalog.to_u32());
        let keys = shared.index.keys_of(database, catalog);
        keys.into_iter().map(|key| key.tag)
    })
}

/// The database's snowflake ids, whether or not it has a generator yet.
fn leaf_snowflake_stats(_call: Call<'_>) -> Record {
    let scheme = source::scheme();
    let seen = source::generator().map_or_else(SeenGenerator::default, |slot| {
        SeenGenerator::of(slot, &scheme)
    });
    let lease = seen.lease;
    let lead_us = seen.last.map(|last| last.us_after(clock::now()));
    let record = Record::new()
        .with("worker_id", lease.map(|lease| lease.worker_id as i32))
        .with("layout", scheme.layout.to_string())
        .with("epoch", scheme.epoch)
        .with("ceiling", lease.map(|lease| lease.ceiling))
        .with("last_issued_at", seen.last)
        .with("clock_lead_ms", lead_us.map(|us| us as f64 / 1e3))
        .with(
            "clock_offset_ms",
            lease.map(|_| seen.clock_offset_us as f64 / 1e3),
        )
        .with("rollbacks", seen.rollbacks)
        .with("runs_out_at", scheme.ends_at());
    with_common(record, seen.waits, &seen.failures)
}

/// The statistics of a generator, copied while its state is locked.
#[derive(Default)]
struct SeenGenerator {
    lease: Option<Lease>,
    /// The time of the last id; `None` until the first id of the lease, because the
    /// generator's last tick is then before the beginning of the lease.
    last: Option<WallTime>,
    clock_offset_us: i64,
    rollbacks: i64,
    waits: WaitCounts,
    failures: Failures,
}

impl SeenGenerator {
    fn of(slot: &GeneratorSlot, scheme: &Scheme) -> Self {
        let state = slot.state.read();
        let last = scheme.instant_of(slot.generator.last_tick(&scheme.layout));
        let has_issued = |lease: &Lease| last >= lease.from;
        SeenGenerator {
            lease: state.lease,
            last: state
                .lease
                .as_ref()
                .filter(|it| has_issued(it))
                .map(|_| last),
            clock_offset_us: state.clock_offset_us,
            rollbacks: slot.generator.rollbacks() as i64,
            waits: slot.waits.counts(),
            failures: state.failures,
        }
    }
}

/// Adds the columns that both kinds of ids have.
fn with_common(record: Record, waits: WaitCounts, failures: &Failures) -> Record {
    record
        .with("waits", waits.waits)
        .with("longest_wait_ms", waits.longest_ms)
        .with("timeouts", waits.timeouts)
        .with("last_error", failures.message())
        .with("last_error_at", failures.at())
}
