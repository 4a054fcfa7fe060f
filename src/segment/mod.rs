//! Segment ids: numbers drawn from ranges that a row of `leaf.alloc` has granted.
//!
//! # In a session
//!
//! - [`tags`]: what the session knows of a tag: where its slot is, and that the
//!   role may draw from it.
//! - [`draw`]: drawing from the slot, and waiting where it is empty; [`batch`] draws
//!   many.
//! - [`blocks`]: consecutive ids for buffers elsewhere, asked of the loader.
//! - [`owner`]: who may alter, grant and drop a tag.
//!
//! # In a transaction that has changed `leaf.alloc`
//!
//! - [`changes`]: what shared memory must learn at the commit.
//! - [`own_tags`]: tags that only this transaction sees, because it created them.
//! - [`single_user`]: without a postmaster there is no loader, and all tags are like
//!   that.
//! - [`granting`]: tells grants from other updates, for the table's triggers.
//!
//! # In the loader
//!
//! - [`jobs`]: what there is to grant; [`work`] runs it.
//! - [`grants`]: transactions that grant; [`decide`] is what happens in one. A
//!   [`grant_source`] says where the numbers come from; [`row_source`] is the tag's row.
//! - [`publish`]: makes known what was granted, or why not.
//!
//! [`align`] moves tags past the ids in use; [`saved`] keeps unused ids over a clean restart.

pub mod align;
pub mod at_end;
pub mod batch;
pub mod blocks;
pub mod changes;
mod decide;
pub mod draw;
pub mod error;
mod grant_source;
pub mod granting;
mod grants;
mod jobs;
pub mod key;
pub mod own_tags;
pub mod owner;
mod publish;
mod row_source;
pub mod saved;
mod single_user;
pub mod tags;
pub mod work;
