//! Tags of several clusters: a tag that is fed gets its ids from a tag of the centre. Here a tag
//! becomes one, and the centre gives numbers to those of its shards.

use leaf_core::Run;
use leaf_core::grant::{Decision, Grantor, Wanted};

use super::changes::{self, RowState};
use super::error::{Error, Refusal};
use super::key::key;
use super::line::{self, Line};
use super::permissions;
use crate::asking;
use crate::catalog::{self, alloc};
use crate::error::{Error as CommonError, Problem};
use crate::patience::{Ids, Patience};
use crate::pg::{display, process, replication, role};
use crate::settings::upstream as settings;
use crate::shmem;
use crate::shmem::mailbox::{Answer, Asked};
use crate::shmem::text::Text;
use crate::shmem::upstream::{Demand, Denial, Reply};

/// Attaches a tag to a tag of the centre, whose name is in UTF-8 and in the database's
/// encoding.
pub fn attach(tag: &[u8], upstream_tag: &[u8], upstream_name: &str) {
    let patience = Patience::new(Ids::OfTag(tag));
    let found = ask(upstream_name, &patience);
    let (position, incarnation) =
        found.unwrap_or_else(|denial| Error::of_denial(display(tag), denial).raise());
    catalog::as_owner(|| {
        let Some(Line { row, .. }) = line::lock(tag) else {
            Error::NoSuchTag { tag: display(tag) }.raise();
        };
        if row.position.numbers.stripe().width().is_some() {
            Refusal::StripeOfCentre.raise(tag);
        }
        if row.incarnation == incarnation {
            Error::FedByItself { tag: display(tag) }.raise();
        }
        let max_id = row.position.max_id;
        if position < max_id {
            Error::CentreBehind {
                tag: display(tag),
                upstream_tag: display(upstream_tag),
                max_id,
            }
            .raise();
        }
        alloc::attach(tag, upstream_tag, incarnation);
    });
}

/// Asks the centre where its tag stands, and for the tag's identity.
fn ask(tag: &str, patience: &Patience<'_>) -> Result<(i64, [u8; 16]), Denial> {
    let demand = Demand::Numbers {
        tag: Text::of(tag),
        count: 0,
        exact: false,
    };
    match asking::ask_centre(&demand, patience)? {
        Reply::Granted { run, incarnation } => Ok((run.first, incarnation)),
        Reply::Leased { .. } | Reply::Renewed { .. } => Err(Denial::Refused),
    }
}

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
