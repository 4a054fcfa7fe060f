//! The code that runs in a session of a user: drawing, waiting, and the changes of a transaction.
//!
//! # Ids of tags
//!
//! - [`tags`]: what the session has recorded about a tag: where its slot is, and that
//!   the role may draw from it.
//! - [`draw`]: drawing from the slot, and waiting if it is empty; [`batch`] draws many
//!   ids; [`cache`] has those that the session has taken ahead.
//! - [`blocks`]: consecutive ids for buffers outside the server, requested from the
//!   loader.
//! - [`permissions`]: what a role may do with a tag; [`in_use`]: whether defaults draw from it.
//! - [`upstream`]: attaches a tag to one of the centre, and is the centre's side.
//!
//! # Snowflake ids
//!
//! The room [`snowflake`].
//!
//! # Waiting for the loader
//!
//! - [`asking`]: requests to the loader, and waiting for the answer.
//! - [`patience`]: how long a call may wait, and how it ends.
//!
//! # In a transaction that has changed `leaf.alloc`
//!
//! - [`changes`]: what has to be applied to shared memory at the commit.
//! - [`own_tags`]: tags that only this transaction sees, because it created them;
//!   [`own_grants`] is how it gets their ids.
//! - [`frontier`]: the first number of a tag that nobody has been given.

pub mod asking;
pub mod batch;
pub mod blocks;
pub mod cache;
pub mod changes;
pub mod draw;
pub mod error;
pub mod frontier;
pub mod in_use;
pub mod key;
pub mod own_grants;
pub mod own_tags;
pub mod patience;
pub mod permissions;
pub mod snowflake;
pub mod tags;
pub mod upstream;
pub mod xact_callbacks;
