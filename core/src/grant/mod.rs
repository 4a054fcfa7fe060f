//! Grants: how numbers are taken from a tag's row in the catalog.
//!
//! A grant moves the row's `max_id` (the first number not yet granted) forward; the
//! numbers in between belong to the grant. A grant that goes to the double buffer is
//! a *segment*; a grant to one caller is a *block*. A *history* is the life of one copy
//! of a cluster: a promotion or a restore begins another one.
//!
//! - [`position`]: the arithmetic.
//! - [`stripe`]: numbers that several nodes divide among themselves.
//! - [`ledger`]: the decisions: what is granted, or why nothing is.
//!
//! The caller reads, writes and commits the row.

pub mod ledger;
pub mod position;
pub mod stripe;

pub use ledger::{Decision, Fed, Found, Ledger, Past, Row, Wanted};
pub use position::{Exhausted, MAX_ID, Position, history_skip};
pub use stripe::{NotRestriped, OwnNumbers, Stripe};
