//! Which ids were returned, to whom and when, over the whole of a test.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The number of the caller that is the test itself.
pub const OF_THE_TEST: u16 = u16::MAX;

/// Who got an id, and when.
#[derive(Clone, Copy)]
struct Answer {
    caller: u16,
    /// Seconds since the start.
    at: f32,
}

/// The answers to all callers. Unlike a [`Ledger`](crate::Ledger), it keeps a
/// repetition, and says where both came from.
pub struct Answers {
    start: Instant,
    ids: Mutex<HashMap<&'static str, HashMap<i64, Answer>>>,
    repeated: Mutex<Vec<String>>,
}

impl Answers {
    /// None yet; times are counted from `start`.
    pub fn since(start: Instant) -> Answers {
        Answers {
            start,
            ids: Mutex::new(HashMap::new()),
            repeated: Mutex::new(Vec::new()),
        }
    }

    /// Enters ids of a kind that a caller has got just now.
    pub fn enter(&self, kind: &'static str, caller: u16, ids: impl IntoIterator<Item = i64>) {
        let answer = Answer {
            caller,
            at: self.start.elapsed().as_secs_f32(),
        };
        let mut kinds = self.ids.lock().expect("no panic");
        let known = kinds.entry(kind).or_default();
        for id in ids {
            match known.entry(id) {
                Entry::Vacant(place) => _ = place.insert(answer),
                Entry::Occupied(first) => {
                    let (first, second) = (first.get(), &answer);
                    let repetition = format!(
                        "{kind}: {id} was returned to caller {} at {:.2} s and to caller {} at {:.2} s",
                        first.caller, first.at, second.caller, second.at
                    );
                    self.repeated.lock().expect("no panic").push(repetition);
                }
            }
        }
    }

    /// How many different ids there are.
    pub fn len(&self) -> usize {
        let kinds = self.ids.lock().expect("no panic");
        kinds.values().map(HashMap::len).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many ids these callers got in each period of this length since the start.
    pub fn per(&self, period: Duration, callers: &[u16]) -> Vec<usize> {
        let kinds = self.ids.lock().expect("no panic");
        let all = kinds.values().flat_map(HashMap::values);
        let mut counts = Vec::new();
        for answer in all.filter(|answer| callers.contains(&answer.caller)) {
            let number = (answer.at / period.as_secs_f32()) as usize;
            counts.resize(counts.len().max(number + 1), 0);
            counts[number] += 1;
        }
        counts
    }

    /// The ids that were returned more than once, in words.
    pub fn repeated(&self) -> Vec<String> {
        self.repeated.lock().expect("no panic").clone()
    }

    /// Panics if an id was returned more than once.
    pub fn assert_no_repetition(&self) {
        let repeated = self.repeated();
        let first = &repeated[..repeated.len().min(10)];
        assert!(
            repeated.is_empty(),
            "{} ids were returned twice:\n{}",
            repeated.len(),
            first.join("\n")
        );
    }
}
