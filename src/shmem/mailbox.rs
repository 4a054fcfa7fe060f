//! Blocks that sessions ask their database's loader to reserve.
//!
//! The states of a request are `Free → Posted → Taken → Answered → Free`. The session
//! posts it, and collects the answer or withdraws it; the loader takes it, and answers
//! it or puts it back. A request that is withdrawn while it is taken is `Abandoned`,
//! and the loader frees it.

use leaf_core::time::Monotonic;

use super::failures::Failures;
use super::key::{Key, KeyRef, OwnedKey};
use crate::pg::condvar::CondVar;
use crate::pg::lwlock::Locked;
use crate::pg::{clock, shm};

/// How many requests can exist at once; further sessions wait for a free place.
const ROOM: usize = 64;

/// The requests of all databases.
pub struct Mailbox {
    table: &'static Locked<Table>,
    bells: &'static Bells,
}

#[repr(C)]
struct Table {
    /// The number of the last request.
    serial: u64,
    requests: [Request; ROOM],
}

/// What sessions sleep on: one condition variable per request, and one for sessions that
/// wait for a free place.
#[repr(C)]
struct Bells {
    answered: [CondVar; ROOM],
    room: CondVar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Free,
    Posted,
    Taken,
    Answered,
    Abandoned,
}

/// The loader's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Answer {
    /// The block starts here.
    Granted { first: i64 },
    /// The tag has fewer ids left than asked for.
    Exhausted,
    /// The tag is no longer the one that the session requested ids of: the session has
    /// to look it up again.
    Changed,
}

#[repr(C)]
struct Request {
    status: Status,
    /// Distinguishes this use of the place from others.
    serial: u64,
    key: Key,
    incarnation: [u8; 16],
    count: u64,
    answer: Answer,
    /// When the loader may take it again.
    retry_at: Monotonic,
    failures: Failures,
}

impl Request {
    const FREE: Request = Request {
        status: Status::Free,
        serial: 0,
        key: Key::NOBODYS,
        incarnation: [0; 16],
        count: 0,
        answer: Answer::Changed,
        retry_at: Monotonic::ZERO,
        failures: Failures::NONE,
    };

    fn is_posted_to(&self, database: u32) -> bool {
        self.status == Status::Posted && self.key.get().database == database
    }
}

/// A request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    place: usize,
    serial: u64,
}

/// A request as the loader sees it.
#[derive(Clone, Debug)]
pub struct BlockRequest {
    /// Identifies the request.
    pub id: RequestId,
    /// The tag.
    pub key: OwnedKey,
    /// The identity of the row that the session was allowed to draw from.
    pub incarnation: [u8; 16],
    /// How many ids.
    pub count: u64,
}

impl Mailbox {
    /// Requests the memory; only in the request hook.
    pub(super) fn request_memory() {
        shm::request::<Locked<Table>>(1);
        shm::request::<Bells>(1);
    }

    /// Attaches to that memory; only in the startup hook.
    pub(super) fn attach(tranche: i32) -> Self {
        let table = |_| Table {
            serial: 0,
            requests: [Request::FREE; ROOM],
        };
        let bells = |_| Bells {
            answered: std::array::from_fn(|_| CondVar::new()),
            room: CondVar::new(),
        };
        Mailbox {
            table: &shm::attach(c"leaf mailbox", 1, |n| Locked::new(table(n), tranche))[0],
            bells: &shm::attach(c"leaf bells", 1, bells)[0],
        }
    }

    /// Signalled when the request may have been answered.
    pub fn answered(&self, id: RequestId) -> &CondVar {
        &self.bells.answered[id.place]
    }

    /// Signalled when there may be a free place for a request.
    pub fn room(&self) -> &CondVar {
        &self.bells.room
    }

    /// Posts a request; `None` if there is no free place.
    pub fn post(&self, key: KeyRef<'_>, incarnation: [u8; 16], count: u64) -> Option<RequestId> {
        let mut table = self.table.write();
        let is_free = |request: &Request| request.status == Status::Free;
        let place = table.requests.iter().position(is_free)?;
        table.serial += 1;
        let serial = table.serial;
        let request = &mut table.requests[place];
        request.status = Status::Posted;
        request.serial = serial;
        request.key.set(key);
        request.incarnation = incarnation;
        request.count = count;
        request.retry_at = Monotonic::ZERO;
        request.failures = Failures::NONE;
        Some(RequestId { place, serial })
    }

    /// Takes the answer, if there is one; this ends the request.
    pub fn collect(&self, id: RequestId) -> Option<Answer> {
        let mut table = self.table.write();
        let request = table.get(id)?;
        if request.status != Status::Answered {
            return None;
        }
        request.status = Status::Free;
        let answer = request.answer;
        drop(table);
        self.bells.room.broadcast();
        Some(answer)
    }

    /// Ends a request, whatever its state.
    pub fn withdraw(&self, id: RequestId) {
        let mut table = self.table.write();
        if let Some(request) = table.get(id) {
            request.status = match request.status {
                Status::Taken | Status::Abandoned => Status::Abandoned,
                Status::Free | Status::Posted | Status::Answered => Status::Free,
            };
        }
        drop(table);
        self.bells.room.broadcast();
    }

    /// Why the request has not been answered yet, if the loader has tried.
    pub fn last_failure(&self, id: RequestId) -> Option<String> {
        self.table.write().get(id)?.failures.message()
    }

    /// When the next request to the loader of `database` may be taken, if there is
    /// one.
    pub fn next_try(&self, database: u32) -> Option<Monotonic> {
        let table = self.table.read();
        let requests = table.requests.iter();
        let posted = requests.filter(|request| request.is_posted_to(database));
        posted.map(|request| request.retry_at).min()
    }

    /// Takes all requests posted to the loader of `database` that may be tried
    /// now.
    pub fn take(&self, database: u32) -> Vec<BlockRequest> {
        let now = clock::monotonic();
        let mut taken = Vec::with_capacity(ROOM);
        let mut table = self.table.write();
        for (place, request) in table.requests.iter_mut().enumerate() {
            if !request.is_posted_to(database) || request.retry_at > now {
                continue;
            }
            request.status = Status::Taken;
            taken.push(BlockRequest {
                id: RequestId {
                    place,
                    serial: request.serial,
                },
                key: request.key.get().to_owned(),
                incarnation: request.incarnation,
                count: request.count,
            });
        }
        taken
    }

    /// Answers a taken request. If the session has withdrawn it, the block is lost.
    pub fn answer(&self, id: RequestId, answer: Answer) {
        self.settle(id, |request| {
            request.answer = answer;
            Status::Answered
        });
    }

    /// Puts a taken request back, to be tried again, and records the reason.
    pub fn put_back(&self, id: RequestId, failure: &str) {
        self.settle(id, |request| {
            request.retry_at = request.failures.record(failure).retry_at;
            Status::Posted
        });
    }

    /// Puts back all requests that a loader took and did not settle before it ended.
    pub fn put_back_all(&self, database: u32) {
        let mut table = self.table.write();
        for request in &mut table.requests {
            if request.key.get().database == database {
                request.status = match request.status {
                    Status::Taken => Status::Posted,
                    Status::Abandoned => Status::Free,
                    Status::Free | Status::Posted | Status::Answered => request.status,
                };
            }
        }
    }

    fn settle(&self, id: RequestId, change: impl FnOnce(&mut Request) -> Status) {
        let mut table = self.table.write();
        if let Some(request) = table.get(id) {
            request.status = match request.status {
                Status::Taken | Status::Posted => change(request),
                Status::Abandoned => Status::Free,
                Status::Free | Status::Answered => request.status,
            };
        }
        drop(table);
        self.bells.answered[id.place].broadcast();
        self.bells.room.broadcast();
    }
}

impl Table {
    fn get(&mut self, id: RequestId) -> Option<&mut Request> {
        let request = &mut self.requests[id.place];
        (request.serial == id.serial).then_some(request)
    }
}
