//! Single-user mode: no loader, no other session.
//!
//! The session grants to itself by ordinary updates, as for a tag that its transaction
//! has created. A rollback undoes such an update although its ids may have been seen.
//! The highest id of a transaction that was rolled back is therefore kept, later grants
//! start above it, and the rows are moved past it when the process ends.

use std::cell::Cell;
use std::collections::HashMap;

use pgrx::{pg_guard, pg_sys};

use super::key::key;
use super::own_tags::{self, Own};
use super::{error::Error, line};
use crate::catalog::intent::Move;
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::history;
use crate::pg::{self, display, own_xact, process, xact};
use crate::shmem::Shared;

thread_local! {
    static IS_REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Makes the current transaction grant ids of the tag to itself. Ids that are already in
/// memory are dropped, because later ones must be larger.
pub fn adopt(shared: &Shared, tag: &[u8]) {
    if !IS_REGISTERED.replace(true) {
        process::before_exit(at_exit);
    }
    match own_tags::state_of(tag) {
        Own::No => {}
        Own::Drawn => return,
        Own::Renamed => Error::OwnChange { tag: display(tag) }.raise(),
    }
    shared.index.with(key(tag), |slot| slot.drop_ids());
    own_tags::adopt(tag, own_tags::high_water(tag));
}

#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _argument: pg_sys::Datum) {
    // A transaction that is still open at the end of input is rolled back first.
    xact::abort_any();
    let seen = own_tags::take_undone();
    if seen.is_empty() {
        return;
    }
    let outcome = own_xact::run(|| catalog::as_owner(|| raise_rows(&seen)), |(), _| {});
    if let Err(failure) = outcome {
        pg::log(&format!(
            "could not store the positions of tags: {}",
            failure.message
        ));
    }
}

fn raise_rows(seen: &HashMap<Vec<u8>, i64>) {
    let history = history::current();
    for (tag, &high_water) in seen {
        if let Some(line) = line::lock(tag)
            && line.stored < high_water
        {
            let to = Move {
                to: high_water,
                takes_back: false,
            };
            alloc::set_position(tag, to, &history, history::may_lack_grants());
        }
    }
}
