//! What the savepoints of a transaction have done, in its order.

/// A list of doings that forgets those of savepoints that are rolled back.
///
/// What a savepoint has done stands at the end of the list until the savepoint is
/// over. So releasing one costs the same however much was done, and rolling one back
/// costs as much as is forgotten. Savepoints are told apart by numbers; the
/// transaction itself is the outermost.
///
/// ```
/// use leaf_core::journal::Journal;
///
/// let mut journal = Journal::default();
/// journal.push(1, "outside");
/// journal.push(2, "in a savepoint");
/// let mut undone = Vec::new();
/// journal.roll_back(2, |_, doing| undone.push(doing));
/// assert_eq!(undone, ["in a savepoint"]);
/// assert_eq!(journal.iter().collect::<Vec<_>>(), [&"outside"]);
/// ```
#[derive(Debug)]
pub struct Journal<T> {
    doings: Vec<T>,
    /// Where the doings of each savepoint begin, outermost first. Those of one end
    /// where those of the next begin.
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
            doings: Vec::new(),
            parts: Vec::new(),
        }
    }
}

impl<T> Journal<T> {
    /// Whether nothing has been done.
    pub fn is_empty(&self) -> bool {
        self.doings.is_empty()
    }

    /// Adds a doing of the innermost savepoint; returns its number.
    pub fn push(&mut self, by: u32, doing: T) -> usize {
        let number = self.doings.len();
        if self.parts.last().is_none_or(|part| part.by != by) {
            self.parts.push(Part { by, begin: number });
        }
        self.doings.push(doing);
        number
    }

    /// The doing of a number, if the savepoint `by`, the innermost one, has done it.
    pub fn get_mut(&mut self, number: usize, by: u32) -> Option<&mut T> {
        let part = self.parts.last().filter(|part| part.by == by)?;
        (number >= part.begin)
            .then(|| self.doings.get_mut(number))
            .flatten()
    }

    /// The last doing, if the savepoint `by`, the innermost one, has done it.
    pub fn last_of(&self, by: u32) -> Option<(usize, &T)> {
        self.parts.last().filter(|part| part.by == by)?;
        Some((self.doings.len() - 1, self.doings.last()?))
    }

    /// All doings, the first one first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.doings.iter()
    }

    /// A savepoint was released: its doings are its parent's.
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

    /// A savepoint was rolled back: `undo` gets each of its doings with its number,
    /// the last one first.
    pub fn roll_back(&mut self, by: u32, mut undo: impl FnMut(usize, T)) {
        let Some(last) = self.parts.pop_if(|part| part.by == by) else {
            return;
        };
        while self.doings.len() > last.begin
            && let Some(doing) = self.doings.pop()
        {
            undo(self.doings.len(), doing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doings(journal: &Journal<u32>) -> Vec<u32> {
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
        journal.roll_back(2, |number, doing| undone.push((number, doing)));
        assert_eq!(undone, [(4, 40), (3, 21), (2, 30), (1, 20)]);
        assert_eq!(doings(&journal), [10]);
    }

    #[test]
    fn a_savepoint_that_did_nothing_undoes_nothing() {
        let mut journal = Journal::default();
        journal.push(1, 10);
        journal.roll_back(2, |_, _| unreachable!());
        journal.release(3, 1);
        assert_eq!(doings(&journal), [10]);
    }

    #[test]
    fn a_parent_that_did_nothing_before_inherits_all() {
        let mut journal = Journal::default();
        journal.push(3, 30);
        journal.release(3, 2);
        journal.release(2, 1);
        journal.roll_back(2, |_, _| unreachable!());
        assert_eq!(doings(&journal), [30]);
        journal.roll_back(1, |_, _| {});
        assert!(journal.is_empty());
    }

    #[test]
    fn only_the_innermost_savepoint_changes_its_own_doings() {
        let mut journal = Journal::default();
        let outer = journal.push(1, 10);
        let inner = journal.push(2, 20);
        assert_eq!(journal.get_mut(outer, 2), None);
        assert_eq!(journal.get_mut(inner, 2), Some(&mut 20));
        assert_eq!(journal.last_of(2), Some((inner, &20)));
        assert_eq!(journal.last_of(1), None);
        journal.release(2, 1);
        assert_eq!(journal.get_mut(inner, 1), Some(&mut 20));
    }

    #[test]
    fn releasing_a_savepoint_does_not_look_at_what_was_done() {
        // 100,000 savepoints that are all open, each with a doing: were each looked
        // at with every release, this would take 5,000,000,000 looks.
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
