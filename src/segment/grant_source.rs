//! The interface between the loader and the source of grants.

use leaf_core::grant::{Decision, Fed, Past, Wanted};

/// A requested grant.
pub struct Want<'a> {
    pub tag: &'a [u8],
    /// The incarnation of the tag's row.
    pub incarnation: [u8; 16],
    pub wanted: Wanted,
    /// What the centre has granted for it, if the tag is fed and the centre has.
    pub fed: Option<Fed>,
    /// Read before the tag's row.
    pub past: Past,
    /// Whether the grant could no longer be used. Called once the tag's row is locked.
    pub is_void: Box<dyn Fn() -> bool + 'a>,
}

/// A source of grants.
pub trait GrantSource {
    /// Decides on each requested grant, in their order, and writes what is granted, in
    /// the current transaction. Nothing may be handed out before that has committed.
    fn grant(&self, wants: &[Want<'_>]) -> Vec<Decision>;
}
