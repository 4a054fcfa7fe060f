//! `bigint` for `sqlx` with PostgreSQL.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

macro_rules! as_bigint {
    ($id:ty) => {
        impl Type<Postgres> for $id {
            fn type_info() -> PgTypeInfo {
                <i64 as Type<Postgres>>::type_info()
            }
        }

        impl Encode<'_, Postgres> for $id {
            fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                <i64 as Encode<'_, Postgres>>::encode(self.get(), out)
            }
        }

        impl<'r> Decode<'r, Postgres> for $id {
            fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
                <i64 as Decode<'r, Postgres>>::decode(value).map(Self::new)
            }
        }
    };
}

as_bigint!(super::SegmentId);
as_bigint!(super::SnowflakeId);
as_bigint!(super::Id);
