//! Blocks that sessions ask their database's loader to reserve.
//!
//! A request goes `Free → Posted → Taken → Answered → Free`. The session posts,
//! collects the answer or withdraws; the loader takes, answers or puts back. A
//! request withdrawn while it is taken is `Abandoned`, and the loader frees it.

use super::Shared;
use super::index::OwnedKey;
use super::slot::{LastError, TAG_BYTES, next_pause_us};
use crate::pg::{self, condvar::CondVar};

/// How many sessions can have a request under way at once; further ones wait
/// for room.
const ROOM: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Free,
    Posted,
    Taken,
    Answered,
    Abandoned,
}

/// What the loader says to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Answer {
    /// The block starts here.
    Granted { first: i64 },
    /// The tag has fewer ids left than asked for.
    Exhausted,
    /// The tag is not the one the session asked for any more: look again.
    Changed,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Request {
    status: Status,
    /// Tells this use of the entry from others.
    serial: u64,
    database: u32,
    catalog: u32,
    len: u32,
    tag: [u8; TAG_BYTES],
    incarnation: [u8; 16],
    count: u64,
    answer: Answer,
    /// Before when the loader does not take it again, in monotonic
    /// microseconds, and the pause that led to it.
    retry_at: i64,
    pause_us: i64,
    error: LastError,
}

/// All requests; guarded by the mailbox lock.
#[repr(C)]
pub struct Table {
    serial: u64,
    requests: [Request; ROOM],
}

/// Where sessions sleep: one bell per request, and one for those who wait for
/// room.
#[repr(C)]
pub struct Bells {
    answered: [CondVar; ROOM],
    room: CondVar,
}

impl Bells {
    /// Bells nobody listens to.
    pub fn new() -> Self {
        Bells {
            answered: std::array::from_fn(|_| CondVar::new()),
            room: CondVar::new(),
        }
    }

    /// Rings when the request may have been answered.
    pub fn answered(&self, ticket: Ticket) -> &CondVar {
        &self.answered[ticket.entry]
    }

    /// Rings when there may be room for a request.
    pub fn room(&self) -> &CondVar {
        &self.room
    }
}

/// A request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    entry: usize,
    serial: u64,
}

/// A request as the loader sees it.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which request.
    pub ticket: Ticket,
    /// The tag.
    pub key: OwnedKey,
    /// The identity of the row that the session was allowed to draw from.
    pub incarnation: [u8; 16],
    /// How many ids.
    pub count: u64,
}

impl Table {
    /// An empty mailbox.
    pub fn new() -> Self {
        let free = Request {
            status: Status::Free,
            serial: 0,
            database: 0,
            catalog: 0,
            len: 0,
            tag: [0; TAG_BYTES],
            incarnation: [0; 16],
            count: 0,
            answer: Answer::Changed,
            retry_at: 0,
            pause_us: 0,
            error: LastError::default(),
        };
        Table {
            serial: 0,
            requests: [free; ROOM],
        }
    }

    fn get(&mut self, ticket: Ticket) -> Option<&mut Request> {
        let request = &mut self.requests[ticket.entry];
        (request.serial == ticket.serial).then_some(request)
    }
}

impl Shared {
    /// Posts a request; `None` while there is no room.
    pub fn post(&self, key: &OwnedKey, incarnation: [u8; 16], count: u64) -> Option<Ticket> {
        let mut table = self.mailbox.exclusive();
        let free = |request: &Request| request.status == Status::Free;
        let entry = table.requests.iter().position(free)?;
        table.serial += 1;
        let serial = table.serial;
        let request = &mut table.requests[entry];
        request.status = Status::Posted;
        request.serial = serial;
        request.database = key.database;
        request.catalog = key.catalog;
        request.len = key.tag.len() as u32;
        request.tag[..key.tag.len()].copy_from_slice(&key.tag);
        request.incarnation = incarnation;
        request.count = count;
        (request.retry_at, request.pause_us) = (0, 0);
        request.error = LastError::default();
        Some(Ticket { entry, serial })
    }

    /// Takes the answer, if there is one; the request is then over.
    pub fn collect(&self, ticket: Ticket) -> Option<Answer> {
        let mut table = self.mailbox.exclusive();
        let request = table.get(ticket)?;
        if request.status != Status::Answered {
            return None;
        }
        request.status = Status::Free;
        let answer = request.answer;
        drop(table);
        self.mail.room.broadcast();
        Some(answer)
    }

    /// Ends a request whatever has become of it.
    pub fn withdraw(&self, ticket: Ticket) {
        let mut table = self.mailbox.exclusive();
        if let Some(request) = table.get(ticket) {
            request.status = match request.status {
                Status::Taken => Status::Abandoned,
                Status::Abandoned => Status::Abandoned,
                _ => Status::Free,
            };
        }
        drop(table);
        self.mail.room.broadcast();
    }

    /// Why the request has not been answered yet, if the loader has tried.
    pub fn trouble(&self, ticket: Ticket) -> Option<String> {
        self.mailbox.exclusive().get(ticket)?.error.message()
    }

    /// Whether a request waits for the loader of `database`.
    pub fn has_mail(&self, database: u32) -> bool {
        let table = self.mailbox.shared();
        let waits = |r: &Request| r.status == Status::Posted && r.database == database;
        table.requests.iter().any(waits)
    }

    /// When the next request to the loader of `database` may be taken.
    pub fn next_mail(&self, database: u32) -> Option<i64> {
        let table = self.mailbox.shared();
        let posted = table.requests.iter();
        let posted = posted.filter(|r| r.status == Status::Posted && r.database == database);
        posted.map(|request| request.retry_at).min()
    }

    /// Takes all requests posted to the loader of `database` that may be tried
    /// now.
    pub fn take_mail(&self, database: u32) -> Vec<Order> {
        let now = pg::monotonic_us();
        let mut orders = Vec::with_capacity(ROOM);
        let mut table = self.mailbox.exclusive();
        for (entry, request) in table.requests.iter_mut().enumerate() {
            let is_ours = request.status == Status::Posted && request.database == database;
            if !is_ours || request.retry_at > now {
                continue;
            }
            request.status = Status::Taken;
            orders.push(Order {
                ticket: Ticket {
                    entry,
                    serial: request.serial,
                },
                key: OwnedKey {
                    database,
                    catalog: request.catalog,
                    tag: request.tag[..request.len as usize].to_vec(),
                },
                incarnation: request.incarnation,
                count: request.count,
            });
        }
        orders
    }

    /// Answers a taken request. If the session has gone, the block is lost.
    pub fn answer(&self, ticket: Ticket, answer: Answer) {
        self.settle(ticket, |request| {
            request.answer = answer;
            Status::Answered
        });
    }

    /// Puts a taken request back, to be tried again, with the reason.
    pub fn put_back(&self, ticket: Ticket, trouble: &str) {
        let (now, monotonic) = (pg::now(), pg::monotonic_us());
        self.settle(ticket, |request| {
            request.error.set(now, trouble);
            request.pause_us = next_pause_us(request.pause_us);
            request.retry_at = monotonic + request.pause_us;
            Status::Posted
        });
    }

    /// Puts back all that a loader took and did not settle before it ended.
    pub fn put_back_all(&self, database: u32) {
        let mut table = self.mailbox.exclusive();
        for request in &mut table.requests {
            if request.database == database {
                request.status = match request.status {
                    Status::Taken => Status::Posted,
                    Status::Abandoned => Status::Free,
                    other => other,
                };
            }
        }
    }

    fn settle(&self, ticket: Ticket, change: impl FnOnce(&mut Request) -> Status) {
        let mut table = self.mailbox.exclusive();
        if let Some(request) = table.get(ticket) {
            request.status = match request.status {
                Status::Taken | Status::Posted => change(request),
                Status::Abandoned => Status::Free,
                other => other,
            };
        }
        drop(table);
        self.mail.answered[ticket.entry].broadcast();
        self.mail.room.broadcast();
    }
}
