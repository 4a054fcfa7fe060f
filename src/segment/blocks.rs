//! Blocks of ids for buffers outside the server: reserved through the loader; their
//! unused ends can be returned.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys::Oid;

use super::changes::{self, RowState};
use super::error::Error;
use super::granting::returning;
use super::key::key;
use super::{own_tags, tags};
use crate::catalog::{self, alloc};
use crate::error::{Error as CommonError, Problem};
use crate::patience::{Ids, Patience};
use crate::pg::{display, process, role, xact_end};
use crate::shmem::mailbox::{Answer, RequestId};
use crate::shmem::{self, Shared};

/// How many blocks of a tag a session records: a client has two buffers, and possibly
/// a block under way.
const REMEMBERED: usize = 4;

/// A block that this session has reserved.
struct Reserved {
    /// The role that reserved it. With a pooler, others use the session, too.
    role: Oid,
    incarnation: [u8; 16],
    first: i64,
    last: i64,
}

thread_local! {
    /// The last blocks of each tag. Only a block that is recorded here can be returned,
    /// because this proves that the session has reserved it.
    static RESERVED: RefCell<HashMap<Vec<u8>, Vec<Reserved>>> = RefCell::default();
    /// The request under way, which is withdrawn if the wait is interrupted.
    static REQUEST: Cell<Option<RequestId>> = const { Cell::new(None) };
}

fn remember(tag: &[u8], block: Reserved) {
    RESERVED.with_borrow_mut(|reserved| {
        let blocks = reserved.entry(tag.to_vec()).or_default();
        if blocks.len() == REMEMBERED {
            blocks.remove(0);
        }
        blocks.push(block);
    });
}

/// Removes the end of a block from the record. Returns whether it was the end of a block
/// that the role has reserved in this session.
fn forget(tag: &[u8], end: &Reserved) -> bool {
    RESERVED.with_borrow_mut(|reserved| {
        let Some(blocks) = reserved.get_mut(tag) else {
            return false;
        };
        let is_it = |block: &Reserved| {
            (block.role, block.incarnation) == (end.role, end.incarnation)
                && (block.first <= end.first && block.last == end.last)
        };
        let Some(at) = blocks.iter().position(is_it) else {
            return false;
        };
        match blocks[at].first == end.first {
            true => drop(blocks.remove(at)),
            false => blocks[at].last = end.first - 1,
        }
        true
    })
}

/// The first id of a block of `count` ids that are granted to this caller only.
pub fn reserve(tag: &[u8], count: u64) -> i64 {
    let patience = Patience::new(Ids::OfTag(tag));
    let shared = shmem::require();
    if process::in_recovery() {
        CommonError::InRecovery.raise();
    }
    loop {
        let role = role::current();
        let permissions = tags::require_draw(&tags::wait_until_readable(&patience), tag, role);
        match changes::state_of(tag) {
            RowState::Created => return own_tags::take_block(tag, count).first,
            RowState::Committed if !permissions.is_uncommitted => {}
            // The loader cannot lock a row whose last version was written by this
            // transaction.
            RowState::Committed | RowState::Changed => {
                Error::OwnChange { tag: display(tag) }.raise()
            }
        }
        let incarnation = permissions.incarnation;
        match ask_loader(shared, tag, incarnation, count, &patience) {
            Answer::Granted { first } => {
                let block = Reserved {
                    role,
                    incarnation,
                    first,
                    last: first + (count as i64 - 1),
                };
                remember(tag, block);
                return first;
            }
            Answer::Exhausted => Error::Exhausted { tag: display(tag) }.raise(),
            Answer::Changed => {}
        }
    }
}

/// Posts a request to the loader and waits for the answer.
fn ask_loader(
    shared: &Shared,
    tag: &[u8],
    incarnation: [u8; 16],
    count: u64,
    patience: &Patience<'_>,
) -> Answer {
    let (mailbox, key) = (&shared.mailbox, key(tag));
    let post = || mailbox.post(key, incarnation, count);
    let Some(id) = patience.wait_on(mailbox.room(), post, || {}) else {
        patience.give_up(Some("too many requests to the loader are under way".into()));
    };
    xact_end::involve();
    REQUEST.set(Some(id));
    let call_loader = || patience.call_loader(shared);
    let answer = patience.wait_on(mailbox.answered(id), || mailbox.collect(id), call_loader);
    let Some(answer) = answer else {
        let cause = mailbox.last_failure(id);
        withdraw();
        patience.give_up(cause);
    };
    REQUEST.set(None);
    answer
}

/// Withdraws the request of a statement that was cancelled or a session that ends, if
/// there is one.
pub fn withdraw() {
    if let (Some(id), Some(shared)) = (REQUEST.take(), shmem::get()) {
        shared.mailbox.withdraw(id);
    }
}

/// Takes back the unused end of a block that this session has reserved, from `first`
/// to `last`, if nothing was granted after it. Returns whether it was taken back.
pub fn give_back(tag: &[u8], first: i64, last: i64) -> bool {
    shmem::require();
    if process::in_recovery() {
        CommonError::InRecovery.raise();
    }
    let role = role::current();
    let patience = Patience::new(Ids::OfTag(tag));
    let permissions = tags::require_draw(&tags::wait_until_readable(&patience), tag, role);
    if changes::state_of(tag) != RowState::Committed {
        // The row may be rolled back, or belong to another tag.
        return false;
    }
    let end = Reserved {
        role,
        incarnation: permissions.incarnation,
        first,
        last,
    };
    catalog::as_owner(|| {
        let Some((position, _)) = alloc::lock_position(tag) else {
            return false;
        };
        let is_last = last.checked_add(1) == Some(position.max_id);
        if !is_last || !forget(tag, &end) {
            return false;
        }
        returning(|| alloc::set_position(tag, first));
        true
    })
}
