//! Drawing snowflake ids, and waiting for the clock or for a lease.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leaf_core::snowflake::generator::{Stop, TickIds};
use leaf_core::snowflake::{Generator, Scheme};

use super::own_lease::{self, OwnLease};
use super::source::{self, Unready};
use crate::error::Report;
use crate::lease::error;
use crate::pg::{clock, process};
use crate::session::asking;
use crate::session::patience::{Ids, Patience};
use crate::settings::snowflake::LeaseSettings;
use crate::shmem::generators::GeneratorSlot;
use crate::shmem::{self, Shared};

/// Draws up to `count` ids, waiting if necessary.
pub fn draw(count: u64) -> TickIds {
    let shared = shmem::require();
    asking::require_grants();
    let patience = Patience::new(Ids::Snowflake);
    if let Some(own) = own_lease::registry_of_this_session() {
        return draw_own(&own, count, &patience);
    }
    let mut waiting_since = None;
    loop {
        let attempt = match source::resolve(shared) {
            Ok(source) => source.take(count).map_err(|stop| (source.slot, stop)),
            Err(Unready::NoLease(slot)) => Err((slot, Stop::Ceiling)),
            Err(Unready::OtherSettings(slot, wanted)) => {
                wait_for_look(shared, slot, &wanted, &patience);
                continue;
            }
        };
        match attempt {
            Ok(taken) => {
                drawn(taken.due, waiting_since);
                return taken.ids;
            }
            Err((slot, stop)) => {
                waiting_since.get_or_insert_with(Instant::now);
                wait(shared, slot, stop, &patience);
            }
        }
    }
}

/// Like [`draw`], from the session's own lease.
fn draw_own(own: &OwnLease, count: u64, patience: &Patience<'_>) -> TickIds {
    loop {
        match own.take(count) {
            Ok(taken) => return taken.ids,
            Err(Stop::Ceiling) => own.obtain(),
            Err(Stop::Wait { us }) if sleep(us, patience) => {}
            Err(Stop::Wait { us }) => own.with(|scheme, generator| {
                give_up(scheme, generator, us, patience);
            }),
            Err(Stop::ClockBehind { us }) => error::clock_behind(us).raise(),
            Err(Stop::TimeUsedUp) => error::time_used_up(source::scheme()).raise(),
        }
    }
}

/// Called after ids were drawn on the slow path.
fn drawn(due: bool, waiting_since: Option<Instant>) {
    let Some(source) = source::known() else {
        return;
    };
    if due {
        source.request_renewal();
    }
    if let Some(since) = waiting_since {
        source.slot.waits.add(since.elapsed());
    }
}

/// Waits until the cause for which the generator gives no ids has passed, or raises an
/// error.
fn wait(shared: &Shared, slot: &'static GeneratorSlot, stop: Stop, patience: &Patience<'_>) {
    match stop {
        Stop::Ceiling => wait_for_lease(shared, slot, patience),
        Stop::TimeUsedUp => error::time_used_up(source::scheme()).raise(),
        Stop::ClockBehind { us } => error::clock_behind(us).raise(),
        Stop::Wait { us } => {
            if !sleep(us, patience) {
                slot.waits.add_timeout(patience.waited());
                give_up(&source::scheme(), &slot.generator, us, patience);
            }
        }
    }
}

/// Raises the error after a wait for the clock was too long: the clock is behind, or
/// other sessions drew all ids of every new tick.
fn give_up(scheme: &Scheme, generator: &Generator, us: u64, patience: &Patience<'_>) -> ! {
    let last = scheme.instant_of(generator.last_tick(&scheme.layout));
    if last > clock::now() {
        error::clock_behind(us).raise();
    }
    patience.give_up(Some("the ids of the current tick are used up".into()))
}

/// Sleeps for `us` microseconds or until it is time to check again; returns `false` if
/// the time to wait is up. Can be cancelled.
///
/// To be woken late does no harm: a session draws all 4,096 ids of a tick in half of its
/// millisecond.
fn sleep(us: u64, patience: &Patience<'_>) -> bool {
    /// A latch sleeps for whole milliseconds, and only a sleep on a latch is interrupted
    /// by a cancel. Shorter sleeps do not use it.
    const LATCH_US: u64 = 2_000;
    process::check_for_interrupts();
    if patience.is_over() {
        return false;
    }
    if us < LATCH_US {
        std::thread::sleep(Duration::from_micros(us));
    } else {
        patience.nap_for(Duration::from_millis(us / 1_000 - 1));
    }
    true
}

/// The end of a wait for a lease.
enum End {
    Changed,
    Refused(Report),
}

/// Waits until the loader has leased a worker id or raised its ceiling. If the lease was
/// refused, raises that error.
fn wait_for_lease(shared: &Shared, slot: &'static GeneratorSlot, patience: &Patience<'_>) {
    let registry = source::registry();
    let attempts = slot.state.read().attempts;
    let look = || {
        let now = shared.generators.find(registry);
        if now.is_none_or(|now| !std::ptr::eq(now, slot)) {
            return Some(End::Changed);
        }
        let state = slot.state.read();
        if state.attempts != attempts {
            return Some(match &state.refusal {
                Some(refusal) => End::Refused(refusal.report()),
                None => End::Changed,
            });
        }
        let scheme = state.scheme?;
        drop(state);
        has_room(slot, &scheme).then_some(End::Changed)
    };
    let request = || {
        slot.requested.store(true, Ordering::Release);
        patience.call_loader(shared);
    };
    match patience.wait_on(&slot.changed, look, request) {
        Some(End::Changed) => {}
        Some(End::Refused(report)) => report.raise(),
        None => {
            slot.waits.add_timeout(patience.waited());
            let cause = patience.last_cause(&mut slot.state.write().failures);
            patience.give_up(cause);
        }
    }
}

/// Waits until the loader has looked at the settings of the database, which this session's show
/// to be changed. An error if the session has the new ones, and no ids can be issued with them.
fn wait_for_look(
    shared: &Shared,
    slot: &'static GeneratorSlot,
    wanted: &LeaseSettings,
    patience: &Patience<'_>,
) {
    let registry = source::registry();
    // A look that has begun before does not count.
    let awaited = slot.looks.load(Ordering::SeqCst) + 1;
    let look = || {
        let now = shared.generators.find(registry);
        if now.is_none_or(|now| !std::ptr::eq(now, slot)) {
            return Some(None);
        }
        let state = slot.state.read();
        let (looked, number) = state.looked?;
        let refusal = state.refusal.filter(|_| looked == *wanted);
        (number >= awaited).then_some(Some((looked, refusal, state.scheme, state.lease)))
    };
    let request = || {
        slot.requested.store(true, Ordering::SeqCst);
        patience.call_loader(shared);
    };
    let Some(looked) = patience.wait_on(&slot.changed, look, request) else {
        slot.waits.add_timeout(patience.waited());
        let cause = patience.last_cause(&mut slot.state.write().failures);
        patience.give_up(cause);
    };
    let Some((looked, refusal, registered, lease)) = looked else {
        return;
    };
    if let Some(refusal) = refusal {
        refusal.report().raise();
    }
    let (Some(registered), Some(lease)) = (registered, lease) else {
        return;
    };
    if looked.scheme != registered && looked.scheme == wanted.scheme {
        let wanted = wanted.scheme;
        error::other_scheme(registered, wanted).raise();
    }
    source::note_asked(lease.nonce, *wanted);
}

/// Whether the ceiling allows more ids now.
fn has_room(slot: &GeneratorSlot, scheme: &Scheme) -> bool {
    let now = scheme.since_epoch(clock::now());
    slot.generator.has_room(&scheme.layout, now)
}
