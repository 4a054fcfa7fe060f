//! Ids of a tag, from blocks that are reserved on the server before they are used.
//!
//! - [`tag`]: the two buffers of a tag.
//! - [`refill`]: the background tasks that fill them and return unused ids.
//! - [`tags`]: the tags of a handle; [`upkeep`]: what they need from time to time.
//! - [`source`]: what callers draw from.

mod refill;
mod source;
mod tag;
mod tags;
mod upkeep;

pub(crate) use refill::hand_back;
pub use source::SegmentSource;
pub(crate) use tag::Tag;
pub use tag::TagStats;
pub(crate) use tags::Tags;
pub(crate) use upkeep::look_after;
