//! Every call, once for all drivers.

/// Declares the calls, for all drivers: their documentation, arguments,
/// results, and the arguments of the example.
macro_rules! each_call {
    ($define:ident) => {
        $define! {
            /// The next id of a tag.
            segment_next(tag: &str) -> crate::SegmentId, "\"orders\"";
            /// `count` ids of a tag, ascending. `count` is at least 1.
            segment_batch(tag: &str, count: i32) -> Vec<crate::SegmentId>, "\"orders\", 100";
            /// One block of `count` ids, durable before this returns, above everything
            /// granted before. `count` is at least 1.
            segment_reserve(tag: &str, count: i64) -> crate::calls::Block, "\"orders\", 10_000";
            /// The next snowflake id with the server's own worker id.
            snowflake_next() -> crate::SnowflakeId, "";
            /// `count` snowflake ids, ascending. `count` is at least 1.
            snowflake_batch(count: i32) -> Vec<crate::SnowflakeId>, "100";
            /// The fields of a snowflake id of this database.
            snowflake_decode(id: crate::SnowflakeId) -> crate::calls::Decoded,
                "leaf_sdk::SnowflakeId::new(2_123_778_173_958_094_896)";
            /// The smallest snowflake id of an instant: for scans of a range of time.
            snowflake_floor(at: std::time::SystemTime) -> crate::SnowflakeId,
                "std::time::SystemTime::now()";
            /// Creates a tag, owned by the current role.
            tag_create(tag: &str, new: &crate::calls::NewTag) -> (),
                "\"orders\", &leaf_sdk::NewTag::default()";
            /// Changes the given properties of a tag when the transaction commits.
            tag_alter(tag: &str, change: &crate::calls::TagChange) -> (),
                "\"orders\", &leaf_sdk::TagChange { step: Some(5_000), ..Default::default() }";
            /// Removes a tag.
            tag_drop(tag: &str) -> (), "\"orders\"";
            /// Lets a role, or `PUBLIC`, draw ids of a tag.
            tag_grant(tag: &str, role: &str) -> (), "\"orders\", \"shop\"";
            /// Revokes what [`tag_grant`] has granted.
            tag_revoke(tag: &str, role: &str) -> (), "\"orders\", \"shop\"";
            /// Moves a tag, or all tags, past the largest id in the columns whose default
            /// draws from it; for administrators.
            tag_align(tag: Option<&str>) -> Vec<crate::calls::Aligned>, "Some(\"orders\")";
            /// The mask of a version of the tag's key, by default the present one; needs the
            /// permission to draw.
            #[cfg(feature = "mask")]
            mask(tag: &str, width: crate::MaskWidth, version: Option<i32>) -> crate::Mask,
                "\"orders\", leaf_sdk::MaskWidth::Bits63, None";
            /// Begins another version of a tag's key, and returns it.
            mask_rotate(tag: &str) -> i32, "\"orders\"";
            /// Statistics of a tag; needs the privileges of `pg_monitor`.
            tag_status(tag: &str) -> crate::calls::TagStatus, "\"orders\"";
            /// Statistics of the snowflake ids with the server's own worker id; needs the
            /// privileges of `pg_monitor`.
            snowflake_status() -> crate::calls::SnowflakeStatus, "";
        }
    };
}
pub(crate) use each_call;
