//! The actions of a transaction and its savepoints, in order.

/// A list of actions that drops those of a savepoint when it is rolled back.
///
/// Until a savepoint ends, its actions are at the end of the list. Therefore, the
/// cost of a release does not depend on the number of actions, and the cost of a
/// rollback depends only on the number of actions dropped. Savepoints are identified
/// by numbers; the transaction itself is the outermost one.
///
/// ```
/// use leaf_core::journal::Journal;
///
/// let mut journal = Journal::default();
/// journal.push(1, "outside");
/// journal.push(2, "in a savepoint");
/// let mut undone = Vec::new();
/// journal.roll_back(2, |action| undone.push(action));
/// assert_eq!(undone, ["in a savepoint"]);
/// assert_eq!(journal.iter().collect::<Vec<_>>(), [&"outside"]);
/// ```
#[derive(Debug)]
pub struct Journal<T> {
    actions: Vec<T>,
    /// Where the actions of each savepoint begin, outermost first. The actions of one
    /// end where those of the next begin.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    by: u32,
    begin: usize,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Journal {
            actions: Vec::new(),
            parts: Vec::new(),
        }
    }
}

impl<T> Journal<T> {
    /// Whether there are no actions.
    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    /// Adds an action of `by`, the innermost savepoint; returns its number, counted
    /// from 0.
    pub fn push(&mut self, by: u32, action: T) -> usize {
        let number = self.actions.len();
        if self.parts.last().is_none_or(|part| part.by != by) {
            self.parts.push(Part { by, begin: number });
        }
        self.actions.push(action);
        number
    }

    /// The action with this number, if it is one of `by` and `by` is the innermost
    /// savepoint.
    pub fn get_mut(&mut self, number: usize, by: u32) -> Option<&mut T> {
        let part = self.parts.last().filter(|part| part.by == by)?;
        (number >= part.begin)
            .then(|| self.actions.get_mut(number))
            .flatten()
    }

    /// The last action, if it is one of `by`, the innermost savepoint.
    pub fn last_of(&self, by: u32) -> Option<&T> {
        self.parts.last().filter(|part| part.by == by)?;
        self.actions.last()
    }

    /// All actions, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.actions.iter()
    }

    /// A savepoint was released: its actions become its parent's.
    pub fn release(&mut self, by: u32, parent: u32) {
        let Some(last) = self.parts.pop_if(|part| part.by == by) else {
            return;
        };
        if self.parts.last().is_none_or(|part| part.by != parent) {
            self.parts.push(Part {
                by: parent,
                begin: last.begin,
            });
        }
    }

    /// A savepoint was rolled back: calls `undo` for each of its actions, the last one first.
    pub fn roll_back(&mut self, by: u32, undo: impl FnMut(T)) {
        let Some(last) = self.parts.pop_if(|part| part.by == by) else {
            return;
        };
        self.actions.drain(last.begin..).rev().for_each(undo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(journal: &Journal<u32>) -> Vec<u32> {
        journal.iter().copied().collect()
    }

    #[test]
    fn released_savepoints_are_undone_with_their_parent() {
        let mut journal = Journal::default();
        journal.push(1, 10);
        journal.push(2, 20);
        journal.push(3, 30);
        journal.release(3, 2);
        journal.push(2, 21);
        journal.push(4, 40);
        journal.release(4, 2);
        let mut undone = Vec::new();
        journal.roll_back(2, |action| undone.push(action));
        assert_eq!(undone, [40, 21, 30, 20]);
        assert_eq!(actions(&journal), [10]);
    }

    #[test]
    fn a_savepoint_that_did_nothing_undoes_nothing() {
        let mut journal = Journal::default();
        journal.push(1, 10);
        journal.roll_back(2, |_| unreachable!());
        journal.release(3, 1);
        assert_eq!(actions(&journal), [10]);
    }

    #[test]
    fn a_parent_that_did_nothing_before_inherits_all() {
        let mut journal = Journal::default();
        journal.push(3, 30);
        journal.release(3, 2);
        journal.release(2, 1);
        journal.roll_back(2, |_| unreachable!());
        assert_eq!(actions(&journal), [30]);
        journal.roll_back(1, |_| {});
        assert!(journal.is_empty());
    }

    #[test]
    fn only_the_innermost_savepoint_changes_its_own_doings() {
        let mut journal = Journal::default();
        let outer = journal.push(1, 10);
        let inner = journal.push(2, 20);
        assert_eq!(journal.get_mut(outer, 2), None);
        assert_eq!(journal.get_mut(inner, 2), Some(&mut 20));
        assert_eq!(journal.last_of(2), Some(&20));
        assert_eq!(journal.last_of(1), None);
        journal.release(2, 1);
        assert_eq!(journal.get_mut(inner, 1), Some(&mut 20));
    }

    #[test]
    fn releasing_a_savepoint_does_not_look_at_what_was_done() {
        // 100,000 open savepoints, each with one action: if every release looked at
        // every action, this would take 5,000,000,000 steps.
        let mut journal = Journal::default();
        let count = 100_000;
        for by in 1..=count {
            journal.push(by, by);
        }
        for by in (2..=count).rev() {
            journal.release(by, by - 1);
            assert_eq!(journal.parts.len(), (by - 1) as usize);
        }
        assert_eq!(journal.iter().count(), count as usize);
    }
}
