//! `BigInt` for `diesel` with PostgreSQL.

/// The type, with the traits of a value in a query.
#[cfg(feature = "diesel")]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_struct {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash,
            $crate::__private::diesel::expression::AsExpression,
            $crate::__private::diesel::deserialize::FromSqlRow,
        )]
        #[diesel(sql_type = $crate::__private::diesel::sql_types::BigInt)]
        #[repr(transparent)]
        $visibility struct $name(i64);
    };
}

#[cfg(not(feature = "diesel"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_struct {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $visibility struct $name(i64);
    };
}

#[cfg(feature = "diesel")]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_diesel {
    ($id:ident) => {
        const _: () = {
            use $crate::__private::diesel::deserialize::{self, FromSql};
            use $crate::__private::diesel::pg::{Pg, PgValue};
            use $crate::__private::diesel::serialize::{self, Output, ToSql};
            use $crate::__private::diesel::sql_types::BigInt;

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
    };
}

#[cfg(not(feature = "diesel"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __id_for_diesel {
    ($id:ident) => {};
}
