//! Asking the loader, and the centre, and waiting for the answer.

use std::cell::RefCell;

use crate::link::call::call_link;
use crate::patience::Patience;
use crate::pg::shm::Shareable;
use crate::pg::xact_end;
use crate::settings::upstream as settings;
use crate::shmem;
use crate::shmem::key::KeyRef;
use crate::shmem::mailbox::{Answer, Ask, Asked};
use crate::shmem::requests::{Id, Table};
use crate::shmem::upstream::{self, Demand, Denial};

/// A request under way.
enum UnderWay {
    Loader(Id),
    Centre(Id),
}

thread_local! {
    /// The requests under way, which are withdrawn if the wait is interrupted.
    static UNDER_WAY: RefCell<Vec<UnderWay>> = const { RefCell::new(Vec::new()) };
}

/// Posts a request to the loader and waits for the answer.
pub fn ask_loader(
    key: KeyRef<'_>,
    incarnation: [u8; 16],
    asked: Asked,
    patience: &Patience<'_>,
) -> Answer {
    let shared = shmem::require();
    let ask = Ask::of(key, incarnation, asked);
    let id = loop {
        match shared.mailbox.post(&ask) {
            Some(id) => break id,
            None => patience.nap_or_give_up("too many requests to the loader are under way"),
        }
    };
    begin(UnderWay::Loader(id));
    let answer = wait(&shared.mailbox, id, patience, || {
        patience.call_loader(shared);
        true
    });
    let cause = shared.mailbox.last_failure(id);
    withdraw();
    answer.unwrap_or_else(|| patience.give_up(cause))
}

/// Posts a request to the centre and waits for the answer.
pub fn ask_centre(demand: &Demand, patience: &Patience<'_>) -> upstream::Answer {
    let shared = shmem::require();
    if settings::upstream().is_none() {
        // The link would count that as a failure of the centre.
        return Err(Denial::NoUpstream);
    }
    let requests = &shared.upstream.requests;
    let id = requests.post(demand).ok_or(Denial::Away)?;
    begin(UnderWay::Centre(id));
    let answer = wait(requests, id, patience, || call_link(shared));
    withdraw();
    answer.unwrap_or(Err(Denial::Away))
}

fn begin(request: UnderWay) {
    xact_end::involve();
    UNDER_WAY.with_borrow_mut(|under_way| under_way.push(request));
}

/// Waits until a request is answered; `None` if it is not in time, or if `call`, which wakes the
/// worker, returns false.
fn wait<A: Shareable + Copy, R: Shareable + Copy>(
    table: &Table<A, R>,
    id: Id,
    patience: &Patience<'_>,
    call: impl Fn() -> bool,
) -> Option<R> {
    loop {
        // The answer sets this process's latch.
        if let Some(answer) = table.collect(id) {
            return Some(answer);
        }
        if patience.is_over() || !call() {
            return None;
        }
        patience.sleep();
    }
}

/// Withdraws the requests of a statement that was cancelled or a session that ends, if
/// there are some.
pub fn withdraw() {
    let under_way = UNDER_WAY.take();
    let Some(shared) = shmem::get() else {
        return;
    };
    for request in under_way {
        match request {
            UnderWay::Loader(id) => shared.mailbox.withdraw(id),
            UnderWay::Centre(id) => shared.upstream.requests.withdraw(id),
        }
    }
}
