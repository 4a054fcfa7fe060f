//! Strings in human-readable formats, because JavaScript reads JSON numbers as
//! 53 bits; integers elsewhere. Both are read where the format is readable.

use std::fmt;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;

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
        text.parse()
            .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Writes the number of an id.
pub fn serialize<S: Serializer>(number: i64, serializer: S) -> Result<S::Ok, S::Error> {
    match serializer.is_human_readable() {
        true => serializer.collect_str(&number),
        false => serializer.serialize_i64(number),
    }
}

/// Reads the number of an id.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    match deserializer.is_human_readable() {
        true => deserializer.deserialize_any(Number),
        false => deserializer.deserialize_i64(Number),
    }
}
