//! Making a tag fed: its ids come from a tag of the centre from then on.

use std::cell::Cell;

use super::error::Error;
use super::line::{self, Line};
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::link::call::call_link;
use crate::patience::{Ids, Patience};
use crate::pg::{display, xact_end};
use crate::settings::upstream as upstream_settings;
use crate::shmem;
use crate::shmem::text::Text;
use crate::shmem::upstream::{Answer, Demand, DemandId, Reply, Unfed};

thread_local! {
    static IS_ATTACHING: Cell<bool> = const { Cell::new(false) };
    /// The request under way, which is withdrawn if the wait is interrupted.
    static REQUEST: Cell<Option<DemandId>> = const { Cell::new(None) };
}

/// Whether an update that fires a trigger may change where a tag's ids come from.
pub fn is_attaching() -> bool {
    IS_ATTACHING.get()
}

/// Attaches a tag to a tag of the centre, whose name is in UTF-8 and in the database's
/// encoding.
pub fn attach(tag: &[u8], upstream_tag: &[u8], upstream_name: &str) {
    let patience = Patience::new(Ids::OfTag(tag));
    let found = ask(upstream_name, &patience);
    let (position, incarnation) =
        found.unwrap_or_else(|unfed| Error::of_unfed(display(tag), unfed).raise());
    catalog::as_owner(|| {
        let Some(Line { row, .. }) = line::lock(tag) else {
            Error::NoSuchTag { tag: display(tag) }.raise();
        };
        if row.position.numbers.stripe().width().is_some() {
            Error::FedAndStriped { tag: display(tag) }.raise();
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
        attach_row(|| alloc::attach(tag, upstream_tag, incarnation));
    });
}

fn attach_row(work: impl FnOnce()) {
    struct Scope;
    impl Drop for Scope {
        fn drop(&mut self) {
            IS_ATTACHING.set(false);
        }
    }
    IS_ATTACHING.set(true);
    // Also ends with an error, because an error unwinds.
    let _scope = Scope;
    work();
}

/// Asks the centre where its tag stands, and for the tag's identity.
fn ask(tag: &str, patience: &Patience<'_>) -> Result<(i64, [u8; 16]), Unfed> {
    let shared = shmem::require();
    if upstream_settings::upstream().is_none() {
        // The link would count that as a failure of the centre.
        return Err(Unfed::NoUpstream);
    }
    let demand = Demand::Feed {
        tag: Text::of(tag),
        count: 0,
        exact: false,
    };
    let Some(id) = shared.upstream.post(&demand) else {
        return Err(Unfed::Away);
    };
    xact_end::involve();
    REQUEST.set(Some(id));
    let answer = wait(id, patience);
    withdraw();
    match answer? {
        Reply::Fed { run, incarnation } => Ok((run.first, incarnation)),
        Reply::Leased { .. } | Reply::Renewed { .. } => Err(Unfed::Refused),
    }
}

fn wait(id: DemandId, patience: &Patience<'_>) -> Answer {
    let shared = shmem::require();
    loop {
        if let Some(answer) = shared.upstream.collect(id) {
            return answer;
        }
        if !call_link(shared) || patience.is_over() {
            return Err(Unfed::Away);
        }
        patience.nap();
    }
}

/// Withdraws the request of a statement that was cancelled or a session that ends, if there is
/// one.
pub fn withdraw() {
    if let (Some(id), Some(shared)) = (REQUEST.take(), shmem::get()) {
        shared.upstream.withdraw(id);
    }
}
