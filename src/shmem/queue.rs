//! The sessions that wait for a slot, so that the one that has waited longest gets the
//! next.

use std::time::Duration;

use leaf_core::time::Monotonic;

use crate::pg::{clock, process};

/// How many sessions have a place; further ones wait until there is a free one.
const ROOM: usize = 64;

/// A session that has not asked for this long no longer waits: it was cancelled, or has
/// ended. A waiting session asks every few milliseconds.
const LIFE: Duration = Duration::from_millis(500);

/// The waiting sessions. Guarded by the index lock.
#[repr(C)]
pub(super) struct Queue([Waiter; ROOM]);

#[derive(Clone, Copy)]
#[repr(C)]
struct Waiter {
    /// The session's process; 0 for a free place.
    pid: i32,
    since: Monotonic,
    asked_at: Monotonic,
}

impl Queue {
    /// Nobody waits.
    pub(super) const EMPTY: Queue = Queue(
        [Waiter {
            pid: 0,
            since: Monotonic::ZERO,
            asked_at: Monotonic::ZERO,
        }; ROOM],
    );

    /// Whether this session, which waits since `since`, is the next to get a slot.
    pub(super) fn is_turn(&mut self, since: Monotonic) -> bool {
        let now = clock::monotonic();
        let pid = process::my_pid();
        let is_live = |waiter: &Waiter| waiter.pid != 0 && now.since(waiter.asked_at) < LIFE;
        let own = self.0.iter().position(|waiter| waiter.pid == pid);
        let place = own.or_else(|| self.0.iter().position(|waiter| !is_live(waiter)));
        if let Some(place) = place {
            self.0[place] = Waiter {
                pid,
                since,
                asked_at: now,
            };
        }
        let others = self.0.iter().filter(|waiter| waiter.pid != pid);
        let first = others
            .filter(|waiter| is_live(waiter))
            .map(|waiter| (waiter.since, waiter.pid))
            .min();
        place.is_some() && first.is_none_or(|first| (since, pid) < first)
    }

    /// This session no longer waits.
    pub(super) fn leave(&mut self) {
        let pid = process::my_pid();
        for waiter in self.0.iter_mut().filter(|waiter| waiter.pid == pid) {
            waiter.pid = 0;
        }
    }
}
