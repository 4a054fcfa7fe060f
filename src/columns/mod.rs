//! Taking over columns whose values came from a sequence, and giving them back.
//!
//! - [`adopt`]: from then on, the default draws from leaf, above everything that is there.
//! - [`release`]: the way back.
//! - [`locking`]: both lock the table and its sequences exclusively, for a moment.
//!
//! Everything is done by PostgreSQL's own commands, as the owner of the table, whoever calls;
//! only the tag's row is written as the owner of `leaf.alloc`. The caller may be a superuser, so
//! nothing is executed that the owner could have replaced, and what was looked up by a name is
//! looked up again under the locks.

pub mod adopt;
mod error;
mod locking;
mod look;
pub mod release;
