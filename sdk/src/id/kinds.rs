//! Types for ids, so that an id is not mistaken for another number.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

use leaf_core::id_text::BadIdText;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "diesel", derive(
            ::diesel::expression::AsExpression,
            ::diesel::deserialize::FromSqlRow
        ))]
        #[cfg_attr(feature = "diesel", diesel(sql_type = ::diesel::sql_types::BigInt))]
        #[repr(transparent)]
        pub struct $name(i64);

        impl $name {
            /// The id with this number.
            ///
            /// ```
            #[doc = concat!("let id = leaf_sdk::", stringify!($name), "::new(1001);")]
            /// assert_eq!(id.get(), 1001);
            /// ```
            pub const fn new(number: i64) -> Self {
                $name(number)
            }

            /// The number.
            ///
            /// ```
            #[doc = concat!("let id: leaf_sdk::", stringify!($name), " = \"1001\".parse().unwrap();")]
            /// assert_eq!(id.get(), 1001);
            /// ```
            pub const fn get(self) -> i64 {
                self.0
            }

            /// The id in 13 symbols of Crockford's base 32 and a check symbol, for people
            /// and for programs that round large numbers; it sorts as the ids do. `None` for a
            /// negative number. The same as `leaf_id_text` in SQL.
            ///
            /// ```
            #[doc = concat!("let id = leaf_sdk::", stringify!($name), "::new(1001);")]
            /// assert_eq!(id.text().as_deref(), Some("00000000000Z92"));
            /// ```
            pub fn text(self) -> Option<String> {
                leaf_core::id_text::encode(self.0)
            }

            /// The id of a [`text`](Self::text), in upper or lower case, with or without hyphens.
            ///
            /// # Errors
            /// What is wrong with the text.
            ///
            /// ```
            #[doc = concat!("use leaf_sdk::{BadIdText, ", stringify!($name), "};")]
            ///
            #[doc = concat!("let id = ", stringify!($name), "::from_text(\"0000-0000-000-z92\");")]
            #[doc = concat!("assert_eq!(id, Ok(", stringify!($name), "::new(1001)));")]
            #[doc = concat!("let misread = ", stringify!($name), "::from_text(\"0000-0000-000-z97\");")]
            /// assert_eq!(misread, Err(BadIdText::Check));
            /// ```
            pub fn from_text(text: &str) -> Result<Self, BadIdText> {
                leaf_core::id_text::decode(text.as_bytes()).map($name)
            }
        }

        impl From<i64> for $name {
            fn from(number: i64) -> Self {
                $name(number)
            }
        }

        impl From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, ParseIntError> {
                text.parse().map($name)
            }
        }
    };
}

id! {
    /// An id of a tag, drawn from a segment: unique within the tag and
    /// increasing.
    ///
    /// ```
    /// use leaf_sdk::SegmentId;
    ///
    /// let id: SegmentId = "1001".parse().unwrap();
    /// assert_eq!(id, SegmentId::new(1001));
    /// assert_eq!(id.to_string(), "1001");
    /// ```
    SegmentId
}

id! {
    /// An id of time, worker id and sequence: unique within a registry and
    /// ordered by time.
    ///
    /// ```
    /// use leaf_sdk::SnowflakeId;
    ///
    /// let id = SnowflakeId::new(2_123_778_173_958_094_896);
    /// assert_eq!(i64::from(id), 2_123_778_173_958_094_896);
    /// ```
    SnowflakeId
}

id! {
    /// An id of either kind, for code that does not distinguish them.
    ///
    /// ```
    /// use leaf_sdk::{Id, SegmentId};
    ///
    /// assert_eq!(Id::from(SegmentId::new(7)), Id::new(7));
    /// ```
    Id
}

impl From<SegmentId> for Id {
    fn from(id: SegmentId) -> Id {
        Id(id.0)
    }
}

impl From<SnowflakeId> for Id {
    fn from(id: SnowflakeId) -> Id {
        Id(id.0)
    }
}
