//! How values are read from rows, and written as JSON.

use std::time::SystemTime;

use jiff::Timestamp;
use serde::Serializer;

/// An instant of the driver.
pub(super) fn timestamp(at: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(at).ok()
}

/// Numbers that may be above 2⁵³ are strings, because many programs round them.
pub(super) fn as_string<S: Serializer>(
    number: &Option<i64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match number {
        Some(number) => serializer.collect_str(number),
        None => serializer.serialize_none(),
    }
}
