//! The database's lease for snowflake ids: the loader leases the worker id, and keeps its
//! ceiling ahead of the clock.

use std::sync::atomic::Ordering;

use leaf_core::snowflake::ceiling;
use leaf_core::time::{Monotonic, WallTime};

use super::{nodes, upstream, wanted};
use crate::catalog::{self, relation};
use crate::error::Report;
use crate::lease::centre::{self, Attempt};
use crate::lease::{self, Leased, Start, error, registration};
use crate::loader::conversation;
use crate::loader::conversation::message::Answered;
use crate::loader::work::{Done, Work};
use crate::pg::{self, bgworker, clock, own_xact};
use crate::settings::{server, snowflake as settings};
use crate::shmem::Shared;
use crate::shmem::generators::{GeneratorSlot, LeaseState, Refusal, Registry, Standing};
use crate::shmem::upstream::Denial;

/// Leases and renews.
pub struct Renewal;

impl Work for Renewal {
    fn before_connect(&self) {
        wanted::before_connect();
    }

    fn after_connect(&self) {
        wanted::after_connect();
    }

    /// The settings may now require another worker id, or name another centre.
    fn reconsider(&self, shared: &Shared, database: u32) -> bool {
        for (_, slot) in shared.generators.of(database) {
            if slot.generator.is_leased() {
                slot.requested.store(true, Ordering::Release);
            }
        }
        wanted::is_outdated()
    }

    fn request_overdue(&self, shared: &Shared, database: u32) {
        for (_, slot) in shared.generators.of(database) {
            let has_failed = slot.retry_at.get() != Monotonic::ZERO;
            let is_due = slot.generator.is_due() || ends_soon(slot);
            if slot.generator.is_leased() && is_due && !has_failed {
                slot.requested.store(true, Ordering::Release);
            }
        }
    }

    fn run(&self, shared: &Shared, database: u32) -> Done {
        if bgworker::is_asked_to_reload() {
            // A session may have asked because it has settings that this process has not.
            return Done::Something;
        }
        if let Some((registry, answered)) = upstream::answered() {
            return match shared.generators.find(registry) {
                Some(slot) => settle_answer(shared, registry, slot, &answered),
                None => Done::Something,
            };
        }
        let now = clock::monotonic();
        let is_due = |slot: &GeneratorSlot| {
            slot.requested.load(Ordering::Acquire) && slot.retry_at.get() <= now
        };
        let slots = shared.generators.of(database);
        match slots.into_iter().find(|(_, slot)| is_due(slot)) {
            Some((registry, slot)) => lease_or_renew(shared, registry, slot),
            None => nodes::answer(shared, database),
        }
    }

    fn next_try(&self, shared: &Shared, database: u32) -> Option<Monotonic> {
        let slots = shared.generators.of(database);
        let requested = slots
            .iter()
            .filter(|(_, slot)| slot.requested.load(Ordering::Acquire));
        let tries = requested.map(|(_, slot)| slot.retry_at.get());
        let registrations = shared.mailbox.next_try_of(database, nodes::is_registration);
        tries.chain(registrations).min()
    }

    /// While ids of a lease from a centre are drawn: a connection that is lost is the only sign that
    /// another registry may be behind the centre's address.
    fn is_needed(&self, shared: &Shared, database: u32) -> bool {
        let (now, idle) = (clock::now(), server::loader_idle_timeout());
        shared.generators.of(database).iter().any(|(_, slot)| {
            let state = slot.state.read();
            let is_of_centre = state.standing.confirmed.is_some();
            is_of_centre && current(&state).is_some_and(|leased| last(slot, &leased) + idle > now)
        })
    }

    fn hand_over(&self, shared: &Shared, database: u32) {
        for (_, slot) in shared.generators.of(database) {
            slot.requested.store(false, Ordering::Release);
        }
    }
}

/// Whether the ceiling comes near while ids are drawn, if ticks are long: the ceiling can then
/// be the end of the tick, and no id of the tick shows that.
fn ends_soon(slot: &GeneratorSlot) -> bool {
    let Some(leased) = current(&slot.state.read()) else {
        return false;
    };
    let now = clock::now();
    ceiling::is_long(&leased.scheme)
        && leased.lease.ceiling <= now + settings::ceiling_ahead() / 2
        && last(slot, &leased) >= leased.scheme.instant_of(leased.scheme.tick_at(now))
}

fn lease_or_renew(shared: &Shared, registry: Registry, slot: &'static GeneratorSlot) -> Done {
    // Cleared before anything is read, so that a later request is not lost.
    slot.requested.store(false, Ordering::SeqCst);
    transact(shared, registry, slot, &Step::Attempt)
}

/// Settles what the centre has answered.
fn settle_answer(
    shared: &Shared,
    registry: Registry,
    slot: &'static GeneratorSlot,
    answered: &Answered,
) -> Done {
    match answered.answer {
        Ok(_) | Err(Denial::LeaseLost) => {
            return transact(shared, registry, slot, &Step::Store(answered));
        }
        Err(denial) if denial.may_pass_soon() || slot.generator.is_leased() => {
            // The lock is held for this statement alone.
            upstream::unanswered(&mut slot.state.write().standing, denial, answered.setting);
            failed(slot, denial.message());
        }
        Err(denial) => refused(slot, &error::upstream(denial)),
    }
    Done::Something
}

/// A step of a transaction for a generator.
enum Step<'a> {
    /// To lease or to renew.
    Attempt,
    /// To store what the centre has answered, and to lease accordingly.
    Store(&'a Answered),
}

impl Step<'_> {
    /// Runs in a transaction, as the owner of the registry.
    fn run(&self, start: &Start, standing: &mut Standing) -> Result<Attempt, Report> {
        match self {
            Step::Store(answered) => upstream::store(start, standing, answered),
            Step::Attempt if lease::is_shard() => {
                centre::attempt(start, standing, conversation::connection())
            }
            Step::Attempt => registration::for_server(start).map(Attempt::Leased),
        }
    }
}

/// Runs one transaction for a generator, and publishes what it comes to.
fn transact(
    shared: &Shared,
    registry: Registry,
    slot: &'static GeneratorSlot,
    step: &Step<'_>,
) -> Done {
    let (current, mut standing) = {
        let state = slot.state.read();
        (current(&state), state.standing)
    };
    let last = current.map_or(WallTime::MIN, |it| last(slot, &it));
    let look = slot.looks.fetch_add(1, Ordering::SeqCst) + 1;
    let attempt = || {
        let wanted = wanted::of_database();
        let start = Start {
            wanted,
            current,
            last,
        };
        let attempt =
            exists(registry).then(|| catalog::as_owner(|| step.run(&start, &mut standing)));
        Some((attempt, wanted, standing))
    };
    let outcome = own_xact::run_briefly(attempt, |(attempt, wanted, standing)| {
        let mut state = slot.state.write();
        if !slot.serves(registry) {
            return;
        }
        state.looked = Some((wanted, look));
        state.standing = standing;
        drop(state);
        match attempt {
            Some(Ok(Attempt::Leased(leased))) => settle(shared, registry, slot, &leased),
            Some(Ok(Attempt::Ask(question, leased))) => {
                match &leased {
                    Some(leased) => settle(shared, registry, slot, leased),
                    // A lease, if there is one, must not be used before the centre answers.
                    None => slot.stop(),
                }
                upstream::ask(registry, question, &wanted);
            }
            Some(Ok(Attempt::Lost)) => {
                slot.stop();
                slot.requested.store(true, Ordering::Release);
            }
            Some(Err(error)) => refused(slot, &error),
            None => shared.generators.retire(registry),
        }
        slot.changed.broadcast();
    });
    match outcome {
        Ok(true) => Done::Something,
        Ok(false) => Done::Leave,
        Err(failure) => {
            failed(slot, &failure.message);
            Done::Something
        }
    }
}

/// Whether the registry of a generator still exists.
fn exists(registry: Registry) -> bool {
    let alloc = relation::alloc().map(|oid| oid.to_u32());
    alloc == Some(registry.catalog) && relation::worker().is_some()
}

fn current(state: &LeaseState) -> Option<Leased> {
    Some(Leased {
        lease: state.lease?,
        scheme: state.scheme?,
        clock_offset_us: state.clock_offset_us,
    })
}

fn last(slot: &GeneratorSlot, leased: &Leased) -> WallTime {
    let tick = slot.generator.last_tick(&leased.scheme.layout);
    leased.scheme.instant_of(tick)
}

/// Publishes a committed lease. Raises no error.
fn settle(shared: &Shared, registry: Registry, slot: &'static GeneratorSlot, leased: &Leased) {
    let has_other_scheme = |slot: &GeneratorSlot| {
        let scheme = slot.state.read().scheme;
        scheme.is_some_and(|scheme| scheme != leased.scheme)
    };
    if has_other_scheme(slot) {
        // A session may be drawing with the old layout, so this generator never gets
        // another one. Waiting sessions find the new generator.
        shared.generators.retire(registry);
        if let Some(fresh) = shared.generators.claim(registry)
            && !has_other_scheme(fresh)
        {
            let looked = slot.state.read().looked;
            fresh
                .looks
                .store(slot.looks.load(Ordering::SeqCst), Ordering::SeqCst);
            fresh.state.write().looked = looked;
            settle(shared, registry, fresh, leased);
        }
        return;
    }
    let mut state = slot.state.write();
    if !slot.serves(registry) {
        // It was taken for another database. Sessions that wait find another one.
        return;
    }
    let before = current(&state);
    state.scheme = Some(leased.scheme);
    state.lease = Some(leased.lease);
    state.clock_offset_us = leased.clock_offset_us;
    state.refusal = None;
    state.failures.end();
    state.attempts += 1;
    slot.retry_at.set(Monotonic::ZERO);
    lease::install(&slot.generator, before, leased);
    drop(state);
    slot.changed.broadcast();
}

/// Publishes the reason why there is no lease, for the sessions that wait.
fn refused(slot: &GeneratorSlot, report: &Report) {
    let mut state = slot.state.write();
    state.refusal = Some(Refusal::of(report));
    state.attempts += 1;
    let is_first = record_failure(slot, &mut state, &report.message);
    drop(state);
    slot.changed.broadcast();
    if is_first {
        pg::log(&format!(
            "could not lease a worker id for snowflake ids: {}",
            report.message
        ));
    }
}

/// Records a failure after which another attempt may succeed, which waiting sessions
/// request.
fn failed(slot: &GeneratorSlot, message: &str) {
    let mut state = slot.state.write();
    let is_first = record_failure(slot, &mut state, message);
    drop(state);
    if is_first {
        pg::log(&format!("could not lease a worker id: {message}"));
    }
}

/// Records a failure; returns whether it is the first since the last success.
fn record_failure(slot: &GeneratorSlot, state: &mut LeaseState, message: &str) -> bool {
    let failure = state.failures.record(message);
    slot.retry_at.set(failure.retry_at);
    failure.is_first
}
