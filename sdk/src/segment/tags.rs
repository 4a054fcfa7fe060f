//! The tags of a handle.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::RwLock;

use super::tag::Tag;

/// How many tags without ids are remembered before those are looked for that nobody wants
/// any more.
const FEW: usize = 64;

/// The tags of a handle, by name. A tag is registered when its first block has come: names that
/// callers make up take no memory.
#[derive(Default)]
pub(crate) struct Tags {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    registered: HashMap<String, Arc<Tag>>,
    /// Tags whose first block has not come. They are there as long as they have a source or are
    /// being refilled.
    awaited: HashMap<String, Weak<Tag>>,
    is_closed: bool,
}

impl State {
    fn get(&self, name: &str) -> Option<Arc<Tag>> {
        let awaited = || self.awaited.get(name)?.upgrade();
        self.registered.get(name).cloned().or_else(awaited)
    }

    fn all(&self) -> Vec<Arc<Tag>> {
        let awaited = self.awaited.values().filter_map(Weak::upgrade);
        self.registered.values().cloned().chain(awaited).collect()
    }
}

impl Tags {
    /// The tag of this name; one that is closed if all are.
    pub(crate) fn get(&self, name: &str) -> Arc<Tag> {
        if let Some(tag) = self.state.read().get(name) {
            return tag;
        }
        let mut state = self.state.write();
        if state.is_closed {
            return Arc::new(Tag::closed(name));
        }
        if let Some(tag) = state.get(name) {
            return tag;
        }
        let awaited = &mut state.awaited;
        if awaited.len() >= FEW && awaited.len() == awaited.capacity() {
            awaited.retain(|_, tag| tag.strong_count() > 0);
        }
        let tag = Arc::new(Tag::new(name));
        awaited.insert(name.to_owned(), Arc::downgrade(&tag));
        tag
    }

    /// Registers a tag of which a block has come, unless it was removed meanwhile.
    pub(crate) fn register(&self, tag: &Arc<Tag>) {
        let mut state = self.state.write();
        let awaited = state.awaited.get(&tag.name);
        if awaited.is_some_and(|awaited| awaited.as_ptr() == Arc::as_ptr(tag)) {
            state.awaited.remove(&tag.name);
            state.registered.insert(tag.name.clone(), tag.clone());
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tag>> {
        self.state.read().all()
    }

    /// All tags; from now on, there is none but closed ones.
    pub(crate) fn close(&self) -> Vec<Arc<Tag>> {
        let mut state = self.state.write();
        state.is_closed = true;
        state.all()
    }

    /// Removes a tag.
    pub(crate) fn remove(&self, tag: &Arc<Tag>) {
        let mut state = self.state.write();
        if state
            .get(&tag.name)
            .is_some_and(|kept| Arc::ptr_eq(&kept, tag))
        {
            state.registered.remove(&tag.name);
            state.awaited.remove(&tag.name);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.read().is_closed
    }

    /// Removes the tags from which nobody has drawn for this long, and which nobody can
    /// draw from without asking for them again.
    pub(crate) fn remove_idle(&self, longer_than: Duration) -> Vec<Arc<Tag>> {
        let is_idle = |tag: &Arc<Tag>| {
            let users = Arc::strong_count(tag) - 1 - usize::from(tag.is_refilling());
            tag.idle_for() > longer_than && users == 0
        };
        let mut state = self.state.write();
        state.awaited.retain(|_, tag| tag.strong_count() > 0);
        let idle = state.registered.extract_if(|_, tag| is_idle(tag));
        idle.map(|(_, tag)| tag).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(tags: &Tags, name: &str) -> Arc<Tag> {
        let tag = tags.get(name);
        tags.register(&tag);
        tag
    }

    #[test]
    fn tag_is_forgotten_that_nobody_draws_from_and_that_has_no_source() {
        let tags = Tags::default();
        let kept = registered(&tags, "kept");
        drop(registered(&tags, "unused"));
        let refilled = registered(&tags, "refilled");
        assert!(refilled.begin_refill(), "by a task, which has the tag");
        let hour = Duration::from_secs(3600);
        assert!(tags.remove_idle(hour).is_empty());
        let forgotten = tags.remove_idle(Duration::ZERO);
        let mut names: Vec<_> = forgotten.iter().map(|tag| tag.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["refilled", "unused"]);
        assert!(Arc::ptr_eq(&tags.get("kept"), &kept));
    }

    #[test]
    fn tag_without_ids_is_there_as_long_as_somebody_wants_it() {
        let tags = Tags::default();
        let wanted = tags.get("wanted");
        assert!(Arc::ptr_eq(&tags.get("wanted"), &wanted));
        assert_eq!(tags.all().len(), 1);
        drop(wanted);
        assert!(tags.all().is_empty());
        for number in 0..10_000 {
            drop(tags.get(&format!("made up {number}")));
        }
        assert!(tags.state.read().awaited.len() < 1_000);
        // Once registered, it stays.
        drop(registered(&tags, "orders"));
        assert_eq!(tags.all().len(), 1);
        // One that was removed meanwhile does not come back.
        let removed = tags.get("removed");
        tags.remove(&removed);
        let another = tags.get("removed");
        tags.register(&removed);
        assert!(Arc::ptr_eq(&tags.get("removed"), &another));
        drop(another);
        assert_eq!(tags.all().len(), 1);
    }
}
