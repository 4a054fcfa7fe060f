//! Grants: how a tag's row of the catalog hands out numbers.
//!
//! A grant moves the row's `max_id` (the first number not yet granted) forward
//! and owns what it jumped over. A grant for the double buffer is a *segment*; a
//! grant to a single caller is a *block*.
//!
//! - [`position`]: the arithmetic.
//! - [`ledger`]: the decisions: what a row gives, or why it gives nothing.
//!
//! Reading, writing and committing the row is the caller's.

pub mod ledger;
pub mod position;

pub use ledger::{Decision, Found, Ledger, Past, Row, Wanted};
pub use position::{Exhausted, Grant, MAX_ID, Position, history_skip};
