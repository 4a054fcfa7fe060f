//! Leasing a worker id. Runs in a transaction, as the owner of the registry; no ids may
//! be issued before that has committed.

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::choice::usual_offset;
use leaf_core::snowflake::lease::{self, Verdict};
use leaf_core::time::WallTime;
use pgrx::{PgSqlErrorCode as Code, pg_sys};
use uuid::Uuid;

use super::ceilings::{self, FiledCeiling, Raise};
use super::choice::choose_worker_id;
use super::error::{self, at, describe};
use super::{
    Claimant, Leased, Start, check_clock, check_is_alone, is_shard, keep_ceilings, kept_ceiling,
    may_begin, raise, registration, renew,
};
use crate::catalog::registry::{self, Registered};
use crate::error::Report;
use crate::history;
use crate::pg::{self, database, role};
use crate::settings::snowflake::{self as settings, LeaseSettings};
use crate::shmem::generators::Lease;
use crate::shmem::mailbox::Registration;

/// How often a registration is tried, because other nodes may register at the same time.
const TRIES: usize = 20;

/// Leases a worker id for this server, as the settings require. A lease in force is renewed whatever layout and epoch
/// are set now: sessions that have other ones get an error.
pub fn for_server(start: &Start) -> Result<Leased, Report> {
    let &Start {
        ref wanted,
        current,
        last,
    } = start;
    let mut claimant = Claimant::server(wanted);
    check_is_alone(&claimant)?;
    if let Some(current) = current
        && claimant
            .worker_id
            .is_none_or(|worker_id| worker_id == current.lease.worker_id)
        && let Some(renewed) = renew(&claimant, &current, last, current.lease.token + 1)?
    {
        return Ok(renewed);
    }
    forget_dropped_databases();
    // If the clock has gone back far, the last id is ignored: another worker id can then
    // begin at the clock.
    claimant.last = current
        .map(|_| last)
        .filter(|&last| may_begin(last, claimant.clock));
    register(&claimant)
}

/// Registers a node. It gets a worker id, and may issue ids from the lease's `from` on,
/// below its ceiling.
pub fn register(claimant: &Claimant) -> Result<Leased, Report> {
    let leased = register_all([claimant]).pop();
    leased.expect("one outcome for each claimant")
}

/// Registers nodes. The files of ceilings are written once for all of them.
pub fn register_all<'c>(
    claimants: impl IntoIterator<Item = &'c Claimant>,
) -> Vec<Result<Leased, Report>> {
    let mut raises = Vec::new();
    let claimants = claimants.into_iter();
    let leased = claimants
        .map(|claimant| {
            check_is_alone(claimant)?;
            for _ in 0..TRIES {
                if let Some(leased) = try_to_register(claimant, &mut raises)? {
                    return Ok(leased);
                }
            }
            Err(error::contended())
        })
        .collect();
    keep_ceilings(&raises);
    leased
}

/// Leases worker ids to other nodes.
pub fn register_nodes(
    nodes: &[&Registration],
    wanted: &LeaseSettings,
) -> Vec<Result<Leased, Report>> {
    if is_shard() {
        return nodes.iter().map(|_| Err(error::is_shard())).collect();
    }
    let claimant = |node: &&Registration| {
        let role = pg_sys::Oid::from(node.role);
        let is_limited = !role::is_superuser(role);
        Claimant {
            role: is_limited.then(|| (role::name_of(role), node.max_leases)),
            nonce: node.nonce,
            worker_id: node.worker_id,
            ahead: node.ahead,
            ..Claimant::node(node.node.get(), node.clock, node.now, wanted)
        }
    };
    let claimants: Vec<_> = nodes.iter().map(claimant).collect();
    register_all(&claimants)
}

/// `None` if another transaction has changed the row in the meantime.
fn try_to_register(claimant: &Claimant, raises: &mut Vec<Raise>) -> Result<Option<Leased>, Report> {
    if let Some(leased) = registered_before(claimant)? {
        return Ok(Some(leased));
    }
    let history = history::of_database();
    let scheme = scheme(&claimant.scheme)?;
    if scheme.epoch > claimant.now {
        // When: the first registration
        return Err(Report::new(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            "the epoch of snowflake ids lies in the future",
            "Set leaf.snowflake_epoch to a time that has passed, or correct the clock.",
        )
        .detail(describe(&scheme)));
    }
    check_count(claimant)?;
    check_clock(claimant)?;
    let usual_us = usual_offset_of(claimant, &history);
    let (worker_id, row) = choose_worker_id(claimant, &history, scheme)?;
    let begun = write(
        claimant,
        &history,
        scheme,
        worker_id,
        row.as_ref(),
        usual_us,
    )?;
    Ok(begun.map(|(leased, raise)| {
        raises.push(raise);
        leased
    }))
}

/// Begins the lease of a worker id, whose row is `row`; `None` if another transaction has
/// changed the row in the meantime.
pub fn begin(
    claimant: &Claimant,
    history: &str,
    scheme: Scheme,
    worker_id: u64,
    row: Option<&Registered>,
) -> Result<Option<Leased>, Report> {
    let begun = write(claimant, history, scheme, worker_id, row, 0)?;
    Ok(begun.map(|(leased, raise)| {
        keep_ceilings(&[raise]);
        leased
    }))
}

/// Writes the lease of a worker id to the registry; its ceiling must go to the file before that
/// is committed.
fn write(
    claimant: &Claimant,
    history: &str,
    scheme: Scheme,
    worker_id: u64,
    row: Option<&Registered>,
    usual_us: i64,
) -> Result<Option<(Leased, Raise)>, Report> {
    let kept = kept_ceiling(worker_id);
    let from = begin_at(claimant, &scheme, row, kept);
    if !may_begin(from, claimant.clock) {
        // When: the clock is behind the ceiling by more than `leaf.max_clock_lead`
        return Err(Report::new(
            Code::ERRCODE_SYSTEM_ERROR,
            "the clock is behind the time up to which snowflake ids may have been issued",
            "Correct the clock, wait until it has passed that time, or set leaf.worker_id to a worker id that was never used.",
        )
        .detail(format!("That time is {} for worker id {worker_id}.", at(from))));
    }
    // A node may be gone soon after each start.
    let (ahead, beyond) = match claimant.is_server {
        true => (claimant.ahead, settings::worker_lease()),
        false => (
            claimant.ahead.min(lease::UNRENEWED),
            settings::max_clock_offset(),
        ),
    };
    let lease = Lease {
        worker_id,
        nonce: claimant.nonce.unwrap_or_else(|| *Uuid::new_v4().as_bytes()),
        token: lease::first_token(claimant.now),
        from,
        ceiling: claimant.next_ceiling(&scheme, from, ahead),
    };
    let registration = registration(claimant, lease, history, beyond);
    let leased_by = claimant.role.as_ref().map(|(role, _)| role.as_c_str());
    if !registry::register(&registration, &scheme, leased_by, row) {
        return Ok(None);
    }
    let leased = Leased {
        lease,
        scheme,
        clock_offset_us: claimant.offset_us() - usual_us,
    };
    Ok(Some((leased, raise(kept, &lease))))
}

/// A role can hold only so many worker ids.
pub fn check_count(claimant: &Claimant) -> Result<(), Report> {
    let Some((role, most)) = &claimant.role else {
        return Ok(());
    };
    match registry::leases_of(role, claimant.now, *most) < *most {
        true => Ok(()),
        // When: `leaf_worker_register` beyond `leaf.max_leases`
        false => Err(Report::new(
            Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            format!("the role holds {} worker ids already", *most),
            "Leases of nodes that have ended run out by themselves, which leaf.worker shows. To allow more, raise leaf.max_leases for the role.",
        )),
    }
}

/// The lease of an earlier registration with the same nonce, of which the node may not know:
/// it gets the same answer. An error if it was renewed or released, because the node must
/// then have known of it.
fn registered_before(claimant: &Claimant) -> Result<Option<Leased>, Report> {
    let Some(row) = claimant.nonce.and_then(registry::by_nonce) else {
        return Ok(None);
    };
    let is_same = row.node == claimant.node
        && (claimant.worker_id).is_none_or(|worker_id| worker_id as i64 == row.worker_id);
    let is_repeated = lease::registration(Some(row.token), is_same) == Verdict::Repeat;
    let Some(start_at) = row.start_at.filter(|_| is_repeated) else {
        // When: `leaf_worker_register`
        return Err(Report::not_ready(
            "the nonce has been used for another lease",
            "Make a new nonce for each registration, such as gen_random_uuid() returns; give the same nonce only to repeat the same registration.",
        ));
    };
    Ok(Some(Leased {
        lease: Lease {
            from: start_at,
            ..row.lease()
        },
        scheme: row.scheme(),
        clock_offset_us: 0,
    }))
}

/// From when a new lease of a worker id may issue ids: above its ceilings in registry and
/// file, not before the clock, and above the claimant's own last id.
fn begin_at(
    claimant: &Claimant,
    scheme: &Scheme,
    row: Option<&Registered>,
    kept: Option<FiledCeiling>,
) -> WallTime {
    let ceiling = row
        .map(|row| row.ceiling)
        .max(kept.map(|kept| kept.ceiling));
    let start = ceiling
        .max(claimant.not_before)
        .map_or(0, |ceiling| scheme.tick_from(ceiling));
    let above = claimant.last.map_or(0, |last| scheme.tick_at(last) + 1);
    let start = start.max(scheme.tick_at(claimant.clock)).max(above);
    scheme.instant_of(start.min(scheme.layout.ticks()))
}

/// Layout and epoch as registered, which must be the wanted ones; if nothing is registered,
/// these.
pub fn scheme(wanted: &Scheme) -> Result<Scheme, Report> {
    let registered = registry::registered_scheme().unwrap_or(*wanted);
    match registered == *wanted {
        true => Ok(registered),
        false => Err(error::other_scheme(registered, *wanted)),
    }
}

/// The usual offset of the live nodes' clocks.
fn usual_offset_of(claimant: &Claimant, history: &str) -> i64 {
    let own = claimant.is_server.then_some(claimant.node.as_str());
    usual_offset(&registry::clock_offsets(history, claimant.now, own))
}

/// Removes the files of databases that were dropped. Called at each registration of a
/// server.
fn forget_dropped_databases() {
    let is_gone = |database: u32| !database::exists(database);
    if let Err(error) = ceilings::remove_of(is_gone) {
        pg::log(&format!(
            "could not remove files of dropped databases: {error}"
        ));
    }
}
