//! Over a clean shutdown: ids in memory wait in a file for the next start.
//!
//! When the postmaster ends after a clean shutdown, it writes what every slot
//! still holds, and how far every snowflake worker has come, to
//! `pg_stat_tmp/leaf.ranges` (a folder that base backups and `pg_rewind` leave
//! out), together with the place of the shutdown checkpoint. The next start
//! removes the file before anything can be drawn, and goes on from there only
//! if the control file shows that very checkpoint and nothing asks for recovery.
//! In every other case the ids are lost, never repeated: segments are granted
//! anew, and workers begin at their ceilings.

use std::fs;
use std::path::PathBuf;

use leaf_core::snowflake::Scheme;
use pgrx::{pg_guard, pg_sys};
use serde::{Deserialize, Serialize};

use crate::pg::control::{self, ControlFile};
use crate::pg::{self, worker};
use crate::settings;
use crate::shmem::index::KeyRef;
use crate::shmem::worker::{Lease, Registry};
use crate::shmem::{self, Shared, Slot, Worker};
use crate::snowflake::lease::{self, Leased};

/// The file's format; another one is not read.
const VERSION: u32 = 2;

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    system_identifier: u64,
    timeline: u32,
    checkpoint: u64,
    slots: Vec<SavedSlot>,
    workers: Vec<SavedWorker>,
}

#[derive(Serialize, Deserialize)]
struct SavedSlot {
    database: u32,
    catalog: u32,
    tag: Vec<u8>,
    high_water: i64,
    step: u64,
    /// First id and number of ids.
    ranges: Vec<(i64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct SavedWorker {
    database: u32,
    catalog: u32,
    layout: String,
    epoch_us: i64,
    worker: u64,
    nonce: [u8; 16],
    token: i64,
    ceiling_us: i64,
    /// The first instant of which no id was issued.
    next_us: i64,
}

fn path() -> PathBuf {
    control::data_directory()
        .join("pg_stat_tmp")
        .join("leaf.ranges")
}

/// In the postmaster, before any other process exists: takes up what the last
/// shutdown left, and arranges for the next one.
pub fn at_server_start(shared: &Shared, control_file: Option<&ControlFile>) {
    if pg::under_postmaster() {
        return;
    }
    if let Some(saved) = take_file(control_file) {
        for slot in &saved.slots {
            restore(shared, slot);
        }
        for worker in &saved.workers {
            restore_worker(shared, worker);
        }
    }
    worker::at_postmaster_exit(at_postmaster_exit);
}

/// Removes the file, and returns its content if it belongs to this start.
fn take_file(control_file: Option<&ControlFile>) -> Option<Saved> {
    let content = fs::read(path()).ok();
    if let Err(error) = control::remove_durably(&path()) {
        // It may come back after a crash: then its ids must not be used now.
        pg::log(&format!(
            "could not remove \"{}\": {error}",
            path().display()
        ));
        return None;
    }
    let saved: Saved = serde_json::from_slice(&content?).ok()?;
    let control_file = control_file?;
    let belongs = saved.version == VERSION
        && control_file.is_cleanly_shut_down()
        && saved.system_identifier == control_file.system_identifier
        && saved.timeline == control_file.timeline
        && saved.checkpoint == control_file.checkpoint
        && !control::recovery_is_requested();
    belongs.then_some(saved)
}

fn restore(shared: &Shared, saved: &SavedSlot) {
    if saved.tag.len() > shmem::slot::TAG_BYTES {
        return;
    }
    let key = KeyRef {
        database: saved.database,
        catalog: saved.catalog,
        tag: &saved.tag,
    };
    let Some(found) = shared.claim(key) else {
        return;
    };
    let slot = &shared.slots[found.number];
    let mut state = slot.state.exclusive();
    for &(first, len) in &saved.ranges {
        if len > 0 && first.checked_add_unsigned(len).is_some() {
            let _ = slot
                .buffer
                .publish(first, len, settings::prefetch_after(len));
        }
    }
    state.high_water = saved.high_water;
    state.step = saved.step;
    state.loaded_at = pg::monotonic_us();
}

fn restore_worker(shared: &Shared, saved: &SavedWorker) -> Option<()> {
    let scheme = Scheme {
        layout: saved.layout.parse().ok()?,
        epoch_us: saved.epoch_us,
    };
    let lease = Lease {
        worker: saved.worker,
        nonce: saved.nonce,
        token: saved.token,
        from_us: saved.next_us,
        ceiling_us: saved.ceiling_us,
    };
    let leased = Leased {
        lease,
        scheme,
        clock_offset_us: 0,
    };
    // Where something else is wanted now, a registration has to say whether
    // that can be had.
    let is_wanted = scheme == settings::snowflake::scheme()
        && settings::snowflake::worker_id().is_none_or(|worker| worker == lease.worker);
    if !is_wanted
        || lease.worker >= scheme.layout.workers()
        || !lease::may_begin(lease.from_us, pg::unix_us())
    {
        return None;
    }
    let worker = shared.claim_worker(Registry {
        database: saved.database,
        catalog: saved.catalog,
    })?;
    let mut state = worker.state.exclusive();
    state.scheme = Some(scheme);
    state.lease = Some(lease);
    lease::install(&worker.generator, None, &leased);
    Some(())
}

/// How far a worker has come.
fn saved_worker(registry: Registry, worker: &Worker) -> Option<SavedWorker> {
    let state = worker.state.exclusive();
    let (scheme, lease) = (state.scheme?, state.lease?);
    worker.generator.fence();
    Some(SavedWorker {
        database: registry.database,
        catalog: registry.catalog,
        layout: scheme.layout.to_string(),
        epoch_us: scheme.epoch_us,
        worker: lease.worker,
        nonce: lease.nonce,
        token: lease.token,
        ceiling_us: lease.ceiling_us,
        next_us: scheme.instant_of(worker.generator.last_tick(&scheme.layout) + 1),
    })
}

/// The postmaster's last act, after every other process has ended. It also runs
/// at an immediate shutdown and after a crash: the control file tells.
#[pg_guard]
unsafe extern "C-unwind" fn at_postmaster_exit(_code: i32, _argument: pg_sys::Datum) {
    let (Some(shared), Some(control_file)) = (shmem::shared(), ControlFile::read()) else {
        return;
    };
    if !control_file.is_cleanly_shut_down() {
        return;
    }
    let mut slots = Vec::new();
    for number in 0..shared.slots.len() {
        if let Some((key, _)) = shared.owner_of(number) {
            let (high_water, step, ranges) = take_rest(&shared.slots[number]);
            slots.push(SavedSlot {
                database: key.database,
                catalog: key.catalog,
                tag: key.tag,
                high_water,
                step,
                ranges,
            });
        }
    }
    let saved = Saved {
        version: VERSION,
        system_identifier: control_file.system_identifier,
        timeline: control_file.timeline,
        checkpoint: control_file.checkpoint,
        slots,
        workers: shared
            .all_workers()
            .into_iter()
            .filter_map(|(registry, worker)| saved_worker(registry, worker))
            .collect(),
    };
    let written = serde_json::to_vec(&saved)
        .map_err(std::io::Error::from)
        .and_then(|content| control::write_durably(&path(), &content));
    if let Err(error) = written {
        pg::log(&format!(
            "could not write \"{}\": {error}",
            path().display()
        ));
    }
}

fn take_rest(slot: &Slot) -> (i64, u64, Vec<(i64, u64)>) {
    let state = slot.state.exclusive();
    let ranges = slot
        .buffer
        .take_rest()
        .iter()
        .map(|run| (run.first, run.len))
        .collect();
    (state.high_water, state.step, ranges)
}
