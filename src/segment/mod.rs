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
//! - [`permissions`]: what a role may do with a tag; [`in_use`]: whether defaults draw from it.
//! - [`upstream`]: attaches a tag to one of the centre, and is the centre's side.
//!
//! # In a transaction that has changed `leaf.alloc`
//!
//! - [`changes`]: what has to be applied to shared memory at the commit.
//! - [`own_tags`]: tags that only this transaction sees, because it created them;
//!   [`own_grants`] is how it gets their ids.
//! - [`mod@line`]: from which number on nothing of a tag was handed out.
//!
//! # In the loader
//!
//! - [`grant`]: collects the grants to be made, makes them in a transaction, publishes them.
//!
//! [`saved`] keeps unused ids over a clean restart.

pub mod at_end;
pub mod batch;
pub mod blocks;
pub mod changes;
pub mod draw;
pub mod error;
pub mod grant;
pub mod in_use;
pub mod key;
pub mod line;
pub mod own_grants;
pub mod own_tags;
pub mod permissions;
pub mod saved;
pub mod tags;
pub mod upstream;
