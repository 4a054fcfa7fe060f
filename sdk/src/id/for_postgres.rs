//! `bigint` for `postgres` and `tokio-postgres`.

#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_postgres {
    ($id:ident) => {
        const _: () = {
            use ::std::boxed::Box;
            use ::std::error::Error;
            use ::std::result::Result;
            use $crate::__private::BytesMut;
            use $crate::__private::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

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
                fn from_sql(
                    of: &Type,
                    raw: &'a [u8],
                ) -> Result<Self, Box<dyn Error + Sync + Send>> {
                    i64::from_sql(of, raw).map(Self::new)
                }

                fn accepts(of: &Type) -> bool {
                    <i64 as FromSql>::accepts(of)
                }
            }
        };
    };
}
