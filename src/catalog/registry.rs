//! `leaf.worker`: the registry of worker ids.

use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use pgrx::datum::{DatumWithOid, TimestampWithTimeZone};
use pgrx::pg_sys;

use super::relation;
use super::statement::{ResultRow, bigint, column_of, execute, query, text, uuid};
use crate::pg::datum::{Arg, bigint_arg, text_arg, timestamp_arg, uuid_arg};
use crate::pg::{clock, heap};
use crate::shmem::generators::Lease;

/// Columns that are read without SQL.
mod column {
    pub const WORKER_ID: i16 = 1;
    pub const NODE: i16 = 2;
    pub const LAYOUT: i16 = 6;
    pub const EPOCH: i16 = 7;
    pub const CEILING: i16 = 8;
}

/// Begins a query whose rows are passed to [`read`].
macro_rules! select {
    () => {
        "SELECT worker_id::bigint, node, nonce, token, history, layout, epoch, ceiling, leased_until, \
                start_at, (clock_offset_ms * 1000)::bigint \
           FROM leaf.worker "
    };
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
    /// How far its holder's clock was ahead of the registry's.
    pub clock_offset_us: i64,
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

    /// Whether its lease has not expired at the instant `now`.
    pub fn is_live(&self, now: WallTime) -> bool {
        self.leased_until >= now
    }
}

/// What a registration or renewal writes.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    pub lease: Lease,
    pub node: &'a str,
    pub history: &'a str,
    pub leased_until: WallTime,
    pub now: WallTime,
    pub clock_offset_us: i64,
}

/// Blocks other registrations until the transaction ends, but not renewals.
pub fn lock_registry() {
    execute("LOCK TABLE leaf.worker IN SHARE UPDATE EXCLUSIVE MODE", &[]);
}

/// All rows.
pub fn all() -> Vec<Registered> {
    query(concat!(select!(), "ORDER BY worker_id"), &[], read)
}

/// Layout and epoch as they were first registered, if they were.
pub fn registered_scheme() -> Option<Scheme> {
    scheme_in(relation::worker()?)
}

/// Layout and epoch of an arbitrary row of the registry; all rows have the same.
pub fn scheme_in(registry: pg_sys::Oid) -> Option<Scheme> {
    heap::any_row(registry, scheme_of).flatten()
}

fn scheme_of(row: &heap::Row) -> Option<Scheme> {
    let layout = String::from_utf8_lossy(row.text(column::LAYOUT)?).parse();
    Some(Scheme {
        layout: layout.ok()?,
        epoch: row.timestamp(column::EPOCH)?,
    })
}

fn to_scheme(layout: &str, epoch: WallTime) -> Scheme {
    let layout = layout.parse();
    Scheme {
        layout: layout
            .unwrap_or_else(|error| pgrx::error!("unexpected layout in leaf.worker: {error}")),
        epoch,
    }
}

/// A row of `leaf.worker` in a trigger.
pub struct TriggerRow(pub heap::Row);

impl TriggerRow {
    pub fn worker_id(&self) -> i32 {
        self.0.integer(column::WORKER_ID).unwrap_or_default()
    }

    pub fn node(&self) -> String {
        let node = self.0.text(column::NODE).unwrap_or_default();
        String::from_utf8_lossy(node).into_owned()
    }

    /// Layout and epoch; `None` if they are not valid.
    pub fn scheme(&self) -> Option<Scheme> {
        scheme_of(&self.0)
    }

    pub fn ceiling(&self) -> WallTime {
        self.0.timestamp(column::CEILING).unwrap_or_default()
    }

    /// The row with another ceiling.
    pub fn with_ceiling(self, ceiling: WallTime) -> TriggerRow {
        let ceiling = pg_sys::Datum::from(clock::to_timestamp(ceiling));
        let row = self.0.with(column::CEILING, ceiling);
        TriggerRow(row)
    }
}

fn read(row: &ResultRow<'_>) -> Registered {
    Registered {
        worker_id: bigint(row, 1),
        node: text(row, 2),
        nonce: uuid(row, 3),
        token: bigint(row, 4),
        history: text(row, 5),
        layout: text(row, 6),
        epoch: instant(row, 7),
        ceiling: instant(row, 8),
        leased_until: instant(row, 9),
        start_at: instant_or_null(row, 10),
        clock_offset_us: bigint(row, 11),
    }
}

/// Writes a registration over the row `over`, or into a new row if that is `None`; `false`
/// if the row has changed since it was read.
pub fn register(
    registration: &Registration<'_>,
    scheme: &Scheme,
    over: Option<&Registered>,
) -> bool {
    let mut args = values(registration);
    args.push(timestamp_arg(registration.lease.from));
    args.push(text_arg(scheme.layout.to_string().as_bytes()));
    args.push(timestamp_arg(scheme.epoch));
    let Some(over) = over else {
        return execute(
            "INSERT INTO leaf.worker (worker_id, nonce, token, ceiling, leased_until, renewed_at, \
                                      clock_offset_ms, history, node, start_at, layout, epoch, registered_at) \
             VALUES ($1::integer, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $6) \
                 ON CONFLICT (worker_id) DO NOTHING",
            &args,
        ) == 1;
    };
    args.push(uuid_arg(over.nonce));
    args.push(bigint_arg(over.token));
    execute(
        "UPDATE leaf.worker \
            SET nonce = $2, token = $3, ceiling = $4, leased_until = $5, renewed_at = $6, \
                clock_offset_ms = $7, history = $8, node = $9, start_at = $10, layout = $11, epoch = $12, \
                registered_at = $6 \
          WHERE worker_id = $1 AND nonce = $13 AND token = $14",
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
    query(
        concat!(select!(), "WHERE nonce = $1 LIMIT 1"),
        &[uuid_arg(nonce)],
        read,
    )
    .pop()
}

/// The row of a lease, locked until the transaction ends.
pub fn lock_row(worker_id: i64) -> Option<Registered> {
    query(
        concat!(select!(), "WHERE worker_id = $1 FOR NO KEY UPDATE"),
        &[bigint_arg(worker_id)],
        read,
    )
    .pop()
}

/// Ends a lease, whose row is locked: from now on, the worker id may be leased to another
/// node, which begins at `ceiling`.
pub fn release(worker_id: i64, ceiling: WallTime, now: WallTime) {
    execute(
        "UPDATE leaf.worker SET leased_until = $3, ceiling = $2, token = token + 1 \
          WHERE worker_id = $1",
        &[
            bigint_arg(worker_id),
            timestamp_arg(ceiling),
            timestamp_arg(now),
        ],
    );
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
        text_arg(registration.history.as_bytes()),
        text_arg(registration.node.as_bytes()),
    ]
}

fn instant(row: &ResultRow<'_>, ordinal: usize) -> WallTime {
    instant_or_null(row, ordinal).expect("the column is not null")
}

fn instant_or_null(row: &ResultRow<'_>, ordinal: usize) -> Option<WallTime> {
    let at = column_of::<TimestampWithTimeZone>(row, ordinal)?;
    Some(clock::from_timestamp(at.into()))
}
