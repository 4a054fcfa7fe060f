//! `BigInt` for `diesel` with PostgreSQL.

use diesel::deserialize::{self, FromSql};
use diesel::pg::{Pg, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::BigInt;

macro_rules! as_bigint {
    ($id:ty) => {
        impl ToSql<BigInt, Pg> for $id {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
                let number = self.get();
                <i64 as ToSql<BigInt, Pg>>::to_sql(&number, &mut out.reborrow())
            }
        }

        impl FromSql<BigInt, Pg> for $id {
            fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
                <i64 as FromSql<BigInt, Pg>>::from_sql(value).map(Self::new)
            }
        }
    };
}

as_bigint!(super::SegmentId);
as_bigint!(super::SnowflakeId);
as_bigint!(super::Id);
