//! `leaf.worker`: the registry of worker ids.

use std::ffi::CStr;
use std::ops::Range;

use leaf_core::snowflake::lease::{HeldLease, Identity};
use leaf_core::snowflake::{Scheme, Terms};
use leaf_core::time::WallTime;
use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};

use super::intent::{self, Intent};
use super::statement::{
    ResultColumn, ResultRow, bigint, column_of, execute, optional_text, query, query_latest, text,
    uuid,
};
use super::{relation, worker_row};
use crate::pg::datum::{
    Arg, bigint_arg, optional_text_arg, string_arg, text_arg, timestamp_arg, uuid_arg,
};
use crate::pg::encoding::encode;
use crate::pg::{clock, guc};
use crate::shmem::generators::Lease;

/// Begins a query whose rows are passed to [`read`].
macro_rules! select {
    () => {
        "SELECT worker_id::bigint AS worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until, \
                start_at, leased_by::text AS leased_by \
           FROM leaf.worker "
    };
}

/// Which registry this is: a random number that was made with it.
pub fn incarnation() -> [u8; 16] {
    let statement = "SELECT last_value FROM leaf.registry_incarnation";
    let number = query(statement, &[], |row| bigint(row, 1)).pop();
    u128::to_be_bytes(number.unwrap_or_default().unsigned_abs().into())
}

/// The latest time of an id that any node may have issued; the beginning of time if none has.
pub fn latest_ceiling() -> WallTime {
    let ceilings = relation::as_owner(|| {
        query_latest(
            "SELECT max(ceiling) FROM leaf.worker WHERE isfinite(ceiling)",
            &[],
            |row| column_of::<TimestampWithTimeZone>(row, 1),
        )
    });
    let ceiling = ceilings.into_iter().next().flatten();
    ceiling.map_or(WallTime::from_unix_us(0), |ceiling| {
        clock::from_timestamp(ceiling.into())
    })
}

/// A row of the registry.
#[derive(Clone, Debug)]
pub struct Registered {
    pub worker_id: i64,
    /// The node that holds the worker id, or held it last.
    pub node: String,
    pub nonce: [u8; 16],
    pub token: i64,
    /// The history of the database in which it was last renewed.
    pub history: String,
    pub layout: String,
    pub epoch: WallTime,
    pub ceiling: WallTime,
    pub leased_until: WallTime,
    /// Where the ids of the lease begin, if that is known.
    pub start_at: Option<WallTime>,
    /// The role that has registered it, unless that was a superuser.
    pub leased_by: Option<String>,
}

impl Registered {
    /// Layout and epoch, as registered.
    pub fn scheme(&self) -> Scheme {
        to_scheme(&self.layout, self.epoch)
    }

    /// The lease that the row records.
    pub fn lease(&self) -> Lease {
        Lease {
            worker_id: self.worker_id as u64,
            nonce: self.nonce,
            token: self.token,
            from: WallTime::MIN,
            ceiling: self.ceiling,
        }
    }
}

/// A lease from the centre, as the row of this server keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamLease {
    /// Its terms begin with the epoch: where they really begin was used up when it was granted.
    pub held: HeldLease,
    /// Where the centre was reached.
    pub address: String,
    /// A digest of the setting with which it was.
    pub setting: String,
}

/// The lease from the centre that a server's own row keeps, if it has one.
pub fn upstream_lease(node: &str) -> Option<UpstreamLease> {
    query_by_index(
        "SELECT worker_id::bigint AS worker_id, upstream_nonce, upstream_token, upstream_ceiling, upstream_registry, \
                upstream_history, upstream_address, upstream_setting, layout, epoch FROM leaf.worker \
          WHERE node = $1 AND node ^@ 'server '::text AND upstream_token IS NOT NULL AND upstream_registry IS NOT NULL \
          ORDER BY upstream_ceiling DESC LIMIT 1",
        &[string_arg(node)],
        |row| {
            let epoch = instant(row, "epoch");
            let terms = Terms::read(
                bigint(row, "worker_id") as i32,
                &text(row, "layout"),
                epoch,
                epoch,
                instant(row, "upstream_ceiling"),
            );
            let registry = Identity {
                incarnation: uuid(row, "upstream_registry"),
                history: text(row, "upstream_history"),
            };
            let (nonce, token) = (uuid(row, "upstream_nonce"), bigint(row, "upstream_token"));
            Some(UpstreamLease {
                held: HeldLease::granted(terms.ok()?, nonce, token, registry),
                address: text(row, "upstream_address"),
                setting: text(row, "upstream_setting"),
            })
        },
    )
    .pop()
    .flatten()
}

/// Keeps a lease from the centre in the row of its worker id.
pub fn keep_upstream_lease(lease: &UpstreamLease) {
    let held = &lease.held;
    execute(
        "UPDATE leaf.worker SET upstream_nonce = $2, upstream_token = $3, upstream_ceiling = $4, \
                upstream_registry = $5, upstream_history = $6, upstream_address = $7, upstream_setting = $8 \
          WHERE worker_id = $1",
        &[
            bigint_arg(i64::from(held.terms.worker_id)),
            uuid_arg(held.nonce),
            bigint_arg(held.token),
            timestamp_arg(held.terms.ceiling),
            uuid_arg(held.registry.incarnation),
            string_arg(&held.registry.history),
            string_arg(&lease.address),
            string_arg(&lease.setting),
        ],
    );
}

/// Forgets the leases from the centre of a server, which has lost them.
pub fn forget_upstream_leases(node: &str) {
    execute(
        "UPDATE leaf.worker SET upstream_nonce = NULL, upstream_token = NULL WHERE node = $1",
        &[string_arg(node)],
    );
}

/// Whether a worker id was ever leased from a centre: the registry does not lease any itself
/// then.
pub fn is_of_shard() -> bool {
    let statement = "SELECT 1::bigint FROM leaf.worker WHERE upstream_ceiling IS NOT NULL LIMIT 1";
    !query_by_index(statement, &[], |row| bigint(row, 1)).is_empty()
}

/// How many worker ids a role holds at an instant, up to `limit`.
pub fn leases_of(role: &CStr, now: WallTime, limit: u64) -> u64 {
    let statement = "SELECT count(*) FROM (SELECT FROM leaf.worker \
                      WHERE leased_by = $1::name AND leased_until >= $2 LIMIT $3) AS held";
    let args = [
        text_arg(role.to_bytes()),
        timestamp_arg(now),
        bigint_arg(limit as i64),
    ];
    let counted = query_by_index(statement, &args, |row| bigint(row, 1));
    counted.into_iter().next().unwrap_or_default() as u64
}

/// The values that a registration or renewal writes.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    pub lease: Lease,
    pub node: &'a str,
    pub history: &'a str,
    pub leased_until: WallTime,
    pub now: WallTime,
    pub clock_offset_us: i64,
}

/// The row of a worker id, if it was ever leased.
pub fn row(worker_id: i64) -> Option<Registered> {
    let sql = concat!(select!(), "WHERE worker_id = $1");
    query(sql, &[bigint_arg(worker_id)], read).pop()
}

/// The rows of a server. There is an index for these names only.
pub fn rows_of_server(node: &str) -> Vec<Registered> {
    query_by_index(
        concat!(select!(), "WHERE node = $1 AND node ^@ 'server '::text"),
        &[string_arg(node)],
        read,
    )
}

/// The rows of this server in earlier histories, and of those whose standby it was: the last of
/// them first.
pub fn rows_of_former_servers() -> Vec<Registered> {
    query_by_index(
        concat!(
            select!(),
            "WHERE node = 'server '::text || history AND node ^@ 'server '::text \
             ORDER BY leased_until DESC LIMIT 100"
        ),
        &[],
        read,
    )
}

/// Makes the worker ids of servers that were leased in other histories available, or just this
/// one, of whatever node. Returns how many. Other nodes than servers go on with their leases after
/// a promotion.
pub fn take_over(history: &str, worker_id: Option<u64>, now: WallTime) -> usize {
    execute(
        "UPDATE leaf.worker SET history = $1, leased_until = least(leased_until, $3), token = 1, \
                nonce = pg_catalog.gen_random_uuid() \
          WHERE history <> $1 AND CASE WHEN $2::bigint IS NULL THEN node ^@ 'server '::text ELSE worker_id = $2 END",
        &[
            string_arg(history),
            bigint_arg(worker_id.map(|worker_id| worker_id as i64)),
            timestamp_arg(now),
        ],
    )
}

/// The rows of a history whose leases ran out before an instant, the earliest first, up to
/// `limit` of them. Only worker ids below `worker_ids`.
pub fn expired(history: &str, before: WallTime, worker_ids: u64, limit: i64) -> Vec<Registered> {
    query_by_index(
        concat!(
            select!(),
            "WHERE history = $1 AND leased_until < $2 AND worker_id < $3 \
             ORDER BY leased_until LIMIT $4"
        ),
        &[
            string_arg(history),
            timestamp_arg(before),
            bigint_arg(worker_ids as i64),
            bigint_arg(limit),
        ],
        read,
    )
}

/// The row of another history whose lease ran out first, if that was before an instant.
/// Reads all rows of other histories.
pub fn expired_elsewhere(history: &str, before: WallTime, worker_ids: u64) -> Option<Registered> {
    query(
        concat!(
            select!(),
            "WHERE history <> $1 AND leased_until < $2 AND worker_id < $3 \
             ORDER BY leased_until, worker_id LIMIT 1"
        ),
        &[
            string_arg(history),
            timestamp_arg(before),
            bigint_arg(worker_ids as i64),
        ],
        read,
    )
    .pop()
}

/// The node with most leases that have not run out, and how many it has.
pub fn most_leases(now: WallTime) -> Option<(String, i64)> {
    query(
        "SELECT node, count(*) AS leases FROM leaf.worker WHERE leased_until >= $1 \
          GROUP BY node ORDER BY leases DESC, node LIMIT 1",
        &[timestamp_arg(now)],
        |row| (text(row, "node"), bigint(row, "leases")),
    )
    .pop()
}

/// Whether nodes hold leases, besides the servers themselves.
pub fn has_leases_of_nodes(now: WallTime) -> bool {
    let found = query(
        "SELECT EXISTS (SELECT FROM leaf.worker WHERE leased_until >= $1 AND NOT node ^@ 'server '::text)::integer::bigint",
        &[timestamp_arg(now)],
        |row| bigint(row, 1),
    );
    found != [0]
}

/// Whether there are rows of other histories than this one.
pub fn has_other_histories(history: &str) -> bool {
    // The ends of an index: comparing each row would read all of them.
    let found = query_by_index(
        "SELECT coalesce(min(history) <> $1 OR max(history) <> $1, false)::integer::bigint FROM leaf.worker",
        &[string_arg(history)],
        |row| bigint(row, 1),
    );
    found != [0]
}

/// How far the clocks of live nodes are ahead of the registry's, in microseconds: of those
/// whose leases in this history last longest, without the node `except`.
pub fn clock_offsets(history: &str, now: WallTime, except: Option<&str>) -> Vec<i64> {
    let except = except.map(encode);
    // Enough for a median that no single node can move. An offset that is no number is none.
    query_by_index(
        "SELECT (clock_offset_ms * 1000)::bigint FROM leaf.worker \
          WHERE history = $1 AND leased_until >= $2 AND node IS DISTINCT FROM $3 \
            AND clock_offset_ms BETWEEN -1e12 AND 1e12 \
          ORDER BY leased_until DESC LIMIT 100",
        &[
            string_arg(history),
            timestamp_arg(now),
            optional_text_arg(except.as_deref()),
        ],
        |row| bigint(row, 1),
    )
}

/// The worker ids of a range that have rows.
pub fn worker_ids_in(range: &Range<u64>) -> Vec<u64> {
    query_by_index(
        "SELECT worker_id::bigint FROM leaf.worker WHERE worker_id >= $1 AND worker_id < $2",
        &[bigint_arg(range.start as i64), bigint_arg(range.end as i64)],
        |row| bigint(row, 1) as u64,
    )
}

/// The highest worker id that has a row.
pub fn highest_worker_id() -> Option<u64> {
    let sql = "SELECT max(worker_id)::bigint FROM leaf.worker HAVING max(worker_id) IS NOT NULL";
    query_by_index(sql, &[], |row| bigint(row, 1) as u64).pop()
}

/// Layout and epoch as they were first registered, if they were.
pub fn registered_scheme() -> Option<Scheme> {
    worker_row::scheme_in(relation::worker()?)
}

fn to_scheme(layout: &str, epoch: WallTime) -> Scheme {
    let layout = layout.parse();
    Scheme {
        layout: layout
            .unwrap_or_else(|error| pgrx::error!("unexpected layout in leaf.worker: {error}")),
        epoch,
    }
}

/// Like [`query`], for a statement that an index answers.
fn query_by_index<R>(statement: &str, args: &[Arg], read: impl Fn(&ResultRow<'_>) -> R) -> Vec<R> {
    guc::in_order_of_an_index(|| query(statement, args, read))
}

fn read(row: &ResultRow<'_>) -> Registered {
    Registered {
        worker_id: bigint(row, "worker_id"),
        node: text(row, "node"),
        nonce: uuid(row, "nonce"),
        token: bigint(row, "token"),
        history: text(row, "history"),
        layout: text(row, "layout"),
        epoch: instant(row, "epoch"),
        ceiling: instant(row, "ceiling"),
        leased_until: instant(row, "leased_until"),
        start_at: instant_or_null(row, "start_at"),
        leased_by: optional_text(row, "leased_by"),
    }
}

/// Writes a registration over the row `over`, or into a new row if that is `None`; `false`
/// if the row has changed since it was read.
pub fn register(
    registration: &Registration<'_>,
    scheme: &Scheme,
    leased_by: Option<&CStr>,
    over: Option<&Registered>,
) -> bool {
    let mut args = values(registration);
    args.push(timestamp_arg(registration.lease.from));
    args.push(string_arg(&scheme.layout.to_string()));
    args.push(timestamp_arg(scheme.epoch));
    args.push(optional_text_arg(leased_by.map(CStr::to_bytes)));
    let Some(over) = over else {
        return execute(
            "INSERT INTO leaf.worker (worker_id, nonce, token, ceiling, leased_until, renewed_at, \
                                      clock_offset_ms, history, node, start_at, layout, epoch, registered_at, leased_by) \
             VALUES ($1::integer, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $6, $13::name) \
                 ON CONFLICT (worker_id) DO NOTHING",
            &args,
        ) == 1;
    };
    args.push(uuid_arg(over.nonce));
    args.push(bigint_arg(over.token));
    execute(
        "UPDATE leaf.worker \
            SET nonce = $2, token = $3, ceiling = $4, leased_until = $5, renewed_at = $6, \
                clock_offset_ms = $7, history = $8, node = $9, start_at = $10, \
                layout = $11, epoch = $12, registered_at = $6, leased_by = $13::name, \
                upstream_nonce = NULL, upstream_token = NULL \
          WHERE worker_id = $1 AND nonce = $14 AND token = $15",
        &args,
    ) == 1
}

/// Writes a renewal; `false` unless the row has the nonce of the lease and `token`, and a
/// ceiling that is not above the new one.
pub fn renew(registration: &Registration<'_>, token: i64) -> bool {
    let mut args = values(registration);
    args.push(bigint_arg(token));
    execute(
        "UPDATE leaf.worker \
            SET token = $3, ceiling = $4, leased_until = $5, renewed_at = $6, clock_offset_ms = $7, \
                history = $8, node = $9 \
          WHERE worker_id = $1 AND nonce = $2 AND token = $10 AND ceiling <= $4",
        &args,
    ) == 1
}

/// The row with the nonce, if there is one.
pub fn by_nonce(nonce: [u8; 16]) -> Option<Registered> {
    query_by_index(
        concat!(select!(), "WHERE nonce = $1 LIMIT 1"),
        &[uuid_arg(nonce)],
        read,
    )
    .pop()
}

/// Locks the row of a worker id until the transaction ends; `false` if another transaction has it
/// locked. A worker id without a row is free.
pub fn lock_at_once(worker_id: i64) -> bool {
    let sql =
        "SELECT 1::bigint FROM leaf.worker WHERE worker_id = $1 FOR NO KEY UPDATE SKIP LOCKED";
    let args = [bigint_arg(worker_id)];
    !query(sql, &args, |row| bigint(row, 1)).is_empty() || row(worker_id).is_none()
}

/// The row of the lease with this nonce, locked until the transaction ends.
pub fn lock_row(worker_id: i64, nonce: [u8; 16]) -> Option<Registered> {
    query(
        concat!(
            select!(),
            "WHERE worker_id = $1 AND nonce = $2 FOR NO KEY UPDATE"
        ),
        &[bigint_arg(worker_id), uuid_arg(nonce)],
        read,
    )
    .pop()
}

/// Ends a lease, whose row is locked: from the instant `leased_until` on, the worker id may be
/// leased to another node, which begins at `ceiling`. A lease that has ended is not prolonged.
pub fn release(worker_id: i64, ceiling: WallTime, leased_until: WallTime) {
    intent::with(Intent::Release { worker_id }, || {
        execute(
            "UPDATE leaf.worker SET leased_until = least(leased_until, $3), ceiling = $2, token = abs(token) + 1 \
              WHERE worker_id = $1",
            &[
                bigint_arg(worker_id),
                timestamp_arg(ceiling),
                timestamp_arg(leased_until),
            ],
        )
    });
}

/// The values that both a registration and a renewal write, $1 to $9.
fn values(registration: &Registration<'_>) -> Vec<Arg> {
    let lease = &registration.lease;
    vec![
        bigint_arg(lease.worker_id as i64),
        uuid_arg(lease.nonce),
        bigint_arg(lease.token),
        timestamp_arg(lease.ceiling),
        timestamp_arg(registration.leased_until),
        timestamp_arg(registration.now),
        DatumWithOid::from(registration.clock_offset_us as f64 / 1e3),
        string_arg(registration.history),
        string_arg(registration.node),
    ]
}

fn instant(row: &ResultRow<'_>, column: impl ResultColumn) -> WallTime {
    instant_or_null(row, column).expect("the column is not null")
}

fn instant_or_null(row: &ResultRow<'_>, column: impl ResultColumn) -> Option<WallTime> {
    let at = column_of::<TimestampWithTimeZone>(row, column)?;
    Some(clock::from_timestamp(at.into()))
}
