//! Marks updates of `leaf.alloc` that are grants, so that the table's triggers can
//! distinguish them from other updates, also from those of users' triggers that fire
//! because of a grant.

use std::cell::RefCell;
use std::collections::HashMap;

/// The `max_id` that each tag's row is set to.
type Positions = HashMap<Vec<u8>, i64>;

#[derive(Default)]
struct Granting {
    positions: Positions,
    /// Whether rows may move back.
    takes_back: bool,
}

thread_local! {
    static GRANTING: RefCell<Option<Granting>> = const { RefCell::new(None) };
}

/// Runs `work`, which sets the rows of tags to these positions, above their present ones.
pub fn granting<'t, R>(
    positions: impl IntoIterator<Item = (&'t [u8], i64)>,
    work: impl FnOnce() -> R,
) -> R {
    within(positions, false, work)
}

/// Like [`granting`], for an update that takes ids back: rows may move back.
pub fn taking_back<'t, R>(
    positions: impl IntoIterator<Item = (&'t [u8], i64)>,
    work: impl FnOnce() -> R,
) -> R {
    within(positions, true, work)
}

fn within<'t, R>(
    positions: impl IntoIterator<Item = (&'t [u8], i64)>,
    takes_back: bool,
    work: impl FnOnce() -> R,
) -> R {
    struct Scope(Option<Granting>);
    impl Drop for Scope {
        fn drop(&mut self) {
            GRANTING.replace(self.0.take());
        }
    }
    let positions = positions.into_iter();
    let now = Granting {
        positions: positions
            .map(|(tag, max_id)| (tag.to_vec(), max_id))
            .collect(),
        takes_back,
    };
    // Also ends with an error, because an error unwinds.
    let _scope = Scope(GRANTING.replace(Some(now)));
    work()
}

fn asks<R: Default>(question: impl FnOnce(&Granting) -> R) -> R {
    GRANTING.with_borrow(|granting| granting.as_ref().map(question).unwrap_or_default())
}

/// Whether an update of the tag's row to `max_id` is a grant, or takes ids back.
pub fn covers(tag: &[u8], max_id: i64) -> bool {
    asks(|granting| granting.positions.get(tag) == Some(&max_id))
}

/// Whether an update of the tag's row to `max_id` takes ids back.
pub fn takes_back(tag: &[u8], max_id: i64) -> bool {
    asks(|granting| granting.takes_back) && covers(tag, max_id)
}
