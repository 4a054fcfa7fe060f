//! Whether calls get ids.

/// An answer for health checks, from [`Leaf::health`](crate::Leaf::health). Finding it out
/// costs no statement.
///
/// ```no_run
/// # fn example(leaf: &leaf_sdk::Leaf) {
/// let health = leaf.health();
/// if !health.is_healthy() {
///     eprintln!("no ids for {:?}: {:?}", health.starving, health.last_error);
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the server has answered the last time that it was asked, and the connection is
    /// open; `None` if it was not asked yet. While ids are at hand, calls succeed without it, and
    /// after an outage, it is not asked before more are needed.
    pub is_reachable: Option<bool>,
    /// Why the server could not be reached, if it could not; otherwise the panic of this program's
    /// code because of which a source is starving.
    pub last_error: Option<String>,
    /// Sources without ids at hand: tags for which calls wait, or whose last attempt to fetch ids
    /// failed because of an outage; the nodes of generators whose last attempt to lease or renew
    /// failed, and whose lease is not in force.
    pub starving: Vec<String>,
    /// Whether the handle has been closed, or belongs to the parent of this process.
    pub is_closed: bool,
}

impl Health {
    /// Whether calls get ids: the handle is open, and nothing is starving.
    pub fn is_healthy(&self) -> bool {
        !self.is_closed && self.starving.is_empty()
    }
}
