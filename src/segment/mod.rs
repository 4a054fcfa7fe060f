//! Segment ids: numbers drawn from ranges that a row of `leaf.alloc` has granted.
//!
//! # In a session
//!
//! - [`tags`]: what the session has recorded about a tag: where its slot is, and that
//!   the role may draw from it.
//! - [`draw`]: drawing from the slot, and waiting if it is empty; [`batch`] draws many
//!   ids.
//! - [`blocks`]: consecutive ids for buffers outside the server, requested from the
//!   loader.
//! - [`look_up`]: what a role may do with a tag.
//! - [`auto_create`]: a first draw creates its tag, if that is wanted.
//! - [`masks`]: the keys with which the session masks ids.
//! - [`attaching`]: makes a tag fed; [`feeds`] is the centre's side.
//! - [`owner`]: who may alter, grant and drop a tag.
//! - [`restripe`]: which numbers of a tag this node has, and how they are divided.
//!
//! # In a transaction that has changed `leaf.alloc`
//!
//! - [`changes`]: what has to be applied to shared memory at the commit.
//! - [`own_tags`]: tags that only this transaction sees, because it created them;
//!   [`own_grants`] is how it gets their ids.
//! - [`mod@line`]: from which number on nothing of a tag was handed out.
//! - [`single_user`]: without a postmaster there is no loader, and all tags are treated
//!   like these.
//!
//! # In the loader
//!
//! - [`jobs`]: the grants to be made, each a [`job`]; [`work`] runs them.
//! - [`grants`]: transactions that grant; [`decide`] is what happens in one. The numbers
//!   come from a [`grant_source`]; [`row_source`] is the tag's row.
//! - [`feeding`]: asks the centre for numbers, if the tag is fed.
//! - [`publish`]: publishes what was granted, or why nothing was.
//!
//! [`align`] moves tags past the ids in use; [`saved`] keeps unused ids over a clean restart.

pub mod align;
pub mod at_end;
pub mod attaching;
mod auto_create;
pub mod batch;
pub mod blocks;
pub mod changes;
mod decide;
pub mod draw;
pub mod error;
mod feeding;
pub mod feeds;
mod grant_source;
mod grants;
mod job;
mod jobs;
pub mod key;
pub mod line;
pub mod look_up;
pub mod masks;
pub mod own_grants;
pub mod own_tags;
pub mod owner;
mod publish;
pub mod restripe;
mod row_source;
pub mod saved;
mod single_user;
pub mod tags;
pub mod work;
