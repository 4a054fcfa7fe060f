//! Saving the contents of slots over a clean restart.

use leaf_core::grant::Grantor;
use leaf_core::time::Monotonic;
use leaf_core::{Run, tag};
use serde::{Deserialize, Serialize};

use crate::pg::clock;
use crate::settings::segment as settings;
use crate::shmem::Shared;
use crate::shmem::index::Claim;
use crate::shmem::key::KeyRef;
use crate::shmem::slot::Slot;

/// A slot's unused ids, and what the loader has recorded about the tag.
#[derive(Serialize, Deserialize)]
pub struct SavedSlot {
    database: u32,
    catalog: u32,
    tag: Vec<u8>,
    incarnation: [u8; 16],
    high_water: i64,
    step: u64,
    /// First id and number of ids.
    ranges: Vec<(i64, u64)>,
}

/// Takes the contents of all slots. No session draws any more.
pub fn save(shared: &Shared) -> Vec<SavedSlot> {
    let numbers = 0..shared.index.len();
    let saved = numbers.filter_map(|number| {
        let (key, found) = shared.index.owner_of(number)?;
        let slot = shared.index.slot(number);
        let state = slot.state.write();
        if state.grantor == Grantor::Centre {
            // A copy of the data directory would hand out the same ids.
            return None;
        }
        Some(SavedSlot {
            database: key.database,
            catalog: key.catalog,
            tag: key.tag,
            incarnation: found.incarnation,
            high_water: state.high_water,
            step: state.step,
            ranges: take_rest(slot),
        })
    });
    saved.collect()
}

fn take_rest(slot: &Slot) -> Vec<(i64, u64)> {
    let rest = slot.buffer.take_rest();
    rest.iter().map(|run| (run.first, run.len)).collect()
}

/// Restores the contents of a slot. No session draws yet.
pub fn restore(shared: &Shared, saved: &SavedSlot) {
    if saved.tag.len() > tag::MAX_BYTES {
        return;
    }
    let key = KeyRef {
        database: saved.database,
        catalog: saved.catalog,
        tag: &saved.tag,
    };
    let since = Monotonic::ZERO;
    let claim = (shared.index).claim(key, saved.incarnation, since, &shared.leftovers);
    let Claim::Slot(found, _) = claim else {
        return;
    };
    let slot = shared.index.slot(found.number);
    let mut state = slot.state.write();
    for &(first, len) in &saved.ranges {
        if len > 0 && first.checked_add_unsigned(len).is_some() {
            let prefetch_after = settings::prefetch_after(len);
            let _ = slot.publish(&mut state, Run { first, len }, prefetch_after);
        }
    }
    state.high_water = saved.high_water;
    state.step = saved.step;
    state.loaded_at = clock::monotonic();
}
