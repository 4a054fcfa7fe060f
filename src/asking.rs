//! Asking the loader, through the mailbox.

use std::cell::Cell;

use crate::patience::Patience;
use crate::pg::xact_end;
use crate::shmem;
use crate::shmem::key::KeyRef;
use crate::shmem::mailbox::{Answer, Asked, RequestId};

thread_local! {
    /// The request under way, which is withdrawn if the wait is interrupted.
    static REQUEST: Cell<Option<RequestId>> = const { Cell::new(None) };
}

/// Posts a request to the loader and waits for the answer.
pub fn ask_loader(
    key: KeyRef<'_>,
    incarnation: [u8; 16],
    asked: Asked,
    patience: &Patience<'_>,
) -> Answer {
    let shared = shmem::require();
    let mailbox = &shared.mailbox;
    let post = || mailbox.post(key, incarnation, asked);
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
