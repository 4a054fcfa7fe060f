//! Has the loader lease a worker id to another node.

use super::own_lease;
use crate::catalog::{self, relation};
use crate::lease::{Leased, registration};
use crate::pg::database;
use crate::session::asking;
use crate::session::patience::{Ids, Patience};
use crate::settings::snowflake as settings;
use crate::shmem;
use crate::shmem::key::KeyRef;
use crate::shmem::mailbox::{Answer, LoaderRequest, Registration};

/// Leases a worker id to a node.
pub fn register(node: &Registration) -> Leased {
    shmem::require();
    asking::require_grants();
    if own_lease::registry_of_this_session().is_some() {
        // No loader sees the registry.
        let wanted = settings::wanted();
        let leased = catalog::as_owner(|| registration::register_nodes(&[node], &wanted)).pop();
        let leased = leased.expect("one outcome for each node");
        return leased.unwrap_or_else(|error| error.raise());
    }
    let key = KeyRef {
        database: database::current(),
        catalog: relation::require_alloc().to_u32(),
        tag: b"",
    };
    let patience = Patience::new(Ids::Snowflake);
    loop {
        match asking::ask_loader(key, [0; 16], LoaderRequest::WorkerId(*node), &patience) {
            Answer::Leased { lease, scheme } => {
                return Leased {
                    lease,
                    scheme,
                    clock_offset_us: 0,
                };
            }
            Answer::Refused(refusal) => refusal.report().raise(),
            _ => {}
        }
    }
}
