//! The centre's side of fed tags: numbers for tags of other clusters.

use leaf_core::Run;
use leaf_core::grant::{Decision, Grantor, Wanted};

use super::changes::{self, RowState};
use super::error::{Error, Refusal};
use super::key::key;
use super::permissions;
use crate::asking;
use crate::catalog::{self, alloc};
use crate::error::{Error as CommonError, Problem};
use crate::patience::{Ids, Patience};
use crate::pg::{display, process, replication, role};
use crate::settings::upstream as settings;
use crate::shmem;
use crate::shmem::mailbox::{Answer, Asked};

/// Numbers for a tag of another cluster, and the identity of the tag here. With `count` 0, no
/// numbers: the run begins where the tag stands.
pub fn feed(tag: &[u8], count: u64, exact: bool) -> (Run, [u8; 16]) {
    shmem::require();
    if process::in_recovery() {
        CommonError::InRecovery.raise();
    }
    let patience = Patience::new(Ids::OfTag(tag));
    loop {
        let readable = permissions::wait_until_readable(&patience);
        let permissions = permissions::require_draw(&readable, tag, role::current());
        if permissions.grantor == Grantor::Centre {
            Refusal::IsFed.raise(tag);
        }
        if !replication::has_synchronous_standby() && !settings::allow_unreplicated_centre() {
            Error::Unreplicated.raise();
        }
        // The ids of a tag that is not committed die with it.
        if permissions.is_uncommitted || changes::state_of(tag) != RowState::Committed {
            Error::OwnChange { tag: display(tag) }.raise();
        }
        let incarnation = permissions.incarnation;
        if count == 0 {
            let position = catalog::as_owner(|| alloc::position(tag));
            let Some(position) = position else { continue };
            let (first, len) = (position.max_id, 0);
            return (Run { first, len }, incarnation);
        }
        match asking::ask_loader(
            key(tag),
            incarnation,
            Asked::Grant(Wanted::Feed { count, exact }),
            &patience,
        ) {
            Answer::Decided(Decision::Granted { run, .. }) => return (run, incarnation),
            Answer::Decided(Decision::Exhausted) => Error::Exhausted { tag: display(tag) }.raise(),
            Answer::Decided(Decision::MayLackFeeds) => Refusal::MayLackFeeds.raise(tag),
            _ => {}
        }
    }
}
