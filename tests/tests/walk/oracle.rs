//! Which ids were handed out, by whom, and which must not have been: the manual's rules.
//!
//! A *life* is what one database hands out from the moment at which it begins to go its own way:
//! with its creation, or as a copy of another one. A copy contains what its parent had handed out
//! up to some moment, and begins above that. From a parent and a copy that both go on:
//!
//! - a number that is contained must never come again;
//! - a copy skips (`leaf.history_skip`): below the place where the skip ends, it hands out nothing.
//!   Above that, two lives are two spaces of numbers;
//! - numbers for shards have no such end: a copy feeds none that its relatives feed, unless its
//!   owner has said where the tag stands since;
//! - the predecessor of a standby that was promoted with `leaf.lossless_failover` hands out nothing
//!   any more, or is not compared;
//! - no worker id is used by two at the same time, except by one whose lease the copy lacks;
//! - a copy of a data directory that was not told to be one cannot be recognised: what it and its
//!   original hand out is not compared.

use std::collections::{HashMap, HashSet};

pub type Life = usize;

/// What a copy has when it begins a life.
#[derive(Clone, Debug, Default)]
pub struct Beginning {
    /// Whose copy it is, and how many entries that had made, which it contains.
    pub parent: Option<(Life, usize)>,
    /// Whether it can know that it is one.
    pub is_told: bool,
    /// Below this, it hands out nothing that it does not contain.
    pub floor: i64,
    /// The worker ids that it knows.
    pub workers: HashSet<i32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Drawn,
    Fed,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: usize,
    life: Life,
    how: How,
}

/// From when to when a worker id was used by one, in milliseconds.
#[derive(Clone, Debug)]
struct Span {
    at: usize,
    life: Life,
    holder: String,
    worker_id: i32,
    from: i64,
    to: i64,
}

#[derive(Default)]
pub struct Oracle {
    lives: Vec<Beginning>,
    /// From which entry on the owner has said where a life's numbers stand, and when last.
    stated: HashMap<Life, (usize, usize)>,
    numbers: HashMap<i64, Vec<Entry>>,
    flakes: HashMap<i64, Vec<Entry>>,
    spans: Vec<Span>,
    entries: usize,
    highest: i64,
}

impl Oracle {
    pub fn begin(&mut self, beginning: Beginning) -> Life {
        self.lives.push(beginning);
        self.lives.len() - 1
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// A number above all that were handed out.
    pub fn above_all(&self) -> i64 {
        self.highest + 1
    }

    /// The owner says that a life lacks nothing of what was handed out up to now.
    pub fn state(&mut self, life: Life) {
        let first = self.stated.get(&life).map_or(self.entries, |it| it.0);
        self.stated.insert(life, (first, self.entries));
    }

    /// Whether a life contains all numbers that were handed out.
    pub fn lacks_nothing(&self, life: Life) -> bool {
        let mut all = self.numbers.values().flatten();
        all.all(|entry| self.contains(life, entry.life, entry.at))
    }

    /// Enters numbers that a life has handed out.
    pub fn numbers(
        &mut self,
        life: Life,
        how: How,
        numbers: impl IntoIterator<Item = i64>,
    ) -> Result<(), String> {
        for number in numbers {
            let new = Entry {
                at: self.entries,
                life,
                how,
            };
            self.entries += 1;
            self.highest = self.highest.max(number);
            for old in self.numbers.get(&number).into_iter().flatten() {
                if let Some(why) = self.forbids(number, *old, new) {
                    return Err(format!(
                        "{number} was {:?} by life {} and {:?} by life {life}: {why}",
                        old.how, old.life, new.how
                    ));
                }
            }
            self.numbers.entry(number).or_default().push(new);
        }
        Ok(())
    }

    /// Why a number must not be handed out again.
    fn forbids(&self, number: i64, old: Entry, new: Entry) -> Option<&'static str> {
        if self.contains(new.life, old.life, old.at) {
            return Some("it contains that");
        }
        let copies = self.copies_between(old.life, new.life)?;
        let is_stated = |copy: &Life| {
            let stated = self.stated.get(copy);
            stated.is_some_and(|&(first, last)| {
                first <= old.at && (*copy != new.life || last <= old.at)
            })
        };
        if copies.iter().any(is_stated) {
            return None;
        }
        if old.how == How::Fed && new.how == How::Fed {
            return Some("both are fed to shards, and nobody has said where the tag stands");
        }
        let is_below = |copy: &&Life| number < self.lives[**copy].floor;
        let is_of_end = |copy: &&Life| [old.life, new.life].contains(*copy);
        (copies.iter().filter(is_of_end).any(|copy| is_below(&copy)))
            .then_some("it is below what the copy skips")
    }

    /// Whether a life began with an entry of another one, or has made it.
    fn contains(&self, life: Life, other: Life, at: usize) -> bool {
        let (mut life, mut up_to) = (life, usize::MAX);
        loop {
            if life == other {
                return at < up_to;
            }
            match self.lives[life].parent {
                Some((parent, entries)) => (life, up_to) = (parent, up_to.min(entries)),
                None => return false,
            }
        }
    }

    fn ancestors(&self, life: Life) -> Vec<Life> {
        std::iter::successors(Some(life), |&life| {
            self.lives[life].parent.map(|(parent, _)| parent)
        })
        .collect()
    }

    /// The copies that two lives have been made by since they were one; `None` if they are not to
    /// be compared.
    fn copies_between(&self, one: Life, other: Life) -> Option<Vec<Life>> {
        let (ones, others) = (self.ancestors(one), self.ancestors(other));
        if ones.last() != others.last() {
            return None;
        }
        let of_one = ones.iter().filter(|life| !others.contains(life));
        let of_other = others.iter().filter(|life| !ones.contains(life));
        let copies: Vec<Life> = of_one.chain(of_other).copied().collect();
        (copies.iter().all(|&copy| self.lives[copy].is_told)).then_some(copies)
    }

    /// Enters snowflake ids of a life. Those of relatives are compared by [`used`](Self::used).
    pub fn flakes(&mut self, life: Life, ids: &[i64]) -> Result<(), String> {
        for &id in ids {
            let how = How::Drawn;
            let new = Entry {
                at: self.entries,
                life,
                how,
            };
            self.entries += 1;
            let before = self.flakes.get(&id).into_iter().flatten();
            let contained = before
                .copied()
                .find(|old| self.contains(life, old.life, old.at));
            if let Some(old) = contained {
                return Err(format!(
                    "{id} was issued by life {} and by life {life}, which contains that",
                    old.life
                ));
            }
            self.flakes.entry(id).or_default().push(new);
        }
        Ok(())
    }

    /// Enters that a worker id was used, from the first to the last of these milliseconds. What the
    /// same holder has used lies before that or is a part of it.
    pub fn used(
        &mut self,
        life: Life,
        holder: &str,
        worker_id: i32,
        from: i64,
        to: i64,
    ) -> Result<(), String> {
        let is_own = |span: &Span| {
            (span.life, span.worker_id, span.holder.as_str()) == (life, worker_id, holder)
        };
        let before = self.spans.iter().position(is_own);
        let mut new = before.map_or_else(
            || Span {
                at: self.entries,
                life,
                holder: holder.to_owned(),
                worker_id,
                from,
                to,
            },
            |at| self.spans.swap_remove(at),
        );
        (new.from, new.to) = (new.from.min(from), new.to.max(to));
        self.entries += 1;
        let overlaps =
            |old: &&Span| old.worker_id == worker_id && old.from <= new.to && new.from <= old.to;
        for old in self.spans.iter().filter(overlaps) {
            let is_forbidden = old.life == life
                || self.contains(life, old.life, old.at) && old.holder != "server"
                || (self.copies_between(old.life, life)).is_some_and(|copies| {
                    copies
                        .iter()
                        .all(|&copy| self.lives[copy].workers.contains(&worker_id))
                });
            if is_forbidden {
                return Err(format!(
                    "two use a worker id at the same time: {old:?}, {new:?}"
                ));
            }
        }
        self.spans.push(new);
        Ok(())
    }
}
