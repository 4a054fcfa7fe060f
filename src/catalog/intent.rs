//! The purpose of a statement of leaf on its own tables. The tables' triggers allow it more than
//! other statements, also more than those of users' triggers that fire because of it.

use std::cell::RefCell;
use std::collections::HashMap;

/// A change that only one kind of statement may make.
pub enum Intent {
    /// Nothing of that kind.
    Plain,
    /// Grants, or takes ids back: it moves the rows of tags.
    Grant(HashMap<Vec<u8>, Move>),
    /// Attaches a tag to one of the centre.
    Attach { tag: Vec<u8> },
    /// Vouches that the rows of tags lack nothing that was fed, and, if it signs them, that they are
    /// the right ones although leaf's triggers did not see them being written.
    Vouch { signs: bool },
    /// Ends the lease of a worker id. Only this may lower a ceiling, because the holder gives
    /// the time up to which ids were issued.
    Release { worker_id: i64 },
}

/// Where a grant moves the row of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub to: i64,
    /// Whether it takes ids back: the row may move back.
    pub takes_back: bool,
}

thread_local! {
    /// The intent of the statement that is running, if it is one of leaf.
    static INTENT: RefCell<Option<Intent>> = const { RefCell::new(None) };
}

/// Runs `work`, whose statements are for this.
pub fn with<R>(intent: Intent, work: impl FnOnce() -> R) -> R {
    struct Scope(Option<Intent>);
    impl Drop for Scope {
        fn drop(&mut self) {
            INTENT.replace(self.0.take());
        }
    }
    // Also ends with an error, because an error unwinds.
    let _scope = Scope(INTENT.replace(Some(intent)));
    work()
}

fn of_statement<R: Default>(question: impl FnOnce(&Intent) -> R) -> R {
    INTENT.with_borrow(|intent| intent.as_ref().map(question).unwrap_or_default())
}

/// Whether a statement of leaf itself is running.
pub fn is_own_statement() -> bool {
    of_statement(|_| true)
}

/// The grant by which the tag's row is moved to `max_id`, if it is one.
pub fn grant(tag: &[u8], max_id: i64) -> Option<Move> {
    of_statement(|intent| match intent {
        Intent::Grant(moves) => moves.get(tag).copied().filter(|it| it.to == max_id),
        _ => None,
    })
}

/// Whether the tag is being attached to one of the centre.
pub fn attaches(tag: &[u8]) -> bool {
    of_statement(|intent| matches!(intent, Intent::Attach { tag: of } if of == tag))
}

/// Whether the statement vouches for rows.
pub fn vouches() -> bool {
    of_statement(|intent| matches!(intent, Intent::Vouch { .. }))
}

/// Whether the statement says that rows are the right ones.
pub fn signs() -> bool {
    of_statement(|intent| matches!(intent, Intent::Vouch { signs: true }))
}

/// Whether the lease of a worker id is being ended.
pub fn releases(worker_id: i64) -> bool {
    of_statement(|intent| matches!(intent, Intent::Release { worker_id: of } if *of == worker_id))
}
