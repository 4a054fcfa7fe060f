//! What came of the calls of one client, or of all.

use std::time::Duration;

use hdrhistogram::Histogram;

/// How many ids of all clients together are kept to be compared: 8 bytes each.
const MOST_IDS: usize = 50_000_000;

/// What came of the calls.
#[derive(Debug)]
pub struct Tally {
    pub calls: u64,
    pub ids: u64,
    /// In nanoseconds.
    pub latency: Histogram<u64>,
    /// Ids that came twice, among those that were compared.
    pub duplicates: u64,
    /// Ids that were not above the one before in the same client.
    pub unordered: u64,
    pub compared: u64,
    kept: Vec<i64>,
    most: usize,
    last: Option<i64>,
}

impl Tally {
    /// For one of so many clients.
    pub fn of_one(clients: u16) -> Tally {
        Tally {
            calls: 0,
            ids: 0,
            latency: histogram(),
            duplicates: 0,
            unordered: 0,
            compared: 0,
            kept: Vec::new(),
            most: MOST_IDS / usize::from(clients),
            last: None,
        }
    }

    /// Takes in the ids of a call.
    pub fn drawn(&mut self, ids: &[i64]) {
        self.calls += 1;
        self.ids += ids.len() as u64;
        for &id in ids {
            self.unordered += u64::from(self.last.is_some_and(|last| last >= id));
            self.last = Some(id);
        }
        let room = self.most - self.kept.len();
        self.kept.extend(&ids[..ids.len().min(room)]);
    }

    /// Takes in how long a call took.
    pub fn lasted(&mut self, duration: Duration) {
        self.latency.saturating_record(duration.as_nanos() as u64);
    }

    /// What all clients have done, with their ids compared.
    pub fn all(tallies: Vec<Tally>) -> Tally {
        let mut all = Tally::of_one(1);
        all.most = MOST_IDS;
        for tally in tallies {
            all.calls += tally.calls;
            all.ids += tally.ids;
            all.unordered += tally.unordered;
            // Both have the same bounds.
            let _ = all.latency.add(&tally.latency);
            all.kept.extend(tally.kept);
        }
        let mut kept = std::mem::take(&mut all.kept);
        kept.sort_unstable();
        all.compared = kept.len() as u64;
        all.duplicates = kept.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
        all
    }
}

/// From 1 ns to an hour, with three digits.
fn histogram() -> Histogram<u64> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR_NS, 3).expect("the bounds are in order")
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn id_that_comes_twice_is_found_in_other_clients_too() {
        let (mut a, mut b) = (Tally::of_one(2), Tally::of_one(2));
        a.drawn(&[1, 2, 3]);
        b.drawn(&[5, 3]);
        let all = Tally::all(vec![a, b]);
        assert_eq!((all.calls, all.ids, all.compared), (2, 5, 5));
        assert_eq!((all.duplicates, all.unordered), (1, 1));
    }
}
