//! The seam between the loader and where numbers come from.

use leaf_core::grant::{Decision, Past, Wanted};

/// A grant that is wanted.
pub struct Want<'a> {
    pub tag: &'a [u8],
    pub wanted: Wanted,
    /// Read before the tag's row is.
    pub past: Past,
    /// Whether the grant would be of no use any more. Asked once the tag's row is
    /// locked.
    pub is_void: Box<dyn Fn() -> bool + 'a>,
}

/// Where grants come from.
pub trait GrantSource {
    /// Decides on each want, in their order, and writes what is granted, in the
    /// present transaction. Nothing is to be handed out before that has committed.
    fn grant(&self, wants: &[Want<'_>]) -> Vec<Decision>;
}
