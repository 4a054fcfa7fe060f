//! Snowflake ids: time, worker id and sequence in one 64-bit number.
//!
//! - [`layout`]: how many values each field has, and the order of the fields.
//! - [`scheme`]: a layout and its epoch, the instant from which the time is counted:
//!   converts instants into ids and back.
//! - [`generator`]: hands out ids, never one twice, whatever the clock does.
//! - [`terms`]: what a registry grants, and whether that is possible.
//! - [`lease`]: how a lease is registered and renewed, though answers are lost.
//! - [`request`]: the statements that do so, and what is in their answers.
//! - [`choice`]: which worker id a node gets from a registry.
//! - [`ceiling`]: how far ahead a lease's ceiling is set, and when it is raised.
//!
//! # Why no id is issued twice
//!
//! All ids with the same worker id and the same time are issued by one *node*, the
//! holder of the worker id. For every worker id, a registry stores a *ceiling*: an
//! instant up to which ids may have been issued. A node that leases the worker id
//! starts at the ceiling, and raises it durably before it issues ids above it.
//! Therefore, two successive holders of a worker id never issue the same id, whatever
//! their clocks show, and even if the first one does not notice that its lease is over.

pub mod ceiling;
pub mod choice;
pub mod generator;
pub mod layout;
pub mod lease;
pub mod request;
pub mod scheme;
pub mod terms;

pub use generator::Generator;
pub use layout::{BadLayout, Layout};
pub use scheme::{Fields, Scheme};
pub use terms::{BadTerms, Terms};
