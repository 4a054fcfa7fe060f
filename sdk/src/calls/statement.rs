//! Every statement: its text, its parameters, and how to read the answer.
//!
//! Parameters carry their types, so that no statement has to be prepared under
//! a name. This works through poolers that give every transaction another server
//! connection.

use std::cmp::Ordering;
use std::time::{Duration, SystemTime};

use leaf_core::snowflake::Terms;
use leaf_core::time::WallTime;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::columns::Columns;
use super::types::{
    Aligned, Block, Decoded, Incarnation, NewTag, SnowflakeStatus, TagChange, TagStatus,
};
use crate::time::wall_time;
use crate::{Error, SegmentId, SnowflakeId};

/// A parameter and its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement that returns a `T`.
pub(crate) struct Statement<'a, T> {
    pub(crate) sql: &'static str,
    pub(crate) params: Vec<Param<'a>>,
    pub(crate) read: Read<T>,
}

/// Reads the rows of an answer.
pub(crate) type Read<T> = fn(&[&dyn Columns]) -> Result<T, Error>;

impl<'a, T> Statement<'a, T> {
    fn new(sql: &'static str, params: Vec<Param<'a>>, read: Read<T>) -> Self {
        Statement { sql, params, read }
    }

    /// Reads the rows of an answer.
    pub(crate) fn answer<R: Columns>(&self, rows: &[R]) -> Result<T, Error> {
        let rows: Vec<&dyn Columns> = rows.iter().map(|row| row as &dyn Columns).collect();
        (self.read)(&rows)
    }
}

pub(crate) fn segment_next<'a>(tag: &'a &str) -> Statement<'a, SegmentId> {
    Statement::new("SELECT leaf_segment_next($1)", vec![(tag, Type::TEXT)], one)
}

pub(crate) fn segment_batch<'a>(tag: &'a &str, count: &'a i32) -> Statement<'a, Vec<SegmentId>> {
    Statement::new(
        "SELECT leaf_segment_batch($1, $2)",
        vec![(tag, Type::TEXT), (count, Type::INT4)],
        all,
    )
}

pub(crate) fn segment_reserve<'a>(tag: &'a &str, count: &'a i64) -> Statement<'a, Block> {
    Statement::new(
        "SELECT lower(block), upper(block) - 1 FROM leaf_segment_reserve($1, $2) AS block",
        vec![(tag, Type::TEXT), (count, Type::INT8)],
        |rows| {
            let row = only(rows)?;
            Ok(Block {
                first: get(row, 0)?,
                last: get(row, 1)?,
            })
        },
    )
}

/// Like [`segment_reserve`], with the incarnation of the tag. Unless the statement
/// `may_create` the tag, it sets `leaf.auto_create` off for its own transaction, so that this
/// holds behind a pooler, too.
pub(crate) fn segment_fetch<'a>(
    tag: &'a &str,
    count: &'a i64,
    may_create: &'a bool,
) -> Statement<'a, (Incarnation, Block)> {
    Statement::new(
        "SELECT incarnation::text, lower(block), upper(block) - 1 \
           FROM leaf_tag_incarnation( \
                    CASE WHEN $3 THEN $1 WHEN set_config('leaf.auto_create', 'off', true) = 'off' \
                         THEN $1 END) AS incarnation, \
                LATERAL leaf_segment_reserve($1, $2, incarnation) AS block",
        vec![
            (tag, Type::TEXT),
            (count, Type::INT8),
            (may_create, Type::BOOL),
        ],
        |rows| {
            let row = only(rows)?;
            let block = Block {
                first: get(row, 1)?,
                last: get(row, 2)?,
            };
            Ok((Incarnation(get(row, 0)?), block))
        },
    )
}

/// The identity of a tag; `may_create` as for [`segment_fetch`].
pub(crate) fn tag_incarnation<'a>(
    tag: &'a &str,
    may_create: &'a bool,
) -> Statement<'a, Incarnation> {
    Statement::new(
        "SELECT leaf_tag_incarnation( \
             CASE WHEN $2 THEN $1 WHEN set_config('leaf.auto_create', 'off', true) = 'off' \
                  THEN $1 END)::text",
        vec![(tag, Type::TEXT), (may_create, Type::BOOL)],
        |rows| one(rows).map(Incarnation),
    )
}

pub(crate) fn segment_return<'a>(
    tag: &'a &str,
    first: &'a SegmentId,
    last: &'a SegmentId,
) -> Statement<'a, bool> {
    Statement::new(
        "SELECT leaf_segment_return($1, int8range($2, $3, '[]'))",
        vec![(tag, Type::TEXT), (first, Type::INT8), (last, Type::INT8)],
        one,
    )
}

pub(crate) fn snowflake_next<'a>() -> Statement<'a, SnowflakeId> {
    Statement::new("SELECT leaf_snowflake_next()", vec![], one)
}

pub(crate) fn snowflake_batch(count: &i32) -> Statement<'_, Vec<SnowflakeId>> {
    Statement::new(
        "SELECT leaf_snowflake_batch($1)",
        vec![(count, Type::INT4)],
        all,
    )
}

pub(crate) fn snowflake_decode(id: &SnowflakeId) -> Statement<'_, Decoded> {
    Statement::new(
        "SELECT created_at, worker_id, sequence FROM leaf_snowflake_decode($1)",
        vec![(id, Type::INT8)],
        |rows| {
            let row = only(rows)?;
            Ok(Decoded {
                created_at: get(row, 0)?,
                worker_id: get(row, 1)?,
                sequence: get(row, 2)?,
            })
        },
    )
}

pub(crate) fn snowflake_floor(at: &SystemTime) -> Statement<'_, SnowflakeId> {
    // The driver cannot send an instant that is out of the type's range.
    match beyond_range(*at) {
        Ordering::Less => Statement::new("SELECT leaf_snowflake_floor('-infinity')", vec![], one),
        Ordering::Greater => Statement::new("SELECT leaf_snowflake_floor('infinity')", vec![], one),
        Ordering::Equal => Statement::new(
            "SELECT leaf_snowflake_floor($1)",
            vec![(at, Type::TIMESTAMPTZ)],
            one,
        ),
    }
}

/// Whether an instant is before, within or after the range of type `timestamptz`, within
/// a few centuries: the server checks the rest.
fn beyond_range(at: SystemTime) -> Ordering {
    const CENTURIES: i64 = 10_000_000_000_000_000;
    match wall_time(at).unix_us() {
        us if us < i64::MIN + CENTURIES => Ordering::Less,
        us if us > i64::MAX - CENTURIES => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

pub(crate) fn tag_create<'a>(tag: &'a &str, new: &'a &NewTag) -> Statement<'a, ()> {
    Statement::new(
        "SELECT leaf_tag_create($1, step => $2, start => $3, max_value => $4, description => $5)",
        vec![
            (tag, Type::TEXT),
            (&new.step, Type::INT4),
            (&new.start, Type::INT8),
            (&new.max_value, Type::INT8),
            (&new.description, Type::TEXT),
        ],
        nothing,
    )
}

pub(crate) fn tag_alter<'a>(tag: &'a &str, change: &'a &TagChange) -> Statement<'a, ()> {
    Statement::new(
        "SELECT leaf_tag_alter($1, step => $2, advance_to => $3, max_value => $4, description => $5)",
        vec![
            (tag, Type::TEXT),
            (&change.step, Type::INT4),
            (&change.advance_to, Type::INT8),
            (&change.max_value, Type::INT8),
            (&change.description, Type::TEXT),
        ],
        nothing,
    )
}

pub(crate) fn tag_drop<'a>(tag: &'a &str) -> Statement<'a, ()> {
    Statement::new("SELECT leaf_tag_drop($1)", vec![(tag, Type::TEXT)], nothing)
}

pub(crate) fn tag_grant<'a>(tag: &'a &str, role: &'a &str) -> Statement<'a, ()> {
    Statement::new(
        "SELECT leaf_tag_grant($1, $2)",
        vec![(tag, Type::TEXT), (role, Type::NAME)],
        nothing,
    )
}

pub(crate) fn tag_revoke<'a>(tag: &'a &str, role: &'a &str) -> Statement<'a, ()> {
    Statement::new(
        "SELECT leaf_tag_revoke($1, $2)",
        vec![(tag, Type::TEXT), (role, Type::NAME)],
        nothing,
    )
}

pub(crate) fn tag_align<'a>(tag: &'a Option<&str>) -> Statement<'a, Vec<Aligned>> {
    Statement::new(
        "SELECT biz_tag, used_in, highest, position, moved, ignored FROM leaf_tag_align($1)",
        vec![(tag, Type::TEXT)],
        |rows| {
            let read = |row: &&dyn Columns| {
                let row = *row;
                Ok(Aligned {
                    tag: get(row, 0)?,
                    used_in: get(row, 1)?,
                    highest: get(row, 2)?,
                    position: get(row, 3)?,
                    moved: get(row, 4)?,
                    ignored: get(row, 5)?,
                })
            };
            rows.iter().map(read).collect()
        },
    )
}

pub(crate) fn tag_status<'a>(tag: &'a &str) -> Statement<'a, TagStatus> {
    Statement::new(
        "SELECT granted_up_to, position, current_left, next_left, step, loads, waits, \
                longest_wait_ms, timeouts, ids_per_second, last_error \
           FROM leaf.stat_segment WHERE biz_tag = $1",
        vec![(tag, Type::TEXT)],
        |rows| {
            let row = only(rows)?;
            Ok(TagStatus {
                granted_up_to: get(row, 0)?,
                position: get(row, 1)?,
                current_left: get(row, 2)?,
                next_left: get(row, 3)?,
                step: get(row, 4)?,
                loads: get(row, 5)?,
                waits: get(row, 6)?,
                longest_wait_ms: get(row, 7)?,
                timeouts: get(row, 8)?,
                ids_per_second: get(row, 9)?,
                last_error: get(row, 10)?,
            })
        },
    )
}

pub(crate) fn snowflake_status<'a>() -> Statement<'a, SnowflakeStatus> {
    Statement::new(
        "SELECT worker_id, layout, epoch, ceiling, last_issued_at, rollbacks, waits, \
                longest_wait_ms, timeouts, runs_out_at, last_error \
           FROM leaf.stat_snowflake",
        vec![],
        |rows| {
            let row = only(rows)?;
            Ok(SnowflakeStatus {
                worker_id: get(row, 0)?,
                layout: get(row, 1)?,
                epoch: get(row, 2)?,
                ceiling: get(row, 3)?,
                last_issued_at: get(row, 4)?,
                rollbacks: get(row, 5)?,
                waits: get(row, 6)?,
                longest_wait_ms: get(row, 7)?,
                timeouts: get(row, 8)?,
                runs_out_at: get(row, 9)?,
                last_error: get(row, 10)?,
            })
        },
    )
}

/// A parameter that is this machine's clock when the statement is sent. Read earlier, it
/// would be behind by the time that a connection takes.
#[derive(Debug)]
struct ClockAtSending;

impl ToSql for ClockAtSending {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut bytes::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        SystemTime::now().to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <SystemTime as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

/// What a node asks of the registry for its lease, as parameters.
pub(crate) struct LeaseRequest {
    ahead_seconds: f64,
}

impl LeaseRequest {
    /// Requests a ceiling that is `ahead` of the node's clock.
    pub(crate) fn new(ahead: Duration) -> Self {
        LeaseRequest {
            ahead_seconds: ahead.as_secs_f64(),
        }
    }
}

/// Whose lease it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registry {
    /// That of the registry's tables: another one is another registry.
    pub(crate) incarnation: String,
    /// The history of the registry's cluster, which a failover changes.
    pub(crate) history: String,
}

/// A lease as the registry grants it.
pub(crate) struct Granted {
    pub(crate) nonce: String,
    pub(crate) token: i64,
    pub(crate) terms: Terms,
    pub(crate) registry: Registry,
}

/// A renewal.
pub(crate) struct Renewed {
    pub(crate) token: i64,
    pub(crate) ceiling: WallTime,
    pub(crate) registry: Registry,
}

/// Repeated with the same nonce, returns the same lease.
pub(crate) fn worker_register<'a>(
    node: &'a String,
    worker_id: &'a Option<i32>,
    request: &'a LeaseRequest,
    nonce: &'a String,
) -> Statement<'a, Granted> {
    Statement::new(
        "SELECT nonce::text, token, registry::text, history, \
                worker_id, layout, epoch, start_at, ceiling \
           FROM leaf_worker_register($1, $2, $3, make_interval(secs => $4), $5::text::uuid)",
        vec![
            (node, Type::TEXT),
            (worker_id, Type::INT4),
            (&ClockAtSending, Type::TIMESTAMPTZ),
            (&request.ahead_seconds, Type::FLOAT8),
            (nonce, Type::TEXT),
        ],
        |rows| {
            let row = only(rows)?;
            let layout: String = get(row, 5)?;
            let (epoch, start, ceiling) = (instant(row, 6)?, instant(row, 7)?, instant(row, 8)?);
            let terms = Terms::read(get(row, 4)?, &layout, epoch, start, ceiling);
            Ok(Granted {
                nonce: get(row, 0)?,
                token: get(row, 1)?,
                terms: terms.map_err(|error| Error::Protocol(error.to_string()))?,
                registry: registry(row, 2)?,
            })
        },
    )
}

/// Returns the new token, which is `next_token`, and the ceiling. Repeated with the same
/// `next_token`, returns the same.
pub(crate) fn worker_renew<'a>(
    worker_id: &'a i32,
    nonce: &'a String,
    token: &'a i64,
    request: &'a LeaseRequest,
    next_token: &'a i64,
) -> Statement<'a, Renewed> {
    Statement::new(
        "SELECT token, ceiling, registry::text, history \
           FROM leaf_worker_renew($1, $2::text::uuid, $3, $4, make_interval(secs => $5), $6)",
        vec![
            (worker_id, Type::INT4),
            (nonce, Type::TEXT),
            (token, Type::INT8),
            (&ClockAtSending, Type::TIMESTAMPTZ),
            (&request.ahead_seconds, Type::FLOAT8),
            (next_token, Type::INT8),
        ],
        |rows| {
            let row = only(rows)?;
            Ok(Renewed {
                token: get(row, 0)?,
                ceiling: instant(row, 1)?,
                registry: registry(row, 2)?,
            })
        },
    )
}

/// Two columns: the registry's incarnation and its history.
fn registry(row: &dyn Columns, column: usize) -> Result<Registry, Error> {
    Ok(Registry {
        incarnation: get(row, column)?,
        history: get(row, column + 1)?,
    })
}

pub(crate) fn worker_release<'a>(
    worker_id: &'a i32,
    nonce: &'a String,
    token: &'a i64,
    used_until: &'a SystemTime,
) -> Statement<'a, ()> {
    Statement::new(
        "SELECT leaf_worker_release($1, $2::text::uuid, $3, $4)",
        vec![
            (worker_id, Type::INT4),
            (nonce, Type::TEXT),
            (token, Type::INT8),
            (used_until, Type::TIMESTAMPTZ),
        ],
        nothing,
    )
}

#[cfg(feature = "mask")]
pub(crate) fn mask<'a>(
    tag: &'a &str,
    width: &'a crate::MaskWidth,
    version: &'a Option<i32>,
) -> Statement<'a, crate::Mask> {
    use crate::MaskWidth;
    let bits: &i32 = match width {
        MaskWidth::Bits53 => &53,
        MaskWidth::Bits63 => &63,
    };
    Statement::new(
        "SELECT version, key, $2 FROM leaf_mask_key($1, $2, $3)",
        vec![(tag, Type::TEXT), (bits, Type::INT4), (version, Type::INT4)],
        |rows| {
            let row = only(rows)?;
            let key: Vec<u8> = get(row, 1)?;
            let key = key.as_slice().try_into();
            let width = MaskWidth::of(get(row, 2)?);
            match (key, width) {
                (Ok(key), Some(width)) => Ok(crate::Mask::new(get(row, 0)?, key, width)),
                _ => Err(Error::Protocol("this is not the key of a mask".into())),
            }
        },
    )
}

pub(crate) fn mask_rotate<'a>(tag: &'a &str) -> Statement<'a, i32> {
    Statement::new("SELECT leaf_mask_rotate($1)", vec![(tag, Type::TEXT)], one)
}

/// A `timestamptz`.
fn instant(row: &dyn Columns, column: usize) -> Result<WallTime, Error> {
    let at: SystemTime = get(row, column)?;
    Ok(wall_time(at))
}

fn only<'r>(rows: &[&'r dyn Columns]) -> Result<&'r dyn Columns, Error> {
    match rows {
        [row] => Ok(*row),
        rows => Err(Error::Protocol(format!(
            "{} rows instead of one",
            rows.len()
        ))),
    }
}

fn get<'r, T: FromSql<'r>>(row: &'r dyn Columns, column: usize) -> Result<T, Error> {
    let (of, raw) = row.column(column)?;
    if raw.is_some() && !T::accepts(&of) {
        return Err(Error::Protocol(format!("column {column} has type {of}")));
    }
    T::from_sql_nullable(&of, raw).map_err(|error| Error::Protocol(error.to_string()))
}

fn one<T: for<'r> FromSql<'r>>(rows: &[&dyn Columns]) -> Result<T, Error> {
    get(only(rows)?, 0)
}

fn all<T: for<'r> FromSql<'r>>(rows: &[&dyn Columns]) -> Result<Vec<T>, Error> {
    rows.iter().map(|row| get(*row, 0)).collect()
}

fn nothing(_: &[&dyn Columns]) -> Result<(), Error> {
    Ok(())
}
