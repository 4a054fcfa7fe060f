//! Strings in human-readable formats, because JavaScript reads JSON numbers as
//! 53 bits; integers elsewhere. Both are read where the format is readable.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};

/// Reads what either kind of format holds.
struct Number;

impl Visitor<'_> for Number {
    type Value = i64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id as a string or an integer of 64 bits")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<i64, E> {
        Ok(number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<i64, E> {
        i64::try_from(number).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<i64, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($id:ty) => {
        impl Serialize for $id {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match serializer.is_human_readable() {
                    true => serializer.collect_str(self),
                    false => serializer.serialize_i64(self.get()),
                }
            }
        }

        impl<'de> Deserialize<'de> for $id {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let number = match deserializer.is_human_readable() {
                    true => deserializer.deserialize_any(Number)?,
                    false => deserializer.deserialize_i64(Number)?,
                };
                Ok(Self::new(number))
            }
        }
    };
}

as_text!(super::SegmentId);
as_text!(super::SnowflakeId);
as_text!(super::Id);
