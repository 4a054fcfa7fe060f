//! The statements of the background tasks.

use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use leaf_core::snowflake::Terms;
use leaf_core::snowflake::lease::{Held, Identity, Nonce};
use leaf_core::time::WallTime;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::rows::{Record, get, row};
use super::statement::{Kind, Statement, statements};
use super::types::{Block, Incarnation};
use crate::time::wall_time;
use crate::{Error, SegmentId};

statements! {
    /// Whether the server takes back the unused end of a block.
    segment_return(tag: &str, first: SegmentId, last: SegmentId) -> bool,
        leaf_segment_return {
            tag: Text = tag.to_owned(),
            block: Int8range = format!("[{first},{last}]")
        };
    /// Repeated with the same nonce, returns the same lease.
    worker_register(node: &str, worker_id: Option<i32>, ahead: Duration, nonce: Nonce) -> Held,
        leaf_worker_register {
            node: Text = node.to_owned(),
            worker_id: Integer = worker_id,
            clock: Timestamptz = ClockAtSending,
            ahead: Interval = ahead.as_secs_f64(),
            nonce: Uuid = uuid::Uuid::from_bytes(nonce).to_string()
        };
    /// Returns the new token, which is `next_token`, and the ceiling. Repeated with the same
    /// `next_token`, returns the same.
    worker_renew(worker_id: i32, nonce: Nonce, token: i64, ahead: Duration, next_token: i64) -> Renewed,
        leaf_worker_renew {
            worker_id: Integer = worker_id,
            nonce: Uuid = uuid::Uuid::from_bytes(nonce).to_string(),
            token: Bigint = token,
            clock: Timestamptz = ClockAtSending,
            ahead: Interval = ahead.as_secs_f64(),
            next_token: Bigint = next_token
        };
    /// Ends a lease.
    worker_release(worker_id: i32, nonce: Nonce, token: i64, used_until: SystemTime) -> (),
        leaf_worker_release {
            worker_id: Integer = worker_id,
            nonce: Uuid = uuid::Uuid::from_bytes(nonce).to_string(),
            token: Bigint = token,
            used_until: Timestamptz = used_until
        };
}

/// A block and the incarnation of its tag. Unless the statement `may_create` the tag, it sets
/// `leaf.auto_create` off for its own transaction, so that this holds behind a pooler, too.
pub(crate) fn segment_fetch(tag: &str, count: i64, may_create: bool) -> Statement<Fetched> {
    Statement::select(
        "leaf_tag_incarnation( \
             CASE WHEN $3 THEN $1 WHEN set_config('leaf.auto_create', 'off', true) = 'off' \
                  THEN $1 END) AS incarnation, \
         LATERAL leaf_segment_reserve($1, $2, incarnation) AS block",
        vec![
            (Box::new(tag.to_owned()), Type::TEXT),
            (Box::new(count), Type::INT8),
            (Box::new(may_create), Type::BOOL),
        ],
    )
}

/// The identity of a tag; `may_create` as for [`segment_fetch`].
pub(crate) fn tag_incarnation(tag: &str, may_create: bool) -> Statement<Option<String>> {
    Statement::select(
        "leaf_tag_incarnation( \
             CASE WHEN $2 THEN $1 WHEN set_config('leaf.auto_create', 'off', true) = 'off' \
                  THEN $1 END) AS answer",
        vec![
            (Box::new(tag.to_owned()), Type::TEXT),
            (Box::new(may_create), Type::BOOL),
        ],
    )
}

row! {
    /// A block and the incarnation of its tag.
    pub(crate) struct Fetched {
        incarnation: String = "incarnation::text",
        first: SegmentId = "lower(block)",
        last: SegmentId = "upper(block) - 1",
    }
}

impl Fetched {
    pub(crate) fn parts(self) -> (Incarnation, Block) {
        let Fetched {
            incarnation,
            first,
            last,
        } = self;
        (Incarnation(incarnation), Block { first, last })
    }
}

/// A parameter that is this machine's clock when the statement is sent. Read earlier, it
/// would be behind by the time that a connection takes.
#[derive(Debug)]
struct ClockAtSending;

impl ToSql for ClockAtSending {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        SystemTime::now().to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <SystemTime as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

/// A lease as the registry grants it.
impl Record for Held {
    fn columns() -> Option<String> {
        let columns = "nonce::text, token, registry::text, history, worker_id, layout, epoch, \
                       start_at, ceiling";
        Some(columns.into())
    }

    fn of(row: &Row) -> Result<Self, Error> {
        let layout: String = get(row, "layout")?;
        let terms = Terms::read(
            get(row, "worker_id")?,
            &layout,
            instant(row, "epoch")?,
            instant(row, "start_at")?,
            instant(row, "ceiling")?,
        );
        let terms = terms.map_err(|error| Error::Protocol(error.to_string()))?;
        let (nonce, token) = (uuid(row, "nonce")?, get(row, "token")?);
        Ok(Held::granted(terms, nonce, token, registry(row)?))
    }
}

/// A renewal.
pub(crate) struct Renewed {
    pub(crate) token: i64,
    pub(crate) ceiling: WallTime,
    pub(crate) registry: Identity,
}

impl Record for Renewed {
    fn columns() -> Option<String> {
        Some("token, ceiling, registry::text, history".into())
    }

    fn of(row: &Row) -> Result<Self, Error> {
        Ok(Renewed {
            token: get(row, "token")?,
            ceiling: instant(row, "ceiling")?,
            registry: registry(row)?,
        })
    }
}

fn registry(row: &Row) -> Result<Identity, Error> {
    Ok(Identity {
        incarnation: uuid(row, "registry")?,
        history: get(row, "history")?,
    })
}

/// The text of a `uuid`.
fn uuid(row: &Row, column: &str) -> Result<[u8; 16], Error> {
    let text: String = get(row, column)?;
    let uuid: uuid::Uuid = text
        .parse()
        .map_err(|_| Error::Protocol(format!("\"{text}\" is not a uuid")))?;
    Ok(uuid.into_bytes())
}

/// A `timestamptz`.
fn instant(row: &Row, column: &str) -> Result<WallTime, Error> {
    let at: SystemTime = get(row, column)?;
    Ok(wall_time(at))
}

#[cfg(feature = "mask")]
impl Record for crate::Mask {
    fn columns() -> Option<String> {
        Some("version, key, $2 AS bits".into())
    }

    fn of(row: &Row) -> Result<Self, Error> {
        let key: Vec<u8> = get(row, "key")?;
        let key = key.as_slice().try_into();
        let width = crate::MaskWidth::of(get(row, "bits")?);
        match (key, width) {
            (Ok(key), Some(width)) => Ok(crate::Mask::new(get(row, "version")?, key, width)),
            _ => Err(Error::Protocol("this is not the key of a mask".into())),
        }
    }
}
