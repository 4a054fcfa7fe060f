//! Leases of worker ids: how they begin, are renewed, ended early, and put into force. By whom,
//! loader or session, makes no difference here.
//!
//! - [`mod@registration`]: a node gets a worker id from the registry; [`choice`] determines
//!   which.
//! - [`ceilings`]: the file that keeps what the registry may lose; [`releases`] lowers
//!   its ceilings once a release is committed.
//! - [`centre`]: the worker id comes from a centre.

pub mod ceilings;
pub mod centre;
mod choice;
pub mod error;
pub mod registration;
pub mod releases;

use std::ffi::CString;
use std::time::Duration;

use leaf_core::snowflake::ceiling::{self, renew_at};
use leaf_core::snowflake::choice::is_credible;
use leaf_core::snowflake::generator::Span;
use leaf_core::snowflake::lease::{self as core, Identity};
use leaf_core::snowflake::{Generator, Scheme};
use leaf_core::time::WallTime;
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use crate::catalog::engine;
use crate::catalog::registry::{self, Registered, Registration};
use crate::error::{Report, unusable_file};
use crate::pg::{clock, database};
use crate::settings::snowflake::{self as settings, LeaseSettings};
use crate::settings::upstream;
use crate::shmem::generators::Lease;
use crate::{catalog, history};
use ceilings::{FiledCeiling, Raise, Raised};
use error::signed;

/// Whether the worker id of this database comes from a centre.
pub fn is_shard() -> bool {
    upstream::upstream().is_some() || catalog::as_owner(registry::is_of_shard)
}

/// An error if this database's registry must lease nothing to anybody: other nodes of Citus have
/// registries of their own, which lease the same worker ids. One that is set for this server is its
/// own; `ALTER DATABASE`, Citus repeats on all nodes.
pub fn check_is_alone(claimant: &Claimant) -> Result<(), Report> {
    let is_of_server = || {
        let of_database = catalog::database::settings();
        let is_set = |setting: &String| setting.starts_with("leaf.worker_id=");
        claimant.is_server && claimant.worker_id.is_some() && !of_database.iter().any(is_set)
    };
    match engine::is_worker() && !is_of_server() {
        true => Err(error::leased_elsewhere()),
        false => Ok(()),
    }
}

/// Where a lease or a renewal begins.
#[derive(Clone, Copy)]
pub struct Start {
    /// The requirements of the settings.
    pub wanted: LeaseSettings,
    /// The lease in force.
    pub current: Option<Leased>,
    /// The time of the last id.
    pub last: WallTime,
}

/// The beginning of the names of servers.
pub const SERVER: &str = "server ";

/// The node that leases, and its clock.
pub struct Claimant {
    /// Its name in the registry.
    pub node: String,
    /// Whether a row with this name is its own. A name that a caller chose does not prove
    /// this: such nodes renew with nonce and token, or are new.
    pub is_server: bool,
    /// The nonce of its lease, if it has made one itself. A registration that is repeated
    /// with it returns the same lease.
    pub nonce: Option<[u8; 16]>,
    /// The worker id that it requires, if any.
    pub worker_id: Option<u64>,
    /// Layout and epoch that it expects.
    pub scheme: Scheme,
    /// Its clock.
    pub clock: WallTime,
    /// The registry's clock, read at the same time.
    pub now: WallTime,
    /// The time of the last id it has issued with another worker id.
    pub last: Option<WallTime>,
    /// How far ahead of the clock its ceiling should be.
    pub ahead: Duration,
    /// The limit of its ceiling, if it has the worker id from a centre.
    pub limit: Option<WallTime>,
    /// Before which no id may be issued, if a centre says so.
    pub not_before: Option<WallTime>,
    /// The role that registers it, and how many worker ids that may hold; `None` for the server
    /// itself, and for superusers.
    pub role: Option<(CString, u64)>,
}

impl Claimant {
    /// This server, for the current database, whose settings require this.
    pub fn server(wanted: &LeaseSettings) -> Self {
        let now = clock::now();
        Claimant {
            is_server: true,
            worker_id: wanted.worker_id,
            ..Self::node(server_name(), now, now, wanted)
        }
    }

    /// Another node. The registry's clock showed `now` when it has told its own.
    pub fn node(node: String, clock: WallTime, now: WallTime, wanted: &LeaseSettings) -> Self {
        Claimant {
            node,
            is_server: false,
            nonce: None,
            worker_id: None,
            scheme: wanted.scheme,
            clock,
            now,
            last: None,
            ahead: settings::ceiling_ahead(),
            limit: None,
            not_before: None,
            role: None,
        }
    }

    /// The ceiling of its lease, so far ahead, if ids have been issued up to `last`. Other nodes get two
    /// ticks at least, because they ask for the next ceiling at long intervals.
    pub fn next_ceiling(&self, scheme: &Scheme, last: WallTime, ahead: Duration) -> WallTime {
        let ceiling = ceiling::next(scheme, self.clock, last, ahead);
        if self.is_server {
            return self.limit.map_or(ceiling, |limit| ceiling.min(limit));
        }
        let two_ticks = scheme.tick_at(self.clock.max(last)).saturating_add(2);
        ceiling.max(scheme.instant_of(two_ticks.min(scheme.layout.ticks())))
    }

    /// How far its clock is ahead of the registry's.
    pub fn offset_us(&self) -> i64 {
        self.clock.us_after(self.now)
    }
}

/// The identity of this database's registry. Runs as the owner of the registry.
pub fn identity() -> Identity {
    Identity {
        incarnation: registry::incarnation(),
        history: history::of_database(),
    }
}

/// A lease, with the layout and epoch that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Leased {
    pub lease: Lease,
    pub scheme: Scheme,
    /// How far the clock is off the usual offset of the nodes' clocks.
    pub clock_offset_us: i64,
}

/// The proof that a lease is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    pub worker_id: i64,
    pub nonce: [u8; 16],
    pub token: i64,
}

impl Proof {
    /// The row of the lease, locked until the transaction ends; an error if the
    /// lease is lost.
    pub fn row(&self) -> Result<Registered, Report> {
        registry::lock_row(self.worker_id, self.nonce)
            .filter(|row| row.token == self.token)
            .ok_or(self.lost())
    }

    /// The error that the lease is lost.
    pub fn lost(&self) -> Report {
        // When: a renewal or release of a lease that was given to another node, removed, or renewed
        // by a copy of the node
        Report::not_ready(
            format!("the lease of worker id {} is lost", self.worker_id),
            "Stop issuing ids with it, and register again with leaf_worker_register.",
        )
        .detail("It was renewed with another token, given to another node, or removed.")
    }
}

/// The name of this server in the registry, for the current database.
pub fn server_name() -> String {
    format!("{SERVER}{}", history::of_database())
}

/// A new token.
pub fn random_token() -> i64 {
    core::random_token(Uuid::new_v4().as_u64_pair().0)
}

/// Whether ids may begin at the instant `from` when the clock shows `clock`.
pub fn may_begin(from: WallTime, clock: WallTime) -> bool {
    from <= clock + settings::max_clock_lead()
}

/// Raises an error unless the claimant's clock is near the registry's. Those of other nodes do
/// not matter: whoever may register could make them anything.
pub fn check_clock(claimant: &Claimant) -> Result<(), Report> {
    let offset_us = claimant.offset_us();
    match is_credible(offset_us, settings::max_clock_offset()) {
        true => Ok(()),
        // When: a registration or renewal with a clock that is off the others by more than
        // `leaf.max_clock_offset`
        false => Err(Report::new(
            Code::ERRCODE_SYSTEM_ERROR,
            "the clock is not credible",
            "Correct the clock, or that of the registry if it is the wrong one; leaf.max_clock_offset sets how far off a clock can be.",
        )
        .detail(format!("It is {} off the registry's clock.", signed(offset_us)))),
    }
}

/// Renews a lease; `None` if it is lost. The claimant's clock must be near the registry's:
/// the ceiling and the offset that others are compared with depend on it.
pub fn renew(
    claimant: &Claimant,
    current: &Leased,
    last: WallTime,
    next_token: i64,
) -> Result<Option<Leased>, Report> {
    check_clock(claimant)?;
    let lease = &current.lease;
    let kept = kept_ceiling(lease.worker_id);
    let higher = kept.filter(|kept| kept.ceiling > lease.ceiling);
    if higher.is_some_and(|kept| kept.nonce.as_bytes() != &lease.nonce) {
        // Another transaction leased it and was rolled back.
        return Ok(None);
    }
    // A renewal of this lease that did not commit counts: its holder may have relied on it.
    let least = higher.map_or(lease.ceiling, |kept| kept.ceiling);
    let last = lease.from.max(last);
    let ceiling = claimant.next_ceiling(&current.scheme, last, claimant.ahead);
    let renewed = Lease {
        token: next_token,
        ceiling: ceiling.max(least),
        ..*lease
    };
    let history = history::of_database();
    let registration = registration(claimant, renewed, &history, settings::worker_lease());
    if !registry::renew(&registration, lease.token) {
        return Ok(None);
    }
    keep_ceilings(&[raise(kept, &renewed)]);
    Ok(Some(Leased {
        lease: renewed,
        ..*current
    }))
}

/// Ends a lease. If `used_until` is given, no ids were issued with times from then on.
///
/// The ceiling does not go below the beginning of the lease: ids of earlier times may have
/// been issued by its predecessors.
pub fn release(proof: &Proof, used_until: Option<WallTime>) -> Result<(), Report> {
    let row = proof.row()?;
    let ceiling = match (used_until, row.start_at) {
        (Some(used_until), Some(start_at)) => {
            let tick = row.scheme().tick_from(used_until.max(start_at));
            row.scheme().instant_of(tick).min(row.ceiling)
        }
        _ => row.ceiling,
    };
    // Until the clock comes near the ceiling, no other lease could begin.
    let now = clock::now();
    let leased_until = match may_begin(ceiling, now) {
        true => now,
        false => ceiling,
    };
    registry::release(proof.worker_id, ceiling, leased_until);
    releases::record(row.worker_id as u64, row.ceiling, ceiling);
    Ok(())
}

/// The row of the registry for a lease, whose worker id is kept for so long beyond its
/// ceiling.
pub fn registration<'e>(
    claimant: &'e Claimant,
    lease: Lease,
    history: &'e str,
    beyond: Duration,
) -> Registration<'e> {
    Registration {
        lease,
        node: &claimant.node,
        history,
        leased_until: claimant.now.max(lease.ceiling) + beyond,
        now: claimant.now,
        clock_offset_us: claimant.offset_us(),
    }
}

/// Installs a lease in a generator that had the lease `before`.
pub fn install(generator: &Generator, before: Option<Leased>, leased: &Leased) {
    let (scheme, lease) = (&leased.scheme, &leased.lease);
    let ceiling = scheme.tick_at(lease.ceiling);
    let now = clock::now();
    let from = scheme.tick_at(lease.from);
    let begins = scheme.tick_at(now).max(from);
    let is_renewal = before.is_some_and(|before| before.lease.nonce == lease.nonce);
    if is_renewal {
        let begins = begins.max(generator.last_tick(&scheme.layout));
        generator.extend(&scheme.layout, ceiling, renew_at(begins, ceiling));
    } else {
        let span = Span {
            worker_id: lease.worker_id,
            from,
            ceiling,
            renew_at: renew_at(begins, ceiling),
        };
        // Even with another worker id, later ids are larger.
        generator.install_above(&scheme.layout, span, scheme.since_epoch(now));
    }
}

/// The ceiling of a worker id in the file.
pub fn kept_ceiling(worker_id: u64) -> Option<FiledCeiling> {
    let kept = ceilings::read(database::current(), worker_id);
    kept.unwrap_or_else(|error| unusable("read", worker_id, error))
}

/// The request that raises the ceiling in the file to that of a lease.
pub fn raise(from: Option<FiledCeiling>, lease: &Lease) -> Raise {
    Raise {
        worker_id: lease.worker_id,
        from,
        to: FiledCeiling {
            ceiling: lease.ceiling,
            nonce: Uuid::from_bytes(lease.nonce),
        },
    }
}

/// Raises ceilings in the file. An error if another process has changed one of them in the
/// meantime: the rows that were written for them must be rolled back, too.
pub fn keep_ceilings(raises: &[Raise]) {
    let Some(Raise { worker_id, .. }) = raises.first() else {
        return;
    };
    match ceilings::raise(database::current(), raises) {
        Ok(Raised::Done) => {}
        Ok(Raised::Meanwhile) => error::contended().raise(),
        // When: another process has had them locked for as long as `lock_timeout`
        Ok(Raised::Locked) => Report::new(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            "could not lock the files of ceilings of worker ids",
            "Try again; find out which process has the folder \"leaf\" in the data directory locked if it does not release it.",
        )
        .detail("Another process has had them locked for as long as lock_timeout.")
        .raise(),
        Err(error) => unusable("write", *worker_id, error),
    }
}

/// Raises the error that the file cannot be used.
pub fn unusable(what: &'static str, worker_id: u64, cause: std::io::Error) -> ! {
    let path = ceilings::path(database::current(), worker_id);
    unusable_file(what, &path, &cause).raise()
}
