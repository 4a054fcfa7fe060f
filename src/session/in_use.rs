//! Whether defaults of columns draw from a tag.

use pgrx::PgSqlErrorCode as Code;

use super::permissions;
use crate::catalog::columns;
use crate::error::Report;
use crate::pg::display;

/// Raises an error if the default of a column draws from a tag, in a table whose owner may draw
/// from it: anybody can set such a default.
pub fn require_unused(tag: &[u8]) {
    let mut found = columns::drawing_from(tag);
    found.retain(|(_, owner)| permissions::of(tag, *owner).is_none_or(|it| it.may_draw));
    let columns: Vec<_> = found.iter().map(|(column, _)| display(column)).collect();
    if !columns.is_empty() {
        let tag = display(tag);
        // When: `leaf_tag_drop` without `force`, or a `DELETE` from `leaf.alloc`
        Report::new(
            Code::ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST,
            format!("cannot drop tag \"{tag}\" because the default of a column draws from it"),
            "Change the default first, for example with leaf_column_release, or use force => true.",
        )
        .detail(format!("It is used by {}.", columns.join(", ")))
        .raise();
    }
}
