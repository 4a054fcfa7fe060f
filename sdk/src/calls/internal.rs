//! The statements of the background tasks.

use std::time::SystemTime;

use bytes::BytesMut;
use leaf_core::snowflake::lease::{HeldLease, Nonce};
use leaf_core::snowflake::request::{self, Renewal, Request};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::rows::{Record, get, row};
use super::statement::{Statement, statements};
use super::types::{Block, Incarnation};
use crate::Error;
use crate::time::{now, wall_time};

statements! {
    /// Which of the unused ends of blocks the server takes back.
    segment_return(tags: Vec<String>, firsts: Vec<i64>, lasts: Vec<i64>) -> Vec<bool>,
        leaf_segment_return { tags: Texts = tags, first: Bigints = firsts, last: Bigints = lasts };
    /// Ends a lease.
    worker_release(worker_id: i32, nonce: Nonce, token: i64, used_until: SystemTime) -> (),
        leaf_worker_release {
            worker_id: Integer = worker_id,
            nonce: Uuid = uuid::Uuid::from_bytes(nonce).to_string(),
            token: Bigint = token,
            used_until: Timestamptz = used_until
        };
}

/// A block and the incarnation of its tag.
pub(crate) fn segment_fetch(tag: &str, count: i64) -> Statement<Fetched> {
    Statement::select(
        "leaf_tag_incarnation($1) AS incarnation, \
         LATERAL leaf_segment_reserve($1, $2, incarnation) AS block",
        vec![
            (Box::new(tag.to_owned()), Type::TEXT),
            (Box::new(count), Type::INT8),
        ],
    )
    .or_call("CALL leaf.fetch_block($1, $2)")
}

/// The identity of a tag.
pub(crate) fn tag_incarnation(tag: &str) -> Statement<Option<String>> {
    Statement::select(
        "leaf_tag_incarnation($1) AS answer",
        vec![(Box::new(tag.to_owned()), Type::TEXT)],
    )
}

row! {
    /// A block and the incarnation of its tag.
    pub(crate) struct Fetched {
        incarnation: Text,
        block: Block,
    }
}

impl Fetched {
    pub(crate) fn parts(self) -> (Incarnation, Block) {
        (Incarnation(self.incarnation.0), self.block)
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

/// A registration.
pub(crate) fn register(request: Request<Parameter>) -> Statement<HeldLease> {
    Statement::of(request).or_call(
        "CALL leaf_worker_register($1::text, nullif($2::text, '')::integer, \
             'epoch'::timestamptz OPERATOR(pg_catalog.+) ($3::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'), \
             $4::bigint OPERATOR(pg_catalog.*) interval '1 microsecond', $5::uuid)",
    )
}

/// A renewal.
pub(crate) fn renew(request: Request<Parameter>) -> Statement<Renewal> {
    Statement::of(request).or_call(
        "CALL leaf_worker_renew($1::integer, $2::uuid, $3::bigint, \
             'epoch'::timestamptz OPERATOR(pg_catalog.+) ($4::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'), \
             $5::bigint OPERATOR(pg_catalog.*) interval '1 microsecond', $6::bigint)",
    )
}

impl Record for HeldLease {
    fn of(row: &Row) -> Result<Self, Error> {
        const COLUMNS: [&str; 9] = [
            "nonce",
            "token",
            "registry",
            "history",
            "worker_id",
            "layout",
            "epoch",
            "start_at",
            "ceiling",
        ];
        request::leased(&texts(row, &COLUMNS)?).map_err(|bad| Error::Protocol(bad.to_string()))
    }
}

impl Record for Renewal {
    fn of(row: &Row) -> Result<Self, Error> {
        const COLUMNS: [&str; 4] = ["token", "registry", "history", "ceiling"];
        request::renewed(&texts(row, &COLUMNS)?).map_err(|bad| Error::Protocol(bad.to_string()))
    }
}

fn texts(row: &Row, columns: &[&str]) -> Result<Vec<String>, Error> {
    let text = |name: &&str| get::<Text>(row, *name).map(|text| text.0);
    columns.iter().map(text).collect()
}

/// The text of a value, which procedures do not answer as such. Of an instant, it is in microseconds
/// since 1970.
#[derive(Debug)]
struct Text(String);

impl<'r> FromSql<'r> for Text {
    fn from_sql(
        of: &Type,
        raw: &'r [u8],
    ) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Text(match *of {
            Type::INT4 => i32::from_sql(of, raw)?.to_string(),
            Type::INT8 => i64::from_sql(of, raw)?.to_string(),
            Type::UUID => uuid::Uuid::from_slice(raw)?.to_string(),
            Type::TIMESTAMPTZ => wall_time(SystemTime::from_sql(of, raw)?)
                .unix_us()
                .to_string(),
            _ => String::from_sql(of, raw)?,
        }))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
