//! The tags of a handle.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use super::tag::Tag;

/// The tags of a handle, by name.
#[derive(Default)]
pub(crate) struct Tags {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    tags: HashMap<String, Arc<Tag>>,
    is_closed: bool,
}

impl Tags {
    /// The tag of this name; one that is closed if all are.
    pub(crate) fn get(&self, name: &str) -> Arc<Tag> {
        if let Some(tag) = self.state.read().tags.get(name) {
            return tag.clone();
        }
        let mut state = self.state.write();
        if state.is_closed {
            return Arc::new(Tag::closed(name));
        }
        let new = || Arc::new(Tag::new(name));
        state
            .tags
            .entry(name.to_owned())
            .or_insert_with(new)
            .clone()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tag>> {
        self.state.read().tags.values().cloned().collect()
    }

    /// All tags; from now on, there is none but closed ones.
    pub(crate) fn close(&self) -> Vec<Arc<Tag>> {
        let mut state = self.state.write();
        state.is_closed = true;
        state.tags.values().cloned().collect()
    }

    /// Removes a tag.
    pub(crate) fn remove(&self, tag: &Arc<Tag>) {
        let tags = &mut self.state.write().tags;
        if tags
            .get(&tag.name)
            .is_some_and(|kept| Arc::ptr_eq(kept, tag))
        {
            tags.remove(&tag.name);
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
        let idle: Vec<String> = {
            let idle = state.tags.iter().filter(|(_, tag)| is_idle(tag));
            idle.map(|(name, _)| name.clone()).collect()
        };
        idle.iter()
            .filter_map(|name| state.tags.remove(name))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_is_forgotten_that_nobody_draws_from_and_that_has_no_source() {
        let tags = Tags::default();
        let kept = tags.get("kept");
        drop(tags.get("unused"));
        let refilled = tags.get("refilled");
        assert!(refilled.begin_refill(), "by a task, which has the tag");
        let now = Duration::ZERO;
        let names = |tags: Vec<Arc<Tag>>| {
            let mut names: Vec<_> = tags.iter().map(|tag| tag.name.clone()).collect();
            names.sort();
            names
        };
        let hour = Duration::from_secs(3600);
        assert!(tags.remove_idle(hour).is_empty());
        assert_eq!(names(tags.remove_idle(now)), ["refilled", "unused"]);
        assert!(Arc::ptr_eq(&tags.get("kept"), &kept));
    }
}
