//! Blocks of ids for buffers outside the server. Both reserving a block and returning its
//! unused end are done by the loader, and change nothing in the caller's transaction.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use leaf_core::Run;
use leaf_core::grant::{Decision, GrantRequest};
use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::Oid;

use super::changes::{self, RowState};
use super::key::key;
use super::patience::{Ids, Patience};
use super::{asking, error, frontier, own_grants, permissions, tags};
use crate::catalog::permissions::Permissions;
use crate::error::Report;
use crate::pg::{display, role};
use crate::shmem;
use crate::shmem::mailbox::{Answer, Ask, LoaderRequest};

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

/// The first id of a block of `count` ids that are granted to this caller only. With an
/// `incarnation`, only from the row that has it.
pub fn reserve(tag: &[u8], count: u64, incarnation: Option<[u8; 16]>) -> i64 {
    let patience = Patience::new(Ids::OfTag(tag));
    loop {
        let permissions = require_draw(tag, &patience);
        let required = incarnation.unwrap_or(permissions.incarnation);
        if required != permissions.incarnation {
            // When: the incarnation that was given is not that of the tag
            Report::not_ready(
                format!("tag \"{}\" was dropped and re-created", display(tag)),
                "Discard its unused ids, and get the new incarnation from leaf_tag_incarnation.",
            )
            .raise();
        }
        if let Some(width) = permissions.stripe_width
            && count > width
        {
            let tag = display(tag);
            // When: `leaf_segment_reserve` from a tag with a stripe
            Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("a block of tag \"{tag}\" has at most {width} ids, not {count}"),
                "Reserve several blocks: a stripe's numbers are consecutive only within a block of stripe_width.",
            )
            .raise();
        }
        match changes::state_of(tag) {
            RowState::Created => return own_grants::take_block(tag, count).first,
            RowState::Committed if !permissions.is_uncommitted => {}
            // The loader cannot lock a row whose last version was written by this
            // transaction.
            RowState::Committed | RowState::Changed => tags::no_ids_here(tag, &permissions),
        }
        match asking::ask_loader(
            key(tag),
            required,
            LoaderRequest::Grant(GrantRequest::Block { count }),
            &patience,
        ) {
            Answer::Decided(Decision::Granted {
                run: Run { first, .. },
                ..
            }) => {
                let block = Reserved {
                    role: role::current(),
                    incarnation: required,
                    first,
                    last: first + (count as i64 - 1),
                };
                remember(tag, block);
                return first;
            }
            Answer::Decided(Decision::Exhausted) => frontier::exhausted(tag).raise(),
            Answer::Denied(denial) => error::of_denial(tag, denial).raise(),
            _ => {}
        }
    }
}

/// The row's permissions, which allow the current role to draw; an error if they do not.
fn require_draw(tag: &[u8], patience: &Patience<'_>) -> Permissions {
    shmem::require();
    asking::require_grants();
    permissions::require_draw(
        &permissions::wait_until_readable(patience),
        tag,
        role::current(),
    )
}

/// The incarnation of a tag that the current role may draw from.
pub fn incarnation(tag: &[u8]) -> [u8; 16] {
    require_draw(tag, &Patience::new(Ids::OfTag(tag))).incarnation
}

/// Takes back the unused end of a block that this session has reserved, if nothing was
/// granted after it. Returns whether it was taken back. After an error, whether it was is
/// not known; the session cannot return it again.
pub fn give_back(tag: &[u8], unused: Run) -> bool {
    let patience = Patience::new(Ids::OfTag(tag));
    let permissions = require_draw(tag, &patience);
    let Some(request) = take_back(tag, unused, &permissions) else {
        return false;
    };
    let answer = asking::ask_loader(key(tag), permissions.incarnation, request, &patience);
    answer == TAKEN_BACK
}

/// As [`give_back`], of several blocks, in their order. What cannot be taken back, or not in time,
/// is passed over.
pub fn give_back_all(unused: &[Option<(&[u8], Run)>]) -> Vec<bool> {
    let mut taken = vec![false; unused.len()];
    let Some((first, _)) = unused.iter().flatten().next() else {
        return taken;
    };
    let patience = Patience::new(Ids::OfTag(first));
    shmem::require();
    asking::require_grants();
    let readable = permissions::wait_until_readable(&patience);
    let user = role::current();
    let (mut places, mut asks) = (Vec::new(), Vec::new());
    for (place, unused) in unused.iter().enumerate() {
        if let Some((tag, unused)) = *unused
            && let Ok(permissions) = permissions::find_to_draw(&readable, tag, user)
            && let Some(request) = take_back(tag, unused, &permissions)
        {
            places.push(place);
            asks.push(Ask::of(key(tag), permissions.incarnation, request));
        }
    }
    // The loader may have to wait for somebody who waits for the lock that this holds.
    drop(readable);
    let mut answers = Vec::with_capacity(asks.len());
    while answers.len() < asks.len() {
        let left = &asks[answers.len()..];
        answers.extend(asking::ask_loader_all(left, &patience, Duration::MAX));
    }
    for (place, answer) in places.into_iter().zip(answers) {
        taken[place] = answer == Ok(TAKEN_BACK);
    }
    taken
}

const TAKEN_BACK: Answer = Answer::Decided(Decision::TakenBack);

/// The request to take ids back, if they are of a block that the session has reserved, which is
/// forgotten: once the loader has the request, the ids may be granted again, even if this session
/// does not get the answer.
fn take_back(tag: &[u8], unused: Run, permissions: &Permissions) -> Option<LoaderRequest> {
    if permissions.is_uncommitted || changes::state_of(tag) != RowState::Committed {
        // The row may be rolled back, or belong to another tag.
        return None;
    }
    let end = Reserved {
        role: role::current(),
        incarnation: permissions.incarnation,
        first: unused.first,
        last: unused.last(),
    };
    forget(tag, &end).then_some(LoaderRequest::Grant(GrantRequest::TakeBack { unused }))
}
