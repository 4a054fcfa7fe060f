//! How values are written as JSON.

use serde::Serializer;

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
