//! Blocks of ids for buffers elsewhere: `leaf_segment_reserve`, and what was not
//! used of them: `leaf_segment_return`.

use std::cell::RefCell;
use std::collections::HashMap;

use pgrx::pg_sys::Oid;

use super::segment::{bad_argument, checked, checked_count};
use crate::catalog;
use crate::error::{Error, Ids};
use crate::patience::Patience;
use crate::pg::call::{Datum, v1_function};
use crate::pg::{self, args, role};
use crate::session;
use crate::shmem::mailbox::Answer;
use crate::transaction;

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

/// Forgets the end of a block from `first` on; whether the role had reserved it in
/// this session.
fn forget(tag: &[u8], role: Oid, incarnation: [u8; 16], first: i64, last: i64) -> bool {
    RESERVED.with_borrow_mut(|reserved| {
        let Some(blocks) = reserved.get_mut(tag) else {
            return false;
        };
        let is_it = |block: &Reserved| {
            (block.role, block.incarnation) == (role, incarnation)
                && (block.first <= first && block.last == last)
        };
        let Some(at) = blocks.iter().position(is_it) else {
            return false;
        };
        match blocks[at].first == first {
            true => drop(blocks.remove(at)),
            false => blocks[at].last = first - 1,
        }
        true
    })
}

v1_function! {
    /// A block of consecutive ids.
    ///
    /// # Safety
    /// Called by PostgreSQL as a strict function of a `text` and a `bigint` that
    /// returns a record of three `bigint`s.
    fn leaf_segment_reserve(call) {
        let tag = checked(args::text(call.arg(0)));
        let count = call.arg(1).value() as i64;
        let first = reserve(tag, checked_count(count));
        call.record([first, first + (count - 1), 1].map(Datum::from))
    }
}

/// The first id of a block of `count` ids that nobody else gets.
fn reserve(tag: &[u8], count: u64) -> i64 {
    let patience = Patience::new();
    let shared = session::shared();
    if pg::in_recovery() {
        Error::InRecovery.raise();
    }
    loop {
        let readable = session::wait_until_readable(tag, &patience);
        let permissions = session::may_draw(tag, role::current());
        drop(readable);
        if transaction::has_created(tag) {
            return transaction::take_block(tag, count).first;
        }
        // The loader cannot have a row of which this transaction has the last version.
        if transaction::has_changed(tag) || permissions.is_own_version {
            Error::OwnChange {
                tag: catalog::display(tag),
            }
            .raise();
        }
        let key = session::owned_key(tag);
        let ticket = shared.mail.room().wait_for(
            || {
                let ticket = shared.post(&key, permissions.incarnation, count);
                ticket
                    .map(Some)
                    .or_else(|| patience.is_over().then_some(None))
            },
            || patience.next_nap(),
        );
        let Some(ticket) = ticket else {
            patience.give_up(
                Ids::of(tag),
                Some("all requests to the loader are taken".into()),
            );
        };
        transaction::set_request(Some(ticket));
        let answer = shared.mail.answered(ticket).wait_for(
            || {
                let answer = shared.collect(ticket);
                if answer.is_none() && !patience.is_over() {
                    patience.call_loader();
                    return None;
                }
                Some(answer)
            },
            || patience.next_nap(),
        );
        let trouble = shared.trouble(ticket);
        match answer {
            Some(_) => transaction::set_request(None),
            None => transaction::withdraw_request(),
        }
        match answer {
            Some(Answer::Granted { first }) => {
                let block = Reserved {
                    role: role::current(),
                    incarnation: permissions.incarnation,
                    first,
                    last: first + (count as i64 - 1),
                };
                remember(tag, block);
                return first;
            }
            Some(Answer::Exhausted) => Error::Exhausted {
                tag: catalog::display(tag),
            }
            .raise(),
            Some(Answer::Changed) => continue,
            None => patience.give_up(Ids::of(tag), trouble),
        }
    }
}

v1_function! {
    /// Takes back the unused end of a block, if nothing was granted behind it.
    ///
    /// # Safety
    /// Called by PostgreSQL as a strict function of a `text` and two `bigint`s.
    fn leaf_segment_return(call) {
        let tag = checked(args::text(call.arg(0)));
        let (first, last) = (call.arg(1).value() as i64, call.arg(2).value() as i64);
        if last < first {
            bad_argument(
                format!("last_id {last} is less than first_id {first}"),
                "Give the first and the last id of the unused end of a block.",
            );
        }
        Datum::from(give_back(tag, first, last))
    }
}

fn give_back(tag: &[u8], first: i64, last: i64) -> bool {
    session::shared();
    if pg::in_recovery() {
        Error::InRecovery.raise();
    }
    let role = role::current();
    let permissions = session::may_draw(tag, role);
    if transaction::has_changed(tag) {
        // Its rows may be rolled back, or are another tag's.
        return false;
    }
    catalog::as_owner(|| {
        let Some((position, _)) = catalog::lock_position(tag) else {
            return false;
        };
        let is_last = last.checked_add(1) == Some(position.max_id);
        if !is_last || !forget(tag, role, permissions.incarnation, first, last) {
            return false;
        }
        transaction::returning(|| catalog::set_position(tag, first));
        true
    })
}
