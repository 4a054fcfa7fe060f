//! The functions that services call, each described once.

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
        }
    };
}
pub(crate) use each_call;
