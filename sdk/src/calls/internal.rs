//! The statements of the background tasks.

use std::time::SystemTime;

use bytes::BytesMut;
use leaf_core::snowflake::lease::{Held, Nonce};
use leaf_core::snowflake::request::{self, Renewal};
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::rows::{Record, get, row};
use super::statement::{Kind, Statement, statements};
use super::types::{Block, Incarnation};
use crate::time::now;
use crate::{Error, SegmentId};

statements! {
    /// Whether the server takes back the unused end of a block.
    segment_return(tag: &str, first: SegmentId, last: SegmentId) -> bool,
        leaf_segment_return {
            tag: Text = tag.to_owned(),
            block: Int8range = format!("[{first},{last}]")
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
             CASE WHEN $3 THEN $1 WHEN pg_catalog.set_config('leaf.auto_create', 'off', true) = 'off' \
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
             CASE WHEN $2 THEN $1 WHEN pg_catalog.set_config('leaf.auto_create', 'off', true) = 'off' \
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
        first: SegmentId = "pg_catalog.lower(block)",
        last: SegmentId = "pg_catalog.upper(block) OPERATOR(pg_catalog.-) 1",
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

/// A parameter of a request.
#[derive(Debug)]
pub(crate) enum Parameter {
    Text(String),
    /// This machine's clock when the statement is sent.
    Clock,
}

impl From<String> for Parameter {
    fn from(text: String) -> Self {
        Parameter::Text(text)
    }
}

impl ToSql for Parameter {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Parameter::Text(text) => text.to_sql(kind, out),
            Parameter::Clock => now().unix_us().to_string().to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        <String as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

impl Record for Held {
    fn of(row: &Row) -> Result<Self, Error> {
        request::leased(&texts(row)?).map_err(|bad| Error::Protocol(bad.to_string()))
    }
}

impl Record for Renewal {
    fn of(row: &Row) -> Result<Self, Error> {
        request::renewed(&texts(row)?).map_err(|bad| Error::Protocol(bad.to_string()))
    }
}

fn texts(row: &Row) -> Result<Vec<String>, Error> {
    (0..row.len()).map(|column| get(row, column)).collect()
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
