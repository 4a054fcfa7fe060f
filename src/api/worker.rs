//! Worker ids for nodes that issue snowflake ids themselves.
//!
//! A registration is committed by the loader ([`register`]), and passes over rows that are locked. A
//! renewal or a release concerns one row, and is a part of the caller's transaction.

use std::ffi::CString;

use leaf_core::snowflake::lease::{Identity, Verdict, renewal};
use leaf_core::time::WallTime;

use super::args;
use crate::catalog::{self, registry};
use crate::error::Report;
use crate::lease::{self, Claimant, Leased, error, registration};
use crate::pg::call::{Call, sql_functions};
use crate::pg::rows::Record;
use crate::pg::{clock, guc, process, role, xact};
use crate::session::snowflake::register;
use crate::settings::{snowflake as settings, upstream as upstream_settings};
use crate::shmem::mailbox::Registration;
use crate::shmem::text::Text;
use crate::{history, shmem};

sql_functions!(
    leaf_worker_register,
    leaf_worker_renew,
    leaf_worker_release,
    leaf_worker_take_over
);

/// Leases a worker id to a node.
fn leaf_worker_register(call: Call<'_>) -> Record {
    let now = clock::now();
    args::require_from_clause(call, "leaf_worker_register");
    let node = args::node(call.text(0));
    let worker_id = args::wanted_worker_id(call.integer(1));
    let clock = args::instant(call.timestamp(2), "clock");
    let ahead = args::ahead(call.interval(3));
    let nonce = call.uuid(4);
    require_primary();
    let leased = register::register(&Registration {
        node: Text::of(&node),
        worker_id,
        clock: clock.unwrap_or(now),
        now,
        ahead,
        nonce,
        role: role::current().to_u32(),
        max_leases: upstream_settings::max_leases(),
    });
    let identity = catalog::as_owner(lease::identity);
    let (lease, scheme) = (leased.lease, leased.scheme);
    Record::new()
        .with("worker_id", lease.worker_id as i32)
        .with("nonce", lease.nonce)
        .with("token", lease.token)
        .with("start_at", lease.from)
        .with("ceiling", lease.ceiling)
        .with("layout", scheme.layout.to_string())
        .with("epoch", scheme.epoch)
        .with("registry", identity.incarnation)
        .with("history", identity.history)
}

/// Renews a node's lease. A renewal that has been committed before, with the same token and
/// the same next one, returns what it returned then.
fn leaf_worker_renew(call: Call<'_>) -> Record {
    let before = clock::now();
    args::require_from_clause(call, "leaf_worker_renew");
    let proof = args::proof(call.integer(0), call.uuid(1), call.bigint(2));
    let clock = args::instant(call.timestamp(3), "clock");
    let ahead = args::ahead(call.interval(4));
    let next_token = args::next_token(call.bigint(5), proof.token);
    let (lease, identity) = in_registry(|| {
        let row = registry::lock_row(proof.worker_id, proof.nonce).ok_or(proof.lost())?;
        match renewal((row.nonce, row.token), proof.nonce, proof.token, next_token) {
            Verdict::Do => {}
            Verdict::Repeat => return Ok(row.lease()),
            Verdict::Refuse => return Err(proof.lost()),
        }
        // The time that it waited for the row is no offset of the node's clock.
        let now = clock::now();
        let clock = clock.map_or(now, |clock| clock.plus_us(now.us_after(before)));
        let current = Leased {
            lease: row.lease(),
            scheme: row.scheme(),
            clock_offset_us: 0,
        };
        // A lease that has run out counts no more.
        let role = row.leased_by.filter(|_| row.leased_until < now);
        let role = role.map(|role| CString::new(role).unwrap_or_default());
        let claimant = Claimant {
            ahead,
            role: role.map(|role| (role, upstream_settings::max_leases())),
            ..Claimant::node(row.node, clock, now, &settings::wanted())
        };
        lease::check_is_alone(&claimant)?;
        registration::check_count(&claimant)?;
        let renewed = lease::renew(&claimant, &current, WallTime::MIN, next_token)?;
        Ok(renewed.ok_or(proof.lost())?.lease)
    });
    Record::new()
        .with("token", lease.token)
        .with("ceiling", lease.ceiling)
        .with("registry", identity.incarnation)
        .with("history", identity.history)
}

/// Ends a node's lease.
fn leaf_worker_release(call: Call<'_>) {
    let proof = args::proof(call.integer(0), call.uuid(1), call.bigint(2));
    let used_until = args::instant(call.timestamp(3), "used_until");
    in_registry(|| lease::release(&proof, used_until));
}

/// Makes worker ids of earlier histories available. Returns how many.
fn leaf_worker_take_over(call: Call<'_>) -> i32 {
    let worker_id = args::wanted_worker_id(call.integer(0));
    let (taken, _) = in_registry(|| {
        let history = history::of_database();
        Ok(registry::take_over(&history, worker_id, clock::now()))
    });
    taken as i32
}

fn require_primary() {
    shmem::require();
    if process::in_recovery() {
        crate::error::in_recovery().raise();
    }
}

/// Runs `work` on the registry, and makes the commit of the transaction durable. Returns the
/// registry's identity, too.
fn in_registry<R>(work: impl FnOnce() -> Result<R, Report>) -> (R, Identity) {
    require_primary();
    guc::insist_on_durable_commit_of_transaction();
    if lease::is_shard() {
        error::is_shard().raise();
    }
    // As draws do, leases work for roles whose transactions are read-only.
    let attempt = || Ok((work()?, lease::identity()));
    xact::writable(|| catalog::as_owner(attempt)).unwrap_or_else(|error: Report| error.raise())
}
