//! The functions behind the monitoring views of schema `leaf`. Each value has the name of
//! the column that shows it.

use std::time::Duration;

use leaf_core::buffer::Levels;
use leaf_core::grant::{MAX_ID, OwnNumbers, Position};
use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;

use super::args;
use crate::catalog::alloc::{self, ShownRow};
use crate::catalog::{self, alloc_row, relation};
use crate::pg::call::{Call, Datum, sql_functions};
use crate::pg::rows::Record;
use crate::pg::{clock, database, heap, process, report, role};
use crate::session::key::key;
use crate::session::permissions::{self, check_owner_if_exists};
use crate::session::snowflake::source;
use crate::shmem;
use crate::shmem::failures::Failures;
use crate::shmem::generators::{GeneratorSlot, Lease};
use crate::shmem::key::OwnedKey;
use crate::shmem::slot::{Slot, TagState};
use crate::shmem::text::Keep;
use crate::shmem::texts::KeptText;
use crate::shmem::upstream::{Contact, ContactState};
use crate::shmem::waits::WaitCounts;

sql_functions!(
    leaf_alloc_stats,
    leaf_segment_stats,
    leaf_segment_slots,
    leaf_snowflake_stats,
    leaf_upstream_stats,
    leaf_failovers_left,
    leaf_stat_reset
);

/// The rows of the tags that the role may see: its own, or all for members of `pg_monitor`. Whoever
/// watches leaf must not hang while `leaf.alloc` is locked. Then there is what memory has, which
/// does not know the owners: for members of `pg_monitor` only, and of the row no more than how far
/// it was granted.
fn leaf_alloc_stats(call: Call<'_>) -> Datum {
    call.each(|| {
        let shared = shmem::require();
        let alloc = relation::require_alloc();
        let user = role::current();
        let mut relations = [Some(alloc), relation::alloc_index()].into_iter().flatten();
        let rows = if relations.all(heap::lock_for_reading_at_once) {
            catalog::as_owner(|| alloc::shown_to(user))
        } else {
            // When: `leaf.stat_segment`
            report::warn(
                "table \"leaf.alloc\" is locked by another transaction",
                "Only what is in memory is shown of tags, to members of pg_monitor.",
            );
            let mut keys = shared.index.keys_of(database::current(), alloc.to_u32());
            keys.retain(|_| role::is_monitor(user));
            let seen = |key: OwnedKey| {
                let mut granted_to = i64::MIN;
                shared.index.with(key.as_ref(), |slot| {
                    granted_to = slot.state.read().high_water;
                });
                ShownRow::of_memory(key.tag, granted_to)
            };
            keys.into_iter().map(seen).collect()
        };
        rows.into_iter().map(|row| {
            let [max_id, max_value, stripe_width] = row.bigints;
            let [step, stripes, stripe] = row.integers;
            Record::new()
                .with("biz_tag", row.tag)
                .with("max_id", max_id)
                .with("max_value", max_value)
                .with("step", step)
                .with("upstream_tag", row.upstream_tag)
                .with("stripes", stripes)
                .with("stripe", stripe)
                .with("stripe_width", stripe_width)
        })
    })
}

/// Why values of a row are missing.
const LOCKED: &str = "table \"leaf.alloc\" is locked by another transaction";

/// A tag in shared memory. The arguments are the tag, `max_id`, `step` and `max_value` of its
/// row, whether it is fed, and its stripe, which are shown for values that are not in shared memory;
/// they are missing while the row cannot be read. Only for members of `pg_monitor` and owners of
/// the tag.
fn leaf_segment_stats(call: Call<'_>) -> Record {
    let shared = shmem::require();
    let tag = args::given(call.text(0), "tag");
    let mut seen = SeenSlot::default();
    // A row of an older snapshot may be gone.
    if role::is_monitor(role::current()) || check_owner_if_exists(tag) {
        shared
            .index
            .with(key(tag), |slot| seen = SeenSlot::of(slot));
    }
    let SeenSlot { levels, waits, .. } = seen;
    let row = row_of(call);
    // The numbers that the row has not granted, and the ids left in the buffers. How many the
    // centre has left is not known here.
    let ungranted = row.as_ref().map(|row| match row.is_fed {
        true => 0,
        false => row.position.left(),
    });
    let left = ungranted.map(|ungranted| ungranted.saturating_add(levels.current + levels.next));
    let used = row.as_ref().zip(left).filter(|(row, _)| !row.is_fed);
    let next = row
        .as_ref()
        .map(|row| row.position.next().unwrap_or(row.position.max_id));
    let step = row.as_ref().map_or(0, |row| row.step);
    let mut record = Record::new();
    if row.is_none() {
        record = record
            .with("last_error", LOCKED.to_owned())
            .with("last_error_at", clock::now());
    }
    let record = seen.counts().fold(record, |record, (column, count)| {
        record.with(column, count as i64)
    });
    let record = record
        .with("position", levels.position.or(next).or(call.bigint(1)))
        .with(
            "ids_left",
            left.map(|left| i64::try_from(left).unwrap_or(i64::MAX)),
        )
        .with(
            "used_percent",
            used.and_then(|(row, left)| {
                used_percent(left, row.position.max_value, &row.position.numbers)
            }),
        )
        .with(
            "time_left",
            left.and_then(|left| time_left(left, seen.ids_per_second)),
        )
        .with("current_left", levels.current as i64)
        .with("next_left", levels.next as i64)
        .with("next_ready", levels.next > 0)
        .with("step", if seen.step > 0 { seen.step } else { step })
        .with("ids_per_second", seen.ids_per_second)
        .with("evictions", shared.index.evictions() as i64);
    with_common(record, waits, &seen.failures, seen.reset_at)
}

/// The row of a tag.
struct Row {
    position: Position,
    step: i64,
    is_fed: bool,
}

/// The row among the arguments of [`leaf_segment_stats`]; `None` if it could not be read.
fn row_of(call: Call<'_>) -> Option<Row> {
    let (max_id, max_value) = (call.bigint(1)?, call.bigint(3)?);
    let integer = |number| args::given(call.integer(number), "stripe");
    let width = args::given(call.bigint(7), "stripe");
    Some(Row {
        position: Position {
            max_id,
            max_value,
            numbers: alloc_row::own_numbers(integer(5), integer(6), width),
        },
        step: i64::from(args::given(call.integer(2), "step")),
        is_fed: args::given(call.boolean(4), "is_fed"),
    })
}

/// How much of a tag's numbers from 1 to `max_value` is granted and drawn, if it has `left`
/// of them; `None` if it has none of them.
fn used_percent(left: u64, max_value: i64, numbers: &OwnNumbers) -> Option<f64> {
    let all = Some(numbers.count(1, max_value.min(MAX_ID))).filter(|&all| all > 0)?;
    Some(100.0 * (all - left.min(all)) as f64 / all as f64)
}

/// How long the ids will last; `None` if none are drawn, or for ages.
fn time_left(left: u64, per_second: f64) -> Option<Duration> {
    let seconds = left as f64 / per_second;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|left| *left < AGES)
}

/// Longer than any plan: 10,000 years.
const AGES: Duration = Duration::from_hours(10_000 * 8_766);

/// Resets the statistics of a tag, or, without one, of all tags and of the snowflake ids of the
/// database.
fn leaf_stat_reset(call: Call<'_>) {
    let shared = shmem::require();
    match call.text(0) {
        Some(tag) => {
            let tag = args::tag(Some(tag));
            shared.index.with(key(tag), Slot::reset_statistics);
        }
        None => {
            let catalog = relation::require_alloc().to_u32();
            for key in shared.index.keys_of(database::current(), catalog) {
                shared.index.with(key.as_ref(), Slot::reset_statistics);
            }
            if let Some(generator) = source::generator() {
                generator.reset_statistics();
            }
        }
    }
}

/// The count of a column, read while the index is locked.
type Count = fn(&Slot, &TagState) -> u64;

/// Columns that count what a slot has done; 0 for a tag that is not in memory.
const COUNTS: &[(&str, Count)] = &[
    ("loads", |_, state| state.loads),
    ("ids_drawn", Slot::ids_drawn),
];

/// The statistics of a slot, copied while the index is locked.
#[derive(Default)]
struct SeenSlot {
    counted: [u64; COUNTS.len()],
    levels: Levels,
    step: i64,
    ids_per_second: f64,
    waits: WaitCounts,
    failures: Failures<KeptText>,
    reset_at: Option<WallTime>,
}

impl SeenSlot {
    fn of(slot: &Slot) -> Self {
        let state = slot.state.read();
        SeenSlot {
            counted: std::array::from_fn(|column| COUNTS[column].1(slot, &state)),
            levels: slot.buffer.levels(),
            step: state.step as i64,
            ids_per_second: slot.ids_per_second(&state, clock::monotonic()),
            reset_at: Some(state.reset_at),
            waits: slot.waits.counts(),
            failures: state.failures,
        }
    }

    /// The columns of [`COUNTS`].
    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let columns = COUNTS.iter().map(|(column, _)| *column);
        columns.zip(self.counted)
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

/// How often a tag can skip before it has no number left; nothing of tags that do not skip, and of
/// those of other roles.
fn leaf_failovers_left(call: Call<'_>) -> Option<i64> {
    let (tag, user) = (args::tag(call.text(0)), role::current());
    let is_owner = || permissions::of(tag, user).is_some_and(|it| it.is_owner);
    if process::in_recovery() || !role::is_monitor(user) && !is_owner() {
        return None;
    }
    let left = catalog::as_owner(|| alloc::failovers_left(tag))?;
    Some(i64::try_from(left).unwrap_or(i64::MAX))
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
        .with("worker_ids", scheme.layout.worker_ids() as i64)
        .with("epoch", scheme.epoch)
        .with("ceiling", lease.map(|lease| lease.ceiling))
        .with("last_issued_at", seen.last)
        .with("clock_lead_ms", lead_us.map(|us| us as f64 / 1e3))
        .with(
            "clock_offset_ms",
            lease.map(|_| seen.clock_offset_us as f64 / 1e3),
        )
        .with("rollbacks", seen.rollbacks)
        .with("runs_out_at", scheme.ends_at())
        .with("used_percent", used_time_percent(&scheme));
    with_common(record, seen.waits, &seen.failures, seen.reset_at)
}

/// How the loader fares with the centre. Its errors are shown in full here, and only here.
fn leaf_upstream_stats(_call: Call<'_>) -> Record {
    let contact = shmem::require().loaders.contact_of(database::current());
    let state = contact.map_or(ContactState::NEW, Contact::state);
    let host = state.host.get();
    Record::new()
        .with("host", (!host.is_empty()).then_some(host))
        .with("connected_since", contact.and_then(Contact::connected_at))
        .with("last_answer_at", state.answered_at)
        .with("feeds", state.feeds as i64)
        .with("ids_fed", state.numbers as i64)
        .with("failures", state.failed as i64)
        .with("last_error", state.failures.message())
        .with("last_error_at", state.failures.at())
}

/// How much of the time that the layout can express has passed.
fn used_time_percent(scheme: &Scheme) -> f64 {
    let us = |at: WallTime| at.us_after(scheme.epoch) as f64;
    (100.0 * us(clock::now()) / us(scheme.ends_at())).clamp(0.0, 100.0)
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
    reset_at: Option<WallTime>,
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
            rollbacks: slot
                .generator
                .rollbacks()
                .saturating_sub(state.rollbacks_at_reset) as i64,
            waits: slot.waits.counts(),
            failures: state.failures,
            reset_at: state.reset_at,
        }
    }
}

/// Adds the columns that both kinds of ids have.
fn with_common<T: Keep>(
    record: Record,
    waits: WaitCounts,
    failures: &Failures<T>,
    reset_at: Option<WallTime>,
) -> Record {
    record
        .with("stats_reset", reset_at)
        .with("waits", waits.waits)
        .with("total_wait_ms", waits.total_ms)
        .with("longest_wait_ms", waits.longest_ms)
        .with("timeouts", waits.timeouts)
        .with("last_error", failures.message())
        .with("last_error_at", failures.at())
}
