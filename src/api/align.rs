//! `leaf_tag_align`.

use super::args;
use crate::pg::call::{Call, Datum, sql_functions};
use crate::pg::rows::Record;
use crate::segment::align::align;
use crate::segment::permissions::require_primary;
use crate::shmem;

sql_functions!(leaf_tag_align);

/// Moves a tag, or all tags, past the largest ids in the columns whose default draws from
/// it. Returns a row for each column.
fn leaf_tag_align(call: Call<'_>) -> Datum {
    call.each(|| {
        shmem::require();
        require_primary();
        let tag = call.text(0).map(|tag| args::tag(Some(tag)));
        let aligned = align(tag).into_iter();
        aligned.map(|column| {
            Record::new()
                .with("biz_tag", column.tag.as_deref())
                .with("used_in", column.used_in)
                .with("highest", column.highest)
                .with("position", column.position)
                .with("moved", column.moved)
                .with("ignored", column.ignored)
        })
    })
}
