//! Grants: how numbers are taken from a tag's row in the catalog.
//!
//! A grant moves the row's `max_id` (the first number not yet granted) forward; the
//! numbers in between belong to the grant. A grant that goes to the double buffer is
//! a *segment*; a grant to one caller is a *block*. A *history* is the life of one copy
//! of a cluster: a promotion or a restore begins another one.
//!
//! - [`position`]: the arithmetic.
//! - [`stripe`]: numbers that several nodes divide among themselves.
//! - [`row`]: a tag's row, what is wanted of it, and what can be decided.
//! - [`ledger`]: the decisions: what is granted, or why nothing is.
//! - [`fed`]: tags whose numbers come from another cluster.
//!
//! The caller reads, writes and commits the row.

pub mod fed;
pub mod ledger;
pub mod position;
pub mod row;
pub mod stripe;

pub use fed::Delivery;
pub use ledger::Ledger;
pub use position::{Exhausted, MAX_ID, Position};
pub use row::{Decision, Found, GrantRequest, Grantor, Past, Row};
pub use stripe::{OwnNumbers, Stripe};
