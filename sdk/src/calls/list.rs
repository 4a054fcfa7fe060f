//! The functions that callers use, each described once.

/// Hands the calls to a macro: of each, its documentation, arguments and answer, the arguments
/// of an example, the function in SQL, and its parameters with their types and values.
macro_rules! each_call {
    ($define:ident) => {
        $define! {
            /// The next id of a tag.
            segment_next(tag: &str) -> crate::SegmentId,
                "\"orders\"",
                leaf_segment_next { tag: Text = tag.to_owned() };
            /// `count` ids of a tag, ascending. `count` is at least 1.
            segment_batch(tag: &str, count: i32) -> Vec<crate::SegmentId>,
                "\"orders\", 100",
                leaf_segment_batch { tag: Text = tag.to_owned(), count: Integer = count };
            /// One block of `count` ids, durable before this returns, above everything
            /// granted before. `count` is at least 1.
            segment_reserve(tag: &str, count: i64) -> crate::Block,
                "\"orders\", 10_000",
                leaf_segment_reserve { tag: Text = tag.to_owned(), count: Bigint = count };
            /// The next snowflake id with the server's own worker id.
            snowflake_next() -> crate::SnowflakeId,
                "",
                leaf_snowflake_next {};
            /// `count` snowflake ids, ascending. `count` is at least 1.
            snowflake_batch(count: i32) -> Vec<crate::SnowflakeId>,
                "100",
                leaf_snowflake_batch { count: Integer = count };
            /// The fields of a snowflake id of this database.
            snowflake_decode(id: crate::SnowflakeId) -> crate::Decoded,
                "leaf_sdk::SnowflakeId::new(2_123_778_173_958_094_896)",
                leaf_snowflake_decode { id: Bigint = id };
            /// The smallest snowflake id of an instant: for scans of a range of time.
            snowflake_floor(at: std::time::SystemTime) -> crate::SnowflakeId,
                "std::time::SystemTime::now()",
                leaf_snowflake_floor { ts: Timestamptz = crate::calls::types::Instant(at) };
            /// Creates a tag, owned by the current role.
            tag_create(tag: &str, new: &crate::NewTag) -> (),
                "\"orders\", &leaf_sdk::NewTag::default()",
                leaf_tag_create {
                    tag: Text = tag.to_owned(),
                    step: Integer = new.step,
                    start: Bigint = new.start,
                    max_value: Bigint = new.max_value,
                    description: Text = new.description.clone(),
                    if_not_exists: Boolean = new.if_not_exists,
                    max_step: Integer = new.max_step,
                    stripes: Integer = new.stripes,
                    stripe: Integer = new.stripe,
                    stripe_width: Bigint = new.stripe_width
                };
            /// Changes the given properties of a tag when the transaction commits.
            tag_alter(tag: &str, change: &crate::TagChange) -> (),
                "\"orders\", &leaf_sdk::TagChange { step: Some(5_000), ..Default::default() }",
                leaf_tag_alter {
                    tag: Text = tag.to_owned(),
                    step: Integer = change.step,
                    advance_to: Bigint = change.advance_to,
                    max_value: Bigint = change.max_value,
                    description: Text = change.description.clone(),
                    max_step: Integer = change.max_step
                };
            /// Drops a tag; unless `force`, not one from which the default of a column draws.
            /// Without `if_exists`, a tag that does not exist is an error.
            tag_drop(tag: &str, force: bool, if_exists: bool) -> (),
                "\"orders\", false, false",
                leaf_tag_drop { tag: Text = tag.to_owned(), force: Boolean = force, if_exists: Boolean = if_exists };
            /// Lets a role, or `PUBLIC`, draw ids of a tag.
            tag_grant(tag: &str, role: &str) -> (),
                "\"orders\", \"shop\"",
                leaf_tag_grant { tag: Text = tag.to_owned(), role: Name = role.to_owned() };
            /// Revokes what [`tag_grant`] has granted.
            tag_revoke(tag: &str, role: &str) -> (),
                "\"orders\", \"shop\"",
                leaf_tag_revoke { tag: Text = tag.to_owned(), role: Name = role.to_owned() };
            /// Moves a tag, or all tags, past the largest id in the columns whose default
            /// draws from it; for administrators.
            tag_align(tag: Option<&str>) -> Vec<crate::Aligned>,
                "Some(\"orders\")",
                leaf_tag_align { tag: Text = tag.map(str::to_owned) };
            /// Makes a tag fed: its ids come from a tag of the centre that `leaf.upstream`
            /// names, by default from the one with the same name.
            tag_attach(tag: &str, upstream_tag: Option<&str>) -> (),
                "\"orders\", None",
                leaf_tag_attach {
                    tag: Text = tag.to_owned(),
                    upstream_tag: Text = upstream_tag.map(str::to_owned)
                };
            /// Makes the default of a column draw from a new tag, whose name is returned, or, of
            /// the kind `snowflake` instead of `segment`, snowflake ids.
            column_adopt(table: &str, column: &str, tag: Option<&str>, kind: &str) -> Option<String>,
                "\"orders\", \"id\", None, \"segment\"",
                leaf_column_adopt {
                    table: Regclass = table.to_owned(),
                    column: Name = column.to_owned(),
                    tag: Text = tag.map(str::to_owned),
                    kind: Text = kind.to_owned()
                };
            /// Gives an adopted column its sequence or identity back, and returns the sequence.
            column_release(table: &str, column: &str) -> Option<String>,
                "\"orders\", \"id\"",
                leaf_column_release {
                    table: Regclass = table.to_owned(),
                    column: Name = column.to_owned()
                };
        }
    };
}
pub(crate) use each_call;
