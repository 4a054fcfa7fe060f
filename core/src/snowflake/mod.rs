//! Snowflake ids: time, worker id and sequence in one 64-bit number.
//!
//! - [`layout`]: how many values each field has, and where it stands.
//! - [`scheme`]: a layout and the epoch its time counts from: instants to ids
//!   and back.
//! - [`generator`]: hands ids out, never twice, whatever the clock does.
//! - [`lease`]: which worker id a node gets from a registry.
//! - [`ceiling`]: how far ahead a lease's ceiling is set, and when it is raised.
//!
//! # Why no id is issued twice
//!
//! A worker id and an instant make a point; all ids of that point belong to one
//! node. A registry keeps for every worker id a *ceiling*: up to it, somebody
//! may have issued ids. Whoever leases the worker id starts at the ceiling and
//! raises it, durably, before it issues anything above it. So two holders of a
//! worker id, one after the other, never meet, whatever their clocks say and
//! whether or not the first has noticed that its time is over.

pub mod ceiling;
pub mod generator;
pub mod layout;
pub mod lease;
pub mod scheme;

pub use generator::Generator;
pub use layout::Layout;
pub use scheme::Scheme;
