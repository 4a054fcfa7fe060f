//! Leasing a worker id: register, renew, release. Runs in a transaction, as the
//! owner of the registry; nothing may be issued before that has committed.

use std::time::Duration;

use leaf_core::snowflake::generator::Span;
use leaf_core::snowflake::lease::{Held, Holder, Refused, Request, choose, is_credible};
use leaf_core::snowflake::{Generator, Scheme};
use pgrx::{PgSqlErrorCode as Code, pg_sys};
use uuid::Uuid;

use super::ceilings::{self, Raised};
use super::error::Trouble;
use super::releases;
use crate::catalog::worker::{self, Entry, WorkerRow};
use crate::error;
use crate::pg;
use crate::shmem::Shared;
use crate::shmem::worker::Lease;
use crate::{history, settings::snowflake as settings};

/// How the names of servers begin.
pub const SERVER: &str = "server ";

/// Another node may come in between that often before a registration gives up.
const TRIES: usize = 20;

/// Who leases, and what its clock says.
pub struct Claimant<'a> {
    pub shared: &'a Shared,
    /// Its name in the registry.
    pub node: String,
    /// Whether a row of that name is its own. Names that callers choose prove
    /// nothing: such nodes renew with nonce and token, or are new.
    pub is_server: bool,
    /// The worker id it insists on.
    pub worker: Option<u64>,
    /// Its clock, in microseconds since 1970.
    pub clock_us: i64,
    /// The registry's clock, read at the same time.
    pub now_us: i64,
    /// The time of the last id it has issued with another worker id.
    pub last_us: Option<i64>,
    /// How far ahead of the clock its ceiling is to be.
    pub ahead_us: i64,
}

/// A lease with what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Leased {
    pub lease: Lease,
    pub scheme: Scheme,
    /// How far the clock is off the mean of the other workers'.
    pub clock_offset_us: i64,
}

impl<'a> Claimant<'a> {
    /// This server's own worker for the database.
    pub fn server(shared: &'a Shared) -> Self {
        let now_us = pg::unix_us();
        Claimant {
            shared,
            node: server_node(shared),
            is_server: true,
            worker: settings::worker_id(),
            clock_us: now_us,
            now_us,
            last_us: None,
            ahead_us: default_ahead_us(),
        }
    }

    fn offset_us(&self) -> i64 {
        self.clock_us.saturating_sub(self.now_us)
    }
}

/// The history of this database: no other database, and no copy that has begun
/// a history of its own, has the same.
fn database_history(shared: &Shared) -> String {
    format!("{}/{}", history::current(shared), pg::database().to_u32())
}

fn server_node(shared: &Shared) -> String {
    format!("{SERVER}{}", database_history(shared))
}

/// Leases a worker id for this server, as the setting says. `current` is the
/// lease it has, `last_us` the time of the last id.
pub fn for_server(
    shared: &Shared,
    current: Option<Leased>,
    last_us: i64,
) -> Result<Leased, Trouble> {
    let mut claimant = Claimant::server(shared);
    // Without rows, nothing is registered any more: it begins anew.
    if let Some(registered) = worker::registered_scheme() {
        check_scheme(&registered)?;
    }
    if let Some(current) = current
        && claimant
            .worker
            .is_none_or(|worker| worker == current.lease.worker)
        && let Some(renewed) = renew(&claimant, &current, last_us)?
    {
        return Ok(renewed);
    }
    forget_dropped_databases();
    // Unless the clock has gone back far: then another worker id is the way out.
    claimant.last_us = current
        .map(|_| last_us)
        .filter(|&last_us| may_begin(last_us, claimant.clock_us));
    register(&claimant)
}

/// Registers a node: it gets a worker id, and may issue ids from its `from_us`
/// on, below its ceiling.
pub fn register(claimant: &Claimant<'_>) -> Result<Leased, Trouble> {
    worker::lock_registry();
    for _ in 0..TRIES {
        if let Some(leased) = try_to_register(claimant)? {
            return Ok(leased);
        }
    }
    Err(Trouble::Contended)
}

/// `None` if somebody came in between.
fn try_to_register(claimant: &Claimant<'_>) -> Result<Option<Leased>, Trouble> {
    let rows = worker::all();
    let history = database_history(claimant.shared);
    let scheme = scheme(rows.first())?;
    if scheme.epoch_us > claimant.now_us {
        return Err(Trouble::FutureEpoch(scheme));
    }
    let mean_us = check_clock(claimant, &rows)?;
    let worker = choose_worker(claimant, &rows, &history, scheme)?;
    let row = rows.iter().find(|row| row.worker == worker as i64);

    let kept = kept_ceiling(worker);
    let ceiling_us = [row.map(|row| row.ceiling_us), kept]
        .into_iter()
        .flatten()
        .max();
    let start = ceiling_us.map_or(0, |ceiling_us| scheme.tick_from(ceiling_us));
    let above = claimant
        .last_us
        .map_or(0, |last_us| scheme.tick_at(last_us) + 1);
    let start = start.max(scheme.tick_at(claimant.clock_us)).max(above);
    let from_us = scheme.instant_of(start.min(scheme.layout.ticks()));
    if !may_begin(from_us, claimant.clock_us) {
        return Err(Trouble::BelowCeiling {
            worker,
            ceiling_us: from_us,
        });
    }
    let lease = Lease {
        worker,
        nonce: *Uuid::new_v4().as_bytes(),
        token: 1,
        from_us,
        ceiling_us: next_ceiling(claimant, &scheme, from_us),
    };
    let entry = entry(claimant, lease, &history);
    if !worker::register(&entry, &scheme, row) {
        return Ok(None);
    }
    if !keep_ceiling(worker, kept, lease.ceiling_us) {
        // What was written for it must go, too.
        Trouble::Contended.raise();
    }
    Ok(Some(Leased {
        lease,
        scheme,
        clock_offset_us: claimant.offset_us() - mean_us.unwrap_or(0),
    }))
}

/// How far ahead of its use a ceiling is made durable.
pub fn default_ahead_us() -> i64 {
    micros(settings::ceiling_ahead())
}

/// Ends a lease, of whose time nothing was used from `used_until_us` on, if that
/// is known. `false` if it is lost.
pub fn release(proof: &Proof, used_until_us: Option<i64>) -> Result<(), Trouble> {
    let lost = || Trouble::LeaseLost {
        worker: proof.worker,
    };
    let row = proof.row().ok_or_else(lost)?;
    let ceiling_us = used_until_us.map_or(row.ceiling_us, |used_until_us| {
        let tick = row.scheme().tick_from(used_until_us);
        row.scheme().instant_of(tick).min(row.ceiling_us)
    });
    worker::release(proof.worker, ceiling_us, pg::unix_us());
    releases::record(row.worker as u64, row.ceiling_us, ceiling_us);
    Ok(())
}

/// What proves that a lease is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    pub worker: i64,
    pub nonce: [u8; 16],
    pub token: i64,
}

impl Proof {
    /// The row of the lease, locked until the transaction ends.
    pub fn row(&self) -> Option<WorkerRow> {
        worker::lock_row(self.worker)
            .filter(|row| (row.nonce, row.token) == (self.nonce, self.token))
    }
}

/// Whether ids may begin at an instant while the clock says another.
pub fn may_begin(from_us: i64, clock_us: i64) -> bool {
    from_us.saturating_sub(clock_us) <= micros(settings::max_clock_lead())
}

/// Renews a lease; `None` if it is lost.
pub fn renew(
    claimant: &Claimant<'_>,
    current: &Leased,
    last_us: i64,
) -> Result<Option<Leased>, Trouble> {
    let lease = &current.lease;
    let kept = kept_ceiling(lease.worker);
    if kept.is_some_and(|ceiling| ceiling > lease.ceiling_us) {
        // Another transaction leased it and was rolled back, or this lease's
        // own renewal did not commit.
        return Ok(None);
    }
    let ceiling_us = next_ceiling(claimant, &current.scheme, lease.from_us.max(last_us));
    let renewed = Lease {
        token: lease.token + 1,
        ceiling_us: ceiling_us.max(lease.ceiling_us),
        ..*lease
    };
    let history = database_history(claimant.shared);
    let entry = entry(claimant, renewed, &history);
    if !worker::renew(&entry, lease.token) {
        return Ok(None);
    }
    if !keep_ceiling(lease.worker, kept, renewed.ceiling_us) {
        Trouble::Contended.raise();
    }
    Ok(Some(Leased {
        lease: renewed,
        ..*current
    }))
}

fn entry<'e>(claimant: &'e Claimant<'_>, lease: Lease, history: &'e str) -> Entry<'e> {
    let kept_for = micros(settings::worker_lease());
    Entry {
        lease,
        node: &claimant.node,
        history,
        leased_until_us: claimant
            .now_us
            .max(lease.ceiling_us)
            .saturating_add(kept_for),
        now_us: claimant.now_us,
        clock_offset_us: claimant.offset_us(),
    }
}

/// Up to when ids may be issued: a while ahead of the clock, and at least a
/// part of it, and two ticks, ahead of the last id, which may be ahead of the
/// clock itself.
fn next_ceiling(claimant: &Claimant<'_>, scheme: &Scheme, last_us: i64) -> i64 {
    let (clock_us, ahead_us) = (claimant.clock_us, claimant.ahead_us);
    let wanted = (clock_us.saturating_add(ahead_us)).max(last_us.saturating_add(ahead_us / 4));
    let two_ticks = scheme.tick_at(clock_us.max(last_us)).saturating_add(2);
    let tick = scheme.tick_from(wanted).max(two_ticks);
    scheme.instant_of(tick.min(scheme.layout.ticks()))
}

/// Layout and epoch: as registered, and as the settings want them.
fn scheme(registered: Option<&WorkerRow>) -> Result<Scheme, Trouble> {
    let Some(row) = registered else {
        return Ok(settings::scheme());
    };
    let registered = row.scheme();
    check_scheme(&registered)?;
    Ok(registered)
}

fn check_scheme(registered: &Scheme) -> Result<(), Trouble> {
    let (registered, wanted) = (*registered, settings::scheme());
    match registered == wanted {
        true => Ok(()),
        false => Err(Trouble::OtherScheme { registered, wanted }),
    }
}

/// The mean offset of the live workers' clocks, if there are any; an error if
/// the claimant's is too far from it or from the registry's.
fn check_clock(claimant: &Claimant<'_>, rows: &[WorkerRow]) -> Result<Option<i64>, Trouble> {
    let others: Vec<i64> = rows
        .iter()
        .filter(|row| row.is_live(claimant.now_us))
        .filter(|row| !(claimant.is_server && row.node == claimant.node))
        .map(|row| row.clock_offset_us)
        .collect();
    let mean_us = match others.len() {
        0 => None,
        count => Some(others.iter().sum::<i64>() / count as i64),
    };
    let offset_us = claimant.offset_us();
    match is_credible(offset_us, &others, micros(settings::max_clock_offset())) {
        true => Ok(mean_us),
        false => Err(Trouble::NotCredible { offset_us, mean_us }),
    }
}

fn choose_worker(
    claimant: &Claimant<'_>,
    rows: &[WorkerRow],
    history: &str,
    scheme: Scheme,
) -> Result<u64, Trouble> {
    let mut held: Vec<Held> = rows
        .iter()
        .map(|row| Held {
            worker: row.worker as u64,
            holder: match row {
                row if row.history != history => Holder::OtherHistory,
                row if claimant.is_server && row.node == claimant.node => Holder::Self_,
                _ => Holder::Other,
            },
            // A lease that can only begin far ahead of the clock is none.
            leased_until_us: match may_begin(row.ceiling_us, claimant.now_us) {
                true => row.leased_until_us,
                false => row.leased_until_us.max(row.ceiling_us),
            },
        })
        .collect();
    if claimant.worker.is_none() {
        hold_what_was_undone(&mut held, claimant.now_us);
    }
    let request = Request {
        worker: claimant.worker,
        workers: scheme.layout.workers(),
        now_us: claimant.now_us,
        reuse_after_us: micros(settings::worker_reuse_after()),
        random: Uuid::new_v4().as_u64_pair().0,
    };
    choose(&held, &request).map_err(|refused| {
        let worker = request.worker.unwrap_or_default();
        let node = rows
            .iter()
            .find(|row| row.worker == worker as i64)
            .map_or_else(String::new, |row| row.node.clone());
        match refused {
            Refused::OutOfRange => Trouble::OutOfRange { worker, scheme },
            Refused::Held => Trouble::Held { worker, node },
            Refused::HeldInOtherHistory => Trouble::HeldInOtherHistory { worker, node },
            Refused::NoneLeft => Trouble::NoWorkerId(scheme),
        }
    })
}

/// A registration that was rolled back has no row, but its worker id has a ceiling:
/// one that lies far ahead of the clock is of no use to anybody until then.
fn hold_what_was_undone(held: &mut Vec<Held>, now_us: i64) {
    let kept = ceilings::all(pg::database().to_u32());
    for (worker, ceiling_us) in kept.unwrap_or_else(|error| unusable("read", &error)) {
        if may_begin(ceiling_us, now_us) {
            continue;
        }
        match held.iter_mut().find(|row| row.worker == worker) {
            Some(row) => row.leased_until_us = row.leased_until_us.max(ceiling_us),
            None => held.push(Held {
                worker,
                holder: Holder::Other,
                leased_until_us: ceiling_us,
            }),
        }
    }
}

/// Makes a lease known to a generator that had `before`.
pub fn install(generator: &Generator, before: Option<Leased>, leased: &Leased) {
    let (scheme, lease) = (&leased.scheme, &leased.lease);
    let ceiling = scheme.tick_at(lease.ceiling_us);
    let now_us = scheme.since_epoch(pg::unix_us());
    let from = scheme.tick_at(lease.from_us);
    let begins = scheme.tick_at(pg::unix_us()).max(from);
    let is_renewal = before.is_some_and(|before| before.lease.nonce == lease.nonce);
    if is_renewal {
        let begins = begins.max(generator.last_tick(&scheme.layout));
        generator.extend(&scheme.layout, ceiling, midway(begins, ceiling));
    } else {
        let span = Span {
            worker: lease.worker,
            from,
            ceiling,
            renew_at: midway(begins, ceiling),
        };
        // Where another worker id comes into force, later ids are still larger.
        generator.install_above(&scheme.layout, span, now_us);
    }
}

fn midway(from: u64, to: u64) -> u64 {
    from + to.saturating_sub(from) / 2
}

/// What the file says of a worker id.
fn kept_ceiling(worker: u64) -> Option<i64> {
    let database = pg::database().to_u32();
    ceilings::read(database, worker).unwrap_or_else(|error| unusable("read", &error))
}

fn keep_ceiling(worker: u64, from: Option<i64>, to: i64) -> bool {
    let database = pg::database().to_u32();
    match ceilings::raise(database, worker, from, to) {
        Ok(raised) => raised == Raised::Done,
        Err(error) => unusable("write", &error),
    }
}

fn unusable(what: &str, error: &std::io::Error) -> ! {
    let path = ceilings::path(pg::database().to_u32());
    error::raise((
        Code::ERRCODE_IO_ERROR,
        format!("could not {what} \"{}\": {error}", path.display()),
        None,
        "Ids wait until the file can be used: it says which may have been issued.".into(),
    ))
}

/// Files of databases that were dropped go when somebody registers.
fn forget_dropped_databases() {
    let is_gone = |database: u32| !pg::database_exists(pg_sys::Oid::from(database));
    if let Err(error) = ceilings::remove_of(is_gone) {
        pg::log(&format!(
            "could not remove files of dropped databases: {error}"
        ));
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
