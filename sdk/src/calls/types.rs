//! The types of arguments and answers.

use std::error::Error as StdError;
use std::time::SystemTime;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::rows::{Record, Row, get, row};
use crate::time::wall_time;
use crate::{Error, SegmentId};

/// Consecutive ids that are granted to this caller only.
///
/// ```no_run
/// # #[cfg(feature = "sync")]
/// # fn example(client: &mut postgres::Client) -> Result<(), leaf_sdk::Error> {
/// let block = leaf_sdk::sync::segment_reserve(client, "orders", 10_000)?;
/// for id in block.first.get()..=block.last.get() {
///     println!("{id}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The first id.
    pub first: SegmentId,
    /// The last id.
    pub last: SegmentId,
}

impl Record for Block {
    fn of(row: &Row) -> Result<Self, Error> {
        get(row, 0)
    }
}

/// Of a range as the server writes it, whose first bound is included and whose last one is not.
impl<'r> FromSql<'r> for Block {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        const FIRST_IS_INCLUDED: u8 = 2;
        // After the flags, each bound follows its length.
        let bytes: [u8; 25] = raw.try_into()?;
        if bytes[0] != FIRST_IS_INCLUDED {
            return Err("it is no block of ids".into());
        }
        let bound = |at| i64::from_be_bytes(std::array::from_fn(|n| bytes[at + n]));
        Ok(Block {
            first: SegmentId::new(bound(5)),
            last: SegmentId::new(bound(17) - 1),
        })
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::INT8_RANGE
    }
}

/// The identity of a tag: another one once the tag was dropped and created again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation(pub(crate) String);

row! {
    /// The fields of a snowflake id.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Decoded {
        /// When its tick began.
        pub created_at: SystemTime,
        /// The worker id of the node that issued it.
        pub worker_id: i32,
        /// Which of the tick's ids it is.
        pub sequence: i32,
    }
}

/// An instant as a parameter. One that is out of the type's range, which the driver cannot
/// send, is one of the type's infinities.
#[derive(Debug)]
pub(crate) struct Instant(pub(crate) SystemTime);

impl ToSql for Instant {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        // The type counts from another year: the server checks the last centuries.
        const CENTURIES: i64 = 10_000_000_000_000_000;
        match wall_time(self.0).unix_us() {
            us if us < i64::MIN + CENTURIES => i64::MIN.to_sql(&Type::INT8, out),
            us if us > i64::MAX - CENTURIES => i64::MAX.to_sql(&Type::INT8, out),
            _ => self.0.to_sql(of, out),
        }
    }

    fn accepts(of: &Type) -> bool {
        <SystemTime as ToSql>::accepts(of)
    }

    to_sql_checked!();
}
