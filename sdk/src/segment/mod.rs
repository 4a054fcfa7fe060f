//! Ids of a tag, from blocks that are reserved on the server ahead of their use.
//!
//! - [`tag`]: the two buffers of a tag.
//! - [`refill`]: the background tasks that fill them, and hand ids back.
//! - [`source`]: what callers draw from.

mod refill;
mod source;
mod tag;

pub(crate) use refill::hand_back;
pub use source::SegmentSource;
pub(crate) use tag::Tag;
pub use tag::TagStats;
