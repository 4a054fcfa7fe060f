//! The registry of worker ids, for nodes that are not this server:
//! `leaf_worker_register`, `leaf_worker_renew`, `leaf_worker_release`; and the
//! trigger that keeps `leaf.worker` from forgetting.

use std::cell::Cell;
use std::ops::RangeInclusive;

use pgrx::PgSqlErrorCode as Code;

use super::segment::bad_argument;
use crate::catalog::{self, worker::TriggerRow};
use crate::error::{self, Error};
use crate::pg::call::{Call, Datum, v1_function};
use crate::pg::trigger::{self, Event};
use crate::pg::worker::insist_on_durable_commit_of_transaction;
use crate::pg::{self, args};
use crate::session;
use crate::snowflake::Trouble;
use crate::snowflake::lease::{self, Claimant, Leased, Proof};
use leaf_core::snowflake::Scheme;

/// How far ahead of the clock a node may have its ceiling.
const AHEAD_US: RangeInclusive<i64> = 100_000..=86_400_000_000;

/// The longest name of a node, in characters.
const MAX_NODE: usize = 256;

v1_function! {
    /// Leases a worker id to a node.
    ///
    /// # Safety
    /// Called by PostgreSQL as a function of a `text`, an `integer`, a `timestamptz`
    /// and an `interval` that returns a record of an `integer`, a `uuid`, a `bigint`,
    /// two `timestamptz`, a `text` and a `timestamptz`.
    fn leaf_worker_register(call) {
        let node = node(call.optional_arg(0).map(|datum| args::text(datum)));
        let worker = call.optional_arg(1).map(|datum| datum.value() as i32);
        let worker = worker.map(|worker| match u64::try_from(worker) {
            Ok(worker) => worker,
            Err(_) => bad_argument(
                format!("worker id {worker} is negative"),
                "Leave it out to lease any, or name one of the layout's.",
            ),
        });
        let clock = call.optional_arg(2).map(|datum| datum.value() as i64);
        let ahead_us = ahead(call.optional_arg(3));
        let leased = in_registry(|| {
            lease::register(&Claimant {
                worker,
                ahead_us,
                ..claimant(node, clock)
            })
        });
        let (lease, scheme) = (leased.lease, leased.scheme);
        let layout = scheme.layout.to_string();
        call.record([
            Datum::from(lease.worker as i32),
            args::uuid_datum(lease.nonce),
            Datum::from(lease.token),
            Datum::from(pg::from_unix_us(lease.from_us)),
            Datum::from(pg::from_unix_us(lease.ceiling_us)),
            args::text_datum(layout.as_bytes()),
            Datum::from(pg::from_unix_us(scheme.epoch_us)),
        ])
    }
}

v1_function! {
    /// Renews a node's lease.
    ///
    /// # Safety
    /// Called by PostgreSQL as a function of an `integer`, a `uuid`, a `bigint`, a
    /// `timestamptz` and an `interval` that returns a record of a `bigint` and a `timestamptz`.
    fn leaf_worker_renew(call) {
        let proof = proof(call);
        let clock = call.optional_arg(3).map(|datum| datum.value() as i64);
        let ahead_us = ahead(call.optional_arg(4));
        let leased = in_registry(|| {
            let lost = || Trouble::LeaseLost {
                worker: proof.worker,
            };
            let row = proof.row().ok_or_else(lost)?;
            let current = Leased {
                lease: row.lease(),
                scheme: row.scheme(),
                clock_offset_us: 0,
            };
            let claimant = Claimant {
                ahead_us,
                ..claimant(row.node, clock)
            };
            lease::renew(&claimant, &current, i64::MIN)?.ok_or_else(lost)
        });
        call.record([
            Datum::from(leased.lease.token),
            Datum::from(pg::from_unix_us(leased.lease.ceiling_us)),
        ])
    }
}

v1_function! {
    /// Ends a node's lease.
    ///
    /// # Safety
    /// Called by PostgreSQL as a function of an `integer`, a `uuid`, a `bigint` and
    /// a `timestamptz`.
    fn leaf_worker_release(call) {
        let proof = proof(call);
        let used_until = call.optional_arg(3).map(|datum| datum.value() as i64);
        in_registry(|| releasing(|| lease::release(&proof, used_until.map(pg::to_unix_us))));
        Datum::from(0)
    }
}

/// Runs `work` on the registry; its commit will be durable.
fn in_registry<R>(work: impl FnOnce() -> Result<R, Trouble>) -> R {
    session::shared();
    if pg::in_recovery() {
        Error::InRecovery.raise();
    }
    insist_on_durable_commit_of_transaction();
    catalog::as_owner(work).unwrap_or_else(|trouble| trouble.raise())
}

fn claimant(node: String, clock: Option<i64>) -> Claimant<'static> {
    let now_us = pg::unix_us();
    Claimant {
        shared: session::shared(),
        node,
        is_server: false,
        worker: None,
        clock_us: clock.map_or(now_us, pg::to_unix_us),
        now_us,
        last_us: None,
        ahead_us: lease::default_ahead_us(),
    }
}

/// How far ahead of the clock a ceiling is to be, from an `interval`.
///
/// # Safety
/// `interval` is a valid datum of that type.
unsafe fn ahead(interval: Option<Datum>) -> i64 {
    let Some(interval) = interval else {
        return lease::default_ahead_us();
    };
    // SAFETY: the caller's promise.
    let us = unsafe { args::interval_us(interval) };
    match us {
        Some(us) if AHEAD_US.contains(&us) => us,
        _ => bad_argument(
            "ahead is out of range",
            "A ceiling is from 100 milliseconds to one day ahead.",
        ),
    }
}

thread_local! {
    /// Set while a lease is ended by its holder, who knows what was used.
    static RELEASING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which may lower a ceiling.
fn releasing<R>(work: impl FnOnce() -> R) -> R {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            RELEASING.set(false);
        }
    }
    RELEASING.set(true);
    let _end = End;
    work()
}

fn node(node: Option<&[u8]>) -> String {
    let node = node.unwrap_or_default();
    if node.is_empty() || args::characters(node) > MAX_NODE {
        bad_argument(
            "the name of a node must have 1 to 256 characters",
            "Name the node so that a person who reads leaf.worker knows it.",
        );
    }
    if node.starts_with(lease::SERVER.as_bytes()) {
        bad_argument(
            format!(
                "names of nodes that begin with \"{}\" are reserved",
                lease::SERVER
            ),
            "They are for the servers themselves.",
        );
    }
    String::from_utf8_lossy(node).into_owned()
}

/// Worker id, nonce and token, which prove that a lease is the caller's.
///
/// # Safety
/// The first three arguments are an `integer`, a `uuid` and a `bigint`.
unsafe fn proof(call: Call) -> Proof {
    // SAFETY: the caller's promise.
    let args = unsafe { [0, 1, 2].map(|number| call.optional_arg(number)) };
    let [Some(worker), Some(nonce), Some(token)] = args else {
        bad_argument(
            "worker id, nonce and token must not be null",
            "Give what leaf_worker_register and the last leaf_worker_renew returned.",
        );
    };
    // SAFETY: as above.
    let nonce = unsafe { args::uuid(nonce) };
    Proof {
        worker: i64::from(worker.value() as i32),
        nonce,
        token: token.value() as i64,
    }
}

v1_function! {
    /// Before a change of `leaf.worker`: the time up to which a worker id was used
    /// must not be forgotten while it may still be in use.
    ///
    /// # Safety
    /// Called by PostgreSQL.
    fn leaf_worker_check(call) {
match trigger::event(call) {
        Some((relation, Event::Insert { new })) => {
            let new = TriggerRow(new);
            check_scheme(&new, catalog::worker::scheme_in(relation));
            Datum::from(new.0.tuple())
        }
        Some((_, Event::Update { old, new })) => {
            let (old, new) = (TriggerRow(old), TriggerRow(new));
            Datum::from(check_update(&old, new).0.tuple())
        }
        Some((_, Event::Delete { old })) => {
            let old = TriggerRow(old);
            match old.ceiling() > pg::now() {
                // No row: it stays.
                true if trigger::is_replica() => Datum::from(0),
                true => in_use(&old),
                false => Datum::from(old.0.tuple()),
            }
        }
        Some((_, Event::Truncate)) => error::raise((
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot truncate leaf.worker".into(),
            Some("It would forget which worker ids are in use.".into()),
            "Delete the rows of nodes that are gone.".into(),
        )),
        _ => Error::NotATrigger { function: "leaf_worker_check", table: "leaf.worker" }.raise(),
    }
}
}

/// All rows have one layout and epoch.
fn check_scheme(row: &TriggerRow, registered: Option<Scheme>) {
    let Some(wanted) = row.scheme() else {
        bad_argument(
            "unknown layout",
            "Name one of the layouts that leaf.snowflake_layout takes.",
        );
    };
    if let Some(registered) = registered
        && registered != wanted
    {
        Trouble::OtherScheme { registered, wanted }.raise();
    }
}

/// The row as it may be stored. A replica takes what is not lower: its origin,
/// where a lease has ended early, was not wrong.
fn check_update(old: &TriggerRow, new: TriggerRow) -> TriggerRow {
    check_scheme(&new, old.scheme());
    if new.worker() != old.worker() {
        bad_argument(
            format!("worker id {} cannot become {}", old.worker(), new.worker()),
            "Register the node anew with leaf_worker_register.",
        );
    }
    if new.ceiling() >= old.ceiling() || RELEASING.get() {
        return new;
    }
    if !trigger::is_replica() {
        bad_argument(
            format!(
                "the ceiling of worker id {} cannot be lowered",
                old.worker()
            ),
            "Ids up to it may have been issued; the next lease starts there.",
        );
    }
    new.with_ceiling(old.ceiling())
}

fn in_use(old: &TriggerRow) -> ! {
    error::raise((
        Code::ERRCODE_OBJECT_IN_USE,
        format!("worker id {} is in use", old.worker()),
        Some(format!(
            "Node \"{}\" may issue ids with it until {}.",
            old.node(),
            pg::timestamp_text(old.ceiling())
        )),
        "Stop that node, or try again after that time.".into(),
    ))
}
