//! Saving the positions of generators over a clean restart.

use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use serde::{Deserialize, Serialize};

use crate::lease::{self, Leased};
use crate::pg::clock;
use crate::settings::snowflake::LeaseSettings;
use crate::settings::upstream::CentreDigest;
use crate::shmem::Shared;
use crate::shmem::generators::{GeneratorSlot, Lease, Registry};

/// A generator's lease, and the first instant for which it has issued no id.
#[derive(Serialize, Deserialize)]
pub struct SavedLease {
    database: u32,
    catalog: u32,
    layout: String,
    epoch: WallTime,
    worker_id: u64,
    nonce: [u8; 16],
    token: i64,
    ceiling: WallTime,
    next: WallTime,
    /// The requirements of the settings: worker id, layout, epoch and centre.
    wanted: (Option<u64>, String, WallTime, CentreDigest),
}

/// Ends all generators and returns their positions.
pub fn save(shared: &Shared) -> Vec<SavedLease> {
    let generators = shared.generators.all().into_iter();
    generators
        .filter_map(|(registry, slot)| save_one(registry, slot))
        .collect()
}

fn save_one(registry: Registry, slot: &GeneratorSlot) -> Option<SavedLease> {
    let state = slot.state.write();
    let (scheme, lease, (wanted, _)) = (state.scheme?, state.lease?, state.looked?);
    if lease.ceiling <= clock::now() {
        // Nobody has drawn lately, and without a higher ceiling nobody could.
        return None;
    }
    slot.generator.fence();
    let next = slot.generator.last_tick(&scheme.layout) + 1;
    Some(SavedLease {
        database: registry.database,
        catalog: registry.catalog,
        layout: scheme.layout.to_string(),
        epoch: scheme.epoch,
        worker_id: lease.worker_id,
        nonce: lease.nonce,
        token: lease.token,
        ceiling: lease.ceiling,
        next: scheme.instant_of(next),
        wanted: (
            wanted.worker_id,
            wanted.scheme.layout.to_string(),
            wanted.scheme.epoch,
            wanted.centre,
        ),
    })
}

/// Continues with a lease. Sessions for which the settings have changed have the loader look.
pub fn restore(shared: &Shared, saved: &SavedLease) {
    let (worker_id, layout, epoch, centre) = &saved.wanted;
    let (Some(scheme), Some(wanted)) = (
        scheme_of(&saved.layout, saved.epoch),
        scheme_of(layout, *epoch),
    ) else {
        return;
    };
    let wanted = LeaseSettings {
        worker_id: *worker_id,
        scheme: wanted,
        centre: *centre,
    };
    let lease = Lease {
        worker_id: saved.worker_id,
        nonce: saved.nonce,
        token: saved.token,
        from: saved.next,
        ceiling: saved.ceiling,
    };
    if lease.worker_id >= scheme.layout.worker_ids() || !lease::may_begin(lease.from, clock::now())
    {
        return;
    }
    let registry = Registry {
        database: saved.database,
        catalog: saved.catalog,
    };
    if let Some(slot) = shared.generators.claim(registry) {
        let mut state = slot.state.write();
        state.scheme = Some(scheme);
        state.lease = Some(lease);
        state.looked = Some((wanted, 0));
        let leased = Leased {
            lease,
            scheme,
            clock_offset_us: 0,
        };
        lease::install(&slot.generator, None, &leased);
    }
}

fn scheme_of(layout: &str, epoch: WallTime) -> Option<Scheme> {
    let layout = layout.parse().ok()?;
    Some(Scheme { layout, epoch })
}
