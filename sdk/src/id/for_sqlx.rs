//! `bigint` for `sqlx` with PostgreSQL.

#[cfg(feature = "sqlx")]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_sqlx {
    ($id:ident) => {
        const _: () = {
            use ::std::result::Result;
            use $crate::__private::sqlx::encode::IsNull;
            use $crate::__private::sqlx::error::BoxDynError;
            use $crate::__private::sqlx::postgres::{
                PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueRef,
            };
            use $crate::__private::sqlx::{Decode, Encode, Postgres, Type};

            impl Type<Postgres> for $id {
                fn type_info() -> PgTypeInfo {
                    <i64 as Type<Postgres>>::type_info()
                }
            }

            impl PgHasArrayType for $id {
                fn array_type_info() -> PgTypeInfo {
                    <i64 as PgHasArrayType>::array_type_info()
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
    };
}

#[cfg(not(feature = "sqlx"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_sqlx {
    ($id:ident) => {};
}
