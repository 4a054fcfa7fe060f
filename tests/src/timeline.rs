//! What callers saw, and when, as lines of text.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a character stands for.
const CELL: Duration = Duration::from_millis(100);

/// Characters in a line: twelve seconds.
const WIDTH: usize = 120;

/// A gap that is shorter than this is no stall: the pause between two calls, and a busy
/// machine.
const SHORT: Duration = Duration::from_millis(100);

/// The calls of all callers, and what happened meanwhile.
pub struct Timeline {
    start: Instant,
    rows: Mutex<Vec<Arc<Mutex<Row>>>>,
    marks: Mutex<Vec<(Duration, String)>>,
}

struct Row {
    name: String,
    cells: Vec<u8>,
    served: Duration,
    /// From one answer to the next one, if that took long.
    stalls: Vec<(Duration, Duration)>,
}

/// One caller's line.
pub struct CallerLine {
    start: Instant,
    number: u16,
    row: Arc<Mutex<Row>>,
}

/// A failed test still shows its timeline.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Timeline {
    /// Begins now.
    pub fn start() -> Timeline {
        Timeline {
            start: Instant::now(),
            rows: Mutex::default(),
            marks: Mutex::default(),
        }
    }

    /// When it began.
    pub fn started(&self) -> Instant {
        self.start
    }

    /// The time since it began.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A line for a caller that begins now.
    pub fn caller(&self, name: &str) -> CallerLine {
        let row = Arc::new(Mutex::new(Row {
            name: name.to_owned(),
            cells: Vec::new(),
            served: self.now(),
            stalls: Vec::new(),
        }));
        let mut rows = lock(&self.rows);
        rows.push(row.clone());
        CallerLine {
            start: self.start,
            number: rows.len() as u16 - 1,
            row,
        }
    }

    /// How many lines there are.
    pub fn callers(&self) -> usize {
        lock(&self.rows).len()
    }

    /// Something happens now.
    pub fn mark(&self, what: &str) {
        let mut marks = lock(&self.marks);
        marks.push((self.now(), what.to_owned()));
    }

    /// What happened, and when.
    pub fn marks(&self) -> Vec<(Duration, String)> {
        lock(&self.marks).clone()
    }

    /// The numbers of the callers whose names begin so.
    pub fn numbers(&self, callers: &str) -> Vec<u16> {
        let rows = lock(&self.rows);
        let numbered = rows.iter().zip(0..);
        let of_them = numbered.filter(|(row, _)| lock(row).name.starts_with(callers));
        of_them.map(|(_, number)| number).collect()
    }

    /// Whether each caller has got an answer after `instant`.
    pub fn all_served_since(&self, instant: Duration) -> bool {
        let rows = lock(&self.rows);
        rows.iter().all(|row| lock(row).served > instant)
    }

    /// The longest time since `begin` in which a caller whose name begins so got no
    /// answer.
    pub fn longest_stall(&self, callers: &str, begin: Duration) -> Duration {
        let mut longest = Duration::ZERO;
        for row in lock(&self.rows).iter() {
            let row = lock(row);
            if row.name.starts_with(callers) {
                let present = (row.served, self.now());
                let stalls = row.stalls.iter().copied().chain([present]);
                let recent = stalls.filter(|(_, until)| *until > begin);
                let recent = recent.map(|(from, until)| until - from).max();
                longest = longest.max(recent.unwrap_or_default());
            }
        }
        longest
    }

    /// The lines since `begin`: what happened, and below it a line for each caller, with
    /// a character for each tenth of a second: `.` served, `-` waiting, `x` error.
    pub fn text(&self, begin: Duration) -> String {
        let cell = |time: Duration| (time.as_millis() / CELL.as_millis()) as usize;
        let (first, last) = (cell(begin), cell(self.now()));
        let marks = lock(&self.marks);
        let marks: Vec<_> = marks.iter().filter(|(at, _)| *at >= begin).collect();
        let letter = |number: usize| char::from(b'A' + (number % 26) as u8);
        let mut text = String::new();
        for (number, (at, what)) in marks.iter().enumerate() {
            writeln!(
                text,
                "  {} {:7.1} s  {what}",
                letter(number),
                at.as_secs_f64()
            )
            .expect("a string");
        }
        let rows = lock(&self.rows);
        for from in (first..=last).step_by(WIDTH) {
            let until = (from + WIDTH).min(last + 1);
            let mut events = vec![' '; until - from];
            for (number, (at, _)) in marks.iter().enumerate() {
                if (from..until).contains(&cell(*at)) {
                    events[cell(*at) - from] = letter(number);
                }
            }
            let events: String = events.into_iter().collect();
            writeln!(
                text,
                "{:>16} {events}",
                format!("{:.1} s", from as f64 / 10.0)
            )
            .expect("a string");
            for row in rows.iter() {
                let row = lock(row);
                let cells = (from..until).map(|cell| *row.cells.get(cell).unwrap_or(&b'-'));
                let cells: String = cells.map(char::from).collect();
                writeln!(text, "{:>16} {cells}", row.name).expect("a string");
            }
        }
        text
    }
}

impl CallerLine {
    /// The caller's number, from 0 on in the order of the lines.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// A call that began at `begin` has returned ids.
    pub fn served(&self, begin: Instant) {
        let now = self.start.elapsed();
        let mut row = lock(&self.row);
        if now - row.served > SHORT {
            let stall = (row.served, now);
            row.stalls.push(stall);
        }
        row.served = now;
        row.fill(begin - self.start, now, b'.');
    }

    /// The caller was connecting since `begin`.
    pub fn waited(&self, begin: Instant) {
        let now = self.start.elapsed();
        let mut row = lock(&self.row);
        row.fill(begin - self.start, now, b'-');
    }

    /// A call that began at `begin` has failed.
    pub fn failed(&self, begin: Instant) {
        let now = self.start.elapsed();
        let mut row = lock(&self.row);
        row.fill(begin - self.start, now, b'x');
    }
}

impl Row {
    /// Waiting from the call on, and then this. An error stays visible.
    fn fill(&mut self, from: Duration, until: Duration, end: u8) {
        let cell = |time: Duration| (time.as_millis() / CELL.as_millis()) as usize;
        let (from, until) = (cell(from), cell(until));
        if self.cells.len() <= until {
            // A pause between two calls, which begin in time.
            self.cells.resize(from.max(self.cells.len()), b' ');
            self.cells.resize((until + 1).max(self.cells.len()), b'-');
        }
        if self.cells[until] != b'x' && end != b'-' {
            self.cells[until] = end;
        }
    }
}
