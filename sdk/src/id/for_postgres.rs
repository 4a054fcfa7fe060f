//! `bigint` for `postgres` and `tokio-postgres`.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

macro_rules! as_bigint {
    ($id:ty) => {
        impl ToSql for $id {
            fn to_sql(
                &self,
                of: &Type,
                out: &mut BytesMut,
            ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
                self.get().to_sql(of, out)
            }

            fn accepts(of: &Type) -> bool {
                <i64 as ToSql>::accepts(of)
            }

            to_sql_checked!();
        }

        impl<'a> FromSql<'a> for $id {
            fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
                i64::from_sql(of, raw).map(Self::new)
            }

            fn accepts(of: &Type) -> bool {
                <i64 as FromSql>::accepts(of)
            }
        }
    };
}

as_bigint!(super::SegmentId);
as_bigint!(super::SnowflakeId);
as_bigint!(super::Id);
