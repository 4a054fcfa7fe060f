//! Blocks of ids for buffers elsewhere: reserved through the loader, and taken back
//! as far as they were not used.

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

/// How many blocks of a tag a session remembers: a client has two buffers, and
/// perhaps a block under way.
const REMEMBERED: usize = 4;

/// A block that this session has reserved.
struct Reserved {
    /// By whom: a pooler lets others use the session, too.
    role: Oid,
    incarnation: [u8; 16],
    first: i64,
    last: i64,
}

thread_local! {
    /// The last blocks of each tag. That a session remembers a block proves that
    /// the block is its own to return.
    static RESERVED: RefCell<HashMap<Vec<u8>, Vec<Reserved>>> = RefCell::default();
    /// The request under way, to be withdrawn if the wait is cut short.
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

/// Forgets the end of a block; whether that was the end of a block that the role had
/// reserved in this session.
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

/// The first id of a block of `count` ids that nobody else gets.
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
            // The loader cannot have a row of which this transaction has the last
            // version.
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

/// Withdraws the request that a cancelled statement or an ending session left.
pub fn withdraw() {
    if let (Some(id), Some(shared)) = (REQUEST.take(), shmem::get()) {
        shared.mailbox.withdraw(id);
    }
}

/// Takes back the unused end of a block that this session has reserved, from `first`
/// to `last`, if nothing was granted behind it; whether it did.
pub fn give_back(tag: &[u8], first: i64, last: i64) -> bool {
    shmem::require();
    if process::in_recovery() {
        CommonError::InRecovery.raise();
    }
    let role = role::current();
    let patience = Patience::new(Ids::OfTag(tag));
    let permissions = tags::require_draw(&tags::wait_until_readable(&patience), tag, role);
    if changes::state_of(tag) != RowState::Committed {
        // Its rows may be rolled back, or are another tag's.
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
