//! Ids of a tag, from blocks that are reserved on the server before they are used.
//!
//! - [`tag`]: the two buffers of a tag.
//! - [`refill`]: the background tasks that fill them and return unused ids.
//! - [`source`]: what callers draw from.

mod refill;
mod source;
mod tag;

pub(crate) use refill::hand_back;
pub use source::SegmentSource;
pub(crate) use tag::Tag;
pub use tag::TagStats;
