//! Asking the loader, and waiting for the answer.

use std::cell::RefCell;
use std::time::Duration;

use super::patience::Patience;
use crate::error::Report;
use crate::pg::{process, xact_end};
use crate::shmem::key::KeyRef;
use crate::shmem::mailbox::{Answer, Ask, LoaderRequest};
use crate::shmem::requests::Id;
use crate::shmem::{self, Shared};

thread_local! {
    /// The requests under way, which are withdrawn if the wait is interrupted.
    static UNDER_WAY: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
}

/// Raises an error where nothing is granted: in recovery, and in single-user mode.
pub fn require_grants() {
    if process::in_recovery() {
        crate::error::in_recovery().raise();
    }
    if !process::under_postmaster() {
        // When: a draw or a registration there, where no loader grants
        Report::not_ready(
            "cannot draw ids in single-user mode",
            "Start the server, and draw them in one of its sessions.",
        )
        .raise();
    }
}

/// Posts a request to the loader and waits for the answer.
pub fn ask_loader(
    key: KeyRef<'_>,
    incarnation: [u8; 16],
    asked: LoaderRequest,
    patience: &Patience<'_>,
) -> Answer {
    let ask = Ask::of(key, incarnation, asked);
    let answer = ask_loader_all(&[ask], patience, Duration::MAX).pop();
    match answer.expect("at least one was posted") {
        Ok(answer) => answer,
        Err(cause) => patience.give_up(cause),
    }
}

/// Posts requests to the loader, as many of them as there is room for, the first ones, and waits
/// for the answers. Instead of an answer that did not come in time, there is what the loader has
/// failed at, if it has. With a failure, `if_failed` is enough time.
pub fn ask_loader_all(
    asks: &[Ask],
    patience: &Patience<'_>,
    if_failed: Duration,
) -> Vec<Result<Answer, Option<String>>> {
    let shared = shmem::require();
    let ids = loop {
        match shared.mailbox.post_of_session(asks) {
            ids if ids.is_empty() => {
                patience.nap_or_give_up("too many requests to the loader are under way");
            }
            ids => break ids,
        }
    };
    xact_end::involve();
    UNDER_WAY.with_borrow_mut(|under_way| under_way.extend_from_slice(&ids));
    let answers = wait(shared, &ids, patience, if_failed);
    withdraw();
    answers
}

/// Waits until all requests are answered, or it is too late for the others: that is so earlier
/// for those that have failed.
fn wait(
    shared: &Shared,
    ids: &[Id],
    patience: &Patience<'_>,
    if_failed: Duration,
) -> Vec<Result<Answer, Option<String>>> {
    let mailbox = &shared.mailbox;
    let mut answers = vec![None; ids.len()];
    loop {
        // An answer sets this process's latch.
        let is_over = patience.is_over();
        let is_over_if_failed = patience.waited() >= if_failed;
        mailbox.collect_each(ids, &mut answers);
        let is_awaited = |(answer, id): (&Option<Answer>, &Id)| {
            answer.is_none() && !(is_over_if_failed && mailbox.last_failure(*id).is_some())
        };
        if is_over || !answers.iter().zip(ids).any(is_awaited) {
            let each = answers.into_iter().zip(ids);
            return each
                .map(|(answer, id)| answer.ok_or_else(|| mailbox.last_failure(*id)))
                .collect();
        }
        patience.call_loader(shared);
        // A failure sets the latch, too.
        let left = if_failed.saturating_sub(patience.waited());
        patience.nap_for(if left.is_zero() { Duration::MAX } else { left });
    }
}

/// Withdraws the requests of a statement that was cancelled or a session that ends, if
/// there are some.
pub fn withdraw() {
    let under_way = UNDER_WAY.take();
    let Some(shared) = shmem::get() else {
        return;
    };
    for id in under_way {
        shared.mailbox.withdraw(id);
    }
}
