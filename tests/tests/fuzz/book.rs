//! What is known of the ids so far, and what has happened.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard};

/// How many numbers each tag that is created has for its own, as a power of two.
const SPACE: u32 = 40;

/// Far from the numbers that the tags `edge` and `brim` get.
const FIRST_SPACE: i64 = 1 << 22;

/// Ids from one to another, both included.
type Range = (i64, i64);

/// From when to when a lease allows ids of a worker id, in microseconds.
#[derive(Clone, Debug)]
struct Span {
    worker_id: String,
    nonce: String,
    from: i64,
    to: i64,
}

#[derive(Default)]
struct State {
    spaces: i64,
    /// The spaces of tags with a cache, whose ids ascend within a session only.
    cached: HashSet<i64>,
    drawn: Vec<Range>,
    returned: Vec<Range>,
    flakes: Vec<i64>,
    /// The highest id of each space that was drawn singly.
    highest: HashMap<i64, i64>,
    /// For each space, the number before that to which its tag was moved.
    moved: HashMap<i64, i64>,
    /// Blocks with their tags.
    blocks: Vec<(String, Range)>,
    /// Worker id, nonce, token.
    leases: Vec<[String; 3]>,
    /// The times of the ids that leases allow.
    spans: Vec<Span>,
    transcript: Vec<String>,
}

impl State {
    /// What the last lease with a nonce allows.
    fn last_span(&mut self, nonce: &str) -> Option<&mut Span> {
        self.spans.iter_mut().rfind(|span| span.nonce == nonce)
    }
}

/// Shared by all sessions of a case.
#[derive(Default)]
pub struct Book(Mutex<State>);

impl Book {
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.lock();
        state.unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A statement with its placeholders filled in, for a session that has run so
    /// many before.
    pub fn render(&self, sql: &str, turn: usize) -> String {
        let mut state = self.state();
        let base = (FIRST_SPACE + state.spaces) << SPACE;
        if sql.contains("$CACHED") {
            state.cached.extend(space(base));
        }
        if sql.contains("$BASE") || sql.contains("$CACHED") {
            state.spaces += 1;
        }
        let block = state.blocks.iter().rev().nth(turn % 3).cloned();
        let (tag, (first, last)) = block.unwrap_or(("'a'".into(), (1, 1)));
        let first = match turn % 2 {
            0 => first,
            _ => first + (last - first) / 2,
        };
        let nobody = ["0", "00000000-0000-0000-0000-000000000000", "1"];
        let lease = state.leases.iter().rev().nth(turn % 3).cloned();
        let [worker, nonce, token] = lease.unwrap_or(nobody.map(str::to_owned));
        sql.replace("$BASE", &base.to_string())
            .replace("$CACHED", &base.to_string())
            .replace("$TAG", &tag)
            .replace("$FIRST", &first.to_string())
            .replace("$LAST", &last.to_string())
            .replace("$WORKER", &worker)
            .replace("$NONCE", &nonce)
            .replace("$TOKEN", &token)
    }

    /// The highest ids that had been drawn before a call begins, or what tags were moved past.
    pub fn floors(&self) -> HashMap<i64, i64> {
        let state = self.state();
        let mut floors = state.highest.clone();
        floors.retain(|space, _| !state.cached.contains(space));
        for (&space, &floor) in &state.moved {
            let highest = floors.entry(space).or_insert(floor);
            *highest = floor.max(*highest);
        }
        floors
    }

    /// Enters that a tag was moved to a number.
    pub fn moved(&self, to: i64) {
        if let Some(space) = space(to) {
            let mut state = self.state();
            let last = state.moved.entry(space).or_insert(to - 1);
            *last = (to - 1).max(*last);
        }
    }

    /// The server has crashed, and may have lost commits that did not wait for the disk.
    pub fn crashed(&self) {
        self.state().moved.clear();
    }

    /// Enters ids in the order in which a statement drew them, after `floors`.
    pub fn drawn_in_order(&self, floors: HashMap<i64, i64>, ids: &[i64]) -> Result<(), String> {
        let mut state = self.state();
        let mut floors = floors;
        for &id in ids {
            let Some(space) = space(id) else { continue };
            let floor = floors.insert(space, id);
            if floor.is_some_and(|floor| floor >= id) {
                return Err(format!("{id} was drawn after {floor:?}"));
            }
            let highest = state.highest.entry(space).or_insert(id);
            *highest = id.max(*highest);
        }
        state.drawn.extend(ids.iter().map(|&id| (id, id)));
        Ok(())
    }

    /// Enters ids.
    pub fn drawn(&self, ids: &[i64]) {
        self.state().drawn.extend(ids.iter().map(|&id| (id, id)));
    }

    /// Enters a block, and the tag that it may be returned to.
    pub fn reserved(&self, tag: Option<String>, first: i64, last: i64) {
        let mut state = self.state();
        state.drawn.push((first, last));
        state.blocks.extend(tag.map(|tag| (tag, (first, last))));
    }

    /// Enters that a part of a block was taken back, or may have been.
    pub fn returned(&self, first: i64, last: i64) {
        self.state().returned.push((first, last));
    }

    /// Enters snowflake ids.
    pub fn flakes(&self, ids: &[i64]) {
        self.state().flakes.extend(ids);
    }

    /// Remembers a lease, and that it allows ids up to its ceiling: from an instant on, or as
    /// before.
    pub fn leased(&self, lease: [String; 3], from: Option<i64>, ceiling: i64) {
        let mut state = self.state();
        let [worker_id, nonce, _] = lease.clone();
        state.leases.push(lease);
        match (state.last_span(&nonce), from) {
            (Some(span), None) => span.to = span.to.max(ceiling),
            (Some(span), Some(from)) if span.from == from && span.worker_id == worker_id => {
                span.to = span.to.max(ceiling);
            }
            // A nonce can be used again once its row has another one.
            (_, Some(from)) => state.spans.push(Span {
                worker_id,
                nonce,
                from,
                to: ceiling,
            }),
            // Of a row that was written by hand.
            (None, None) => {}
        }
    }

    /// Remembers that a lease has no ids from an instant on, in microseconds.
    pub fn released(&self, nonce: &str, used_until: i64) {
        if let Some(span) = self.state().last_span(nonce) {
            span.to = span.to.min(used_until.max(span.from));
        }
    }

    /// Adds to the transcript.
    pub fn note(&self, line: String) {
        self.state().transcript.push(line);
    }

    /// What has happened.
    pub fn transcript(&self) -> String {
        self.state().transcript.join("\n")
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        let state = self.state();
        state.drawn.len() + state.flakes.len()
    }

    /// An error if an id was handed out more often than it was there to be.
    pub fn audit(&self) -> Result<(), String> {
        let state = self.state();
        // Where the number of holders changes, and by how much; where one range
        // ends and another begins, the end counts first.
        let mut changes = Vec::new();
        for (ranges, by) in [(&state.drawn, 1), (&state.returned, -1)] {
            for &(first, last) in ranges {
                if space(first).is_some() {
                    changes.push((first, by));
                    changes.push((last + 1, -by));
                }
            }
        }
        changes.sort_unstable();
        let mut holders = 0;
        for (id, by) in changes {
            holders += by;
            if holders > 1 {
                return Err(format!("id {id} was handed out twice"));
            }
        }
        let is_used = |span: &&Span| span.from < span.to;
        let mut spans: Vec<&Span> = state.spans.iter().filter(is_used).collect();
        spans.sort_unstable_by_key(|span| (&span.worker_id, span.from));
        let overlap = spans
            .windows(2)
            .find(|pair| pair[0].worker_id == pair[1].worker_id && pair[0].to > pair[1].from);
        if let Some(pair) = overlap {
            return Err(format!("two leases allow the same ids: {pair:?}"));
        }
        let mut flakes = state.flakes.clone();
        flakes.sort_unstable();
        match flakes.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("snowflake id {} was handed out twice", pair[0])),
            None => Ok(()),
        }
    }
}

/// Which tag's numbers an id is of, if their ids are compared.
pub fn space(id: i64) -> Option<i64> {
    let space = id >> SPACE;
    (FIRST_SPACE..FIRST_SPACE + (1 << 20))
        .contains(&space)
        .then_some(space)
}
