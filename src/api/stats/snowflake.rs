//! The database's snowflake worker, as the view `leaf.stat_snowflake` shows it.

use std::sync::atomic::Ordering;

use pgrx::datum::TimestampWithTimeZone;
use pgrx::iter::TableIterator;
use pgrx::name;
use pgrx::prelude::*;

use crate::pg;
use crate::shmem::Worker;
use crate::shmem::slot::LastError;
use crate::shmem::worker::Lease;
use crate::snowflake;

// One row, whether or not the database has a worker yet.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn leaf_snowflake_stats() -> TableIterator<
    'static,
    (
        name!(worker_id, Option<i32>),
        name!(layout, String),
        name!(epoch, Option<TimestampWithTimeZone>),
        name!(ceiling, Option<TimestampWithTimeZone>),
        name!(last_issued_at, Option<TimestampWithTimeZone>),
        name!(clock_lead_ms, Option<f64>),
        name!(clock_offset_ms, Option<f64>),
        name!(rollbacks, i64),
        name!(waits, i64),
        name!(longest_wait_ms, f64),
        name!(timeouts, i64),
        name!(runs_out_at, Option<TimestampWithTimeZone>),
        name!(last_error, Option<String>),
        name!(last_error_at, Option<TimestampWithTimeZone>),
    ),
> {
    let scheme = snowflake::scheme();
    let worker = snowflake::worker();
    let seen = worker.map(observe).unwrap_or_default();
    let waits = worker.map(|worker| &worker.waits);
    let count = |counter: fn(&crate::shmem::slot::Waits) -> u64| waits.map_or(0, counter);
    // Until its first id, a generator stands before the beginning of its lease.
    let last_us = seen.lease.and_then(|lease| {
        let last_us = scheme.instant_of(worker?.generator.last_tick(&scheme.layout));
        (last_us >= lease.from_us).then_some(last_us)
    });
    let row = (
        seen.lease.map(|lease| lease.worker as i32),
        scheme.layout.to_string(),
        at(scheme.epoch_us),
        seen.lease.and_then(|lease| at(lease.ceiling_us)),
        last_us.and_then(at),
        last_us.map(|last_us| last_us.saturating_sub(pg::unix_us()) as f64 / 1e3),
        seen.lease.map(|_| seen.clock_offset_us as f64 / 1e3),
        worker.map_or(0, |worker| worker.generator.rollbacks()) as i64,
        count(|waits| waits.count.load(Ordering::Relaxed)) as i64,
        count(|waits| waits.longest_us.load(Ordering::Relaxed)) as f64 / 1e3,
        count(|waits| waits.timeouts.load(Ordering::Relaxed)) as i64,
        at(scheme.ends_at()),
        seen.error.message(),
        seen.error
            .message()
            .and_then(|_| at(pg::to_unix_us(seen.error.at))),
    );
    TableIterator::once(row)
}

/// What is known of the lease, copied under its lock.
#[derive(Default)]
struct Seen {
    lease: Option<Lease>,
    clock_offset_us: i64,
    error: LastError,
}

fn observe(worker: &'static Worker) -> Seen {
    let state = worker.state.shared();
    Seen {
        lease: state.lease,
        clock_offset_us: state.clock_offset_us,
        error: state.error,
    }
}

fn at(us: i64) -> Option<TimestampWithTimeZone> {
    TimestampWithTimeZone::try_from(pg::from_unix_us(us)).ok()
}
