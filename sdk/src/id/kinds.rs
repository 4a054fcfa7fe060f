//! Types for ids, so that an id is not mistaken for another number.

use std::fmt::Display;

/// A type of ids: [`SegmentId`], [`SnowflakeId`], or one that [`id_type!`](crate::id_type)
/// has made.
///
/// ```
/// use leaf_sdk::{IdType, SegmentId};
///
/// fn last_of<I: IdType>(ids: &[I]) -> Option<i64> {
///     ids.last().copied().map(I::into)
/// }
/// assert_eq!(last_of(&[SegmentId::new(7)]), Some(7));
/// ```
pub trait IdType:
    Copy + Display + From<i64> + Into<i64> + Into<Id> + Send + Sync + 'static
{
}

impl<I> IdType for I where
    I: Copy + Display + From<i64> + Into<i64> + Into<Id> + Send + Sync + 'static
{
}

/// Makes a type for ids with all that the library's own types have: the number and its text,
/// `serde`, and columns and parameters of the drivers, each as far as its feature is enabled.
/// [`SegmentSource::typed`](crate::SegmentSource::typed) draws ids of the type.
///
/// ```
/// leaf_sdk::id_type! {
///     /// The id of an order.
///     pub struct OrderId;
/// }
///
/// let id: OrderId = "1001".parse().unwrap();
/// assert_eq!(id, OrderId::new(1001));
/// assert_eq!(id.text().as_deref(), Some("00000000000Z92"));
/// ```
#[macro_export]
macro_rules! id_type {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $crate::__id_type! { $(#[$meta])* $visibility struct $name; }

        impl ::core::convert::From<$name> for $crate::Id {
            fn from(id: $name) -> $crate::Id {
                $crate::Id::new(id.get())
            }
        }
    };
}

/// As [`id_type!`](crate::id_type), without the conversion to [`Id`].
#[doc(hidden)]
#[macro_export]
macro_rules! __id_type {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident;) => {
        $crate::__id_struct! { $(#[$meta])* $visibility struct $name; }
        $crate::__id_for_postgres! { $name }
        $crate::__id_for_serde! { $name }
        $crate::__id_for_sqlx! { $name }
        $crate::__id_for_diesel! { $name }

        impl $name {
            /// The id with this number.
            pub const fn new(number: i64) -> Self {
                $name(number)
            }

            /// The number.
            pub const fn get(self) -> i64 {
                self.0
            }

            /// The id in 13 symbols of Crockford's base 32 and a check symbol, for people
            /// and for programs that round large numbers; it sorts as the ids do. `None` for a
            /// negative number. The same as `leaf_id_text` in SQL.
            pub fn text(self) -> ::core::option::Option<::std::string::String> {
                $crate::__private::id_text::encode(self.0)
            }

            /// The id of a [`text`](Self::text), in upper or lower case, with or without hyphens.
            ///
            /// # Errors
            /// The error in the text.
            pub fn from_text(text: &str) -> ::core::result::Result<Self, $crate::BadIdText> {
                $crate::__private::id_text::decode(text.as_bytes()).map($name)
            }
        }

        impl ::core::convert::From<i64> for $name {
            fn from(number: i64) -> Self {
                $name(number)
            }
        }

        impl ::core::convert::From<$name> for i64 {
            fn from(id: $name) -> i64 {
                id.0
            }
        }

        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(&self.0, f)
            }
        }

        impl ::core::str::FromStr for $name {
            type Err = ::core::num::ParseIntError;

            fn from_str(text: &str) -> ::core::result::Result<Self, Self::Err> {
                text.parse().map($name)
            }
        }
    };
}

id_type! {
    /// An id of a tag, drawn from a segment: unique within the tag and
    /// increasing.
    ///
    /// ```
    /// use leaf_sdk::{BadIdText, SegmentId};
    ///
    /// let id: SegmentId = "1001".parse().unwrap();
    /// assert_eq!(id, SegmentId::new(1001));
    /// assert_eq!(id.to_string(), "1001");
    ///
    /// assert_eq!(id.text().as_deref(), Some("00000000000Z92"));
    /// assert_eq!(SegmentId::from_text("0000-0000-000-z92"), Ok(id));
    /// assert_eq!(SegmentId::from_text("0000-0000-000-z97"), Err(BadIdText::Check));
    /// ```
    pub struct SegmentId;
}

id_type! {
    /// An id of time, worker id and sequence: unique within a registry and
    /// ordered by time.
    ///
    /// ```
    /// use leaf_sdk::SnowflakeId;
    ///
    /// let id = SnowflakeId::new(2_123_778_173_958_094_896);
    /// assert_eq!(i64::from(id), 2_123_778_173_958_094_896);
    /// ```
    pub struct SnowflakeId;
}

__id_type! {
    /// An id of any kind, for code that does not distinguish them.
    ///
    /// ```
    /// use leaf_sdk::{Id, SegmentId};
    ///
    /// assert_eq!(Id::from(SegmentId::new(7)), Id::new(7));
    /// ```
    pub struct Id;
}
