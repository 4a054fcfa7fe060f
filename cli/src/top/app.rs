//! The state of the sources, and the part of it that is shown.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use tokio::sync::watch;

use super::poll::Update;
use crate::look::{Look, Tag};

/// The shortest and the longest interval between two looks, in seconds.
pub const INTERVALS: [f64; 2] = [0.1, 3_600.0];

/// The order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Names, ascending
    Name,
    /// Ids per second, the most first
    #[default]
    Rate,
    /// Waits, the most first
    Waits,
    /// How long the ids of the tag last, the shortest first
    Left,
    /// Errors, the latest first
    Errors,
}

/// The pane on the screen beside the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Table,
    /// The filter is being typed.
    Filter,
    /// All that is known of the selected tag.
    Detail,
    Help,
}

/// A database that is watched.
pub struct Source {
    pub name: String,
    pub look: Option<Look>,
    /// Why the last look failed.
    pub error: Option<String>,
    looked_at: Option<Instant>,
    tags: HashMap<String, Seen>,
}

/// A tag, as several looks together show it.
#[derive(Clone, Debug)]
struct Seen {
    ids_drawn: i64,
    loads: i64,
    rate: f64,
    /// Ids that the segment in use had when it was first seen.
    current_size: i64,
}

/// A row of the table.
#[derive(Clone)]
pub struct Row<'a> {
    pub source: &'a Source,
    pub tag: &'a Tag,
    /// Ids per second since the look before, or since the last loads.
    pub rate: f64,
    /// How much of the segment in use is left, and how much of the next one, from 0 to 1.
    pub fill: [f64; 2],
}

impl Row<'_> {
    /// How long the buffers last at the current rate, in seconds.
    pub fn buffers_last(&self) -> Option<f64> {
        (self.rate > 0.0).then(|| self.tag.buffered() as f64 / self.rate)
    }
}

/// Everything that is shown.
pub struct App {
    /// The server, if all sources are databases of one.
    pub server: Option<String>,
    pub sources: Vec<Source>,
    pub sort: Sort,
    pub is_reversed: bool,
    pub filter: String,
    pub mode: Mode,
    pub is_paused: bool,
    /// The number of the selected row.
    pub selected: usize,
    interval: watch::Sender<Duration>,
    is_over: bool,
}

impl App {
    pub fn new(
        server: Option<String>,
        names: Vec<String>,
        sort: Sort,
        filter: &str,
        interval: watch::Sender<Duration>,
    ) -> App {
        let source = |name| Source {
            name,
            look: None,
            error: None,
            looked_at: None,
            tags: HashMap::new(),
        };
        App {
            server,
            sources: names.into_iter().map(source).collect(),
            sort,
            is_reversed: false,
            filter: filter.to_owned(),
            mode: Mode::Table,
            is_paused: false,
            selected: 0,
            interval,
            is_over: false,
        }
    }

    pub fn interval(&self) -> Duration {
        *self.interval.borrow()
    }

    /// Makes the interval longer or shorter; the next look is taken at once.
    pub fn multiply_interval(&mut self, factor: f64) {
        let [shortest, longest] = INTERVALS;
        let seconds = self.interval().as_secs_f64() * factor;
        let interval = Duration::from_secs_f64(seconds.clamp(shortest, longest));
        self.interval.send_replace(interval);
    }

    pub fn end(&mut self) {
        self.is_over = true;
    }

    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Takes in a look, unless the screen is paused.
    pub fn update(&mut self, update: Update, now: Instant) {
        if self.is_paused {
            return;
        }
        if let Some(source) = self.sources.get_mut(update.source) {
            source.update(update.look, now);
        }
        self.select(self.selected);
    }

    /// Selects a row, or the last one.
    pub fn select(&mut self, row: usize) {
        let last = self.rows().len().saturating_sub(1);
        self.selected = row.min(last);
    }

    /// Sorts by something else, or in the other direction.
    pub fn sort_by(&mut self, sort: Sort) {
        self.is_reversed = self.sort == sort && !self.is_reversed;
        self.sort = sort;
    }

    /// The rows in their order, without those that the filter leaves out.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let filter = self.filter.to_lowercase();
        let mut rows: Vec<Row<'_>> = self
            .sources
            .iter()
            .flat_map(Source::rows)
            .filter(|row| row.tag.tag.to_lowercase().contains(&filter))
            .collect();
        rows.sort_by(|a, b| {
            let order = self.sort.compare(a, b);
            let order = if self.is_reversed {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| name(a).cmp(&name(b)))
        });
        rows
    }
}

fn name<'a>(row: &Row<'a>) -> (&'a str, &'a str) {
    (&row.tag.tag, &row.source.name)
}

impl Sort {
    fn compare(self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        // Null is longer than everything.
        let left = |row: &Row<'_>| row.tag.time_left_seconds.unwrap_or(f64::INFINITY);
        match self {
            Sort::Name => name(a).cmp(&name(b)),
            Sort::Rate => b.rate.total_cmp(&a.rate),
            Sort::Waits => b.tag.waits.cmp(&a.tag.waits),
            Sort::Left => left(a).total_cmp(&left(b)),
            Sort::Errors => b.tag.last_error_at.cmp(&a.tag.last_error_at),
        }
    }
}

impl Source {
    fn update(&mut self, look: Result<Look, String>, now: Instant) {
        let look = match look {
            Ok(look) => look,
            Err(error) => {
                self.error = Some(error);
                return;
            }
        };
        let passed = self
            .looked_at
            .map(|at| now.duration_since(at).as_secs_f64());
        let seen = |tag: &Tag| {
            (
                tag.tag.clone(),
                Seen::of(tag, self.tags.get(&tag.tag), passed),
            )
        };
        self.tags = look.tags.iter().map(seen).collect();
        self.error = None;
        self.looked_at = Some(now);
        self.look = Some(look);
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let tags = self.look.iter().flat_map(|look| &look.tags);
        tags.filter_map(|tag| {
            let seen = self.tags.get(&tag.tag)?;
            Some(Row {
                source: self,
                tag,
                rate: seen.rate,
                fill: [
                    share(tag.current_left, seen.current_size),
                    share(tag.next_left, tag.step.max(tag.next_left)),
                ],
            })
        })
    }
}

fn share(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        _ => (part as f64 / whole as f64).clamp(0.0, 1.0),
    }
}

impl Seen {
    fn of(tag: &Tag, before: Option<&Seen>, passed: Option<f64>) -> Seen {
        let rate = match (before, passed) {
            // The counter begins again when a tag comes back into memory.
            (Some(before), Some(passed)) if passed > 0.0 && tag.ids_drawn >= before.ids_drawn => {
                (tag.ids_drawn - before.ids_drawn) as f64 / passed
            }
            _ => tag.ids_per_second,
        };
        let size = match before {
            Some(before) if before.loads == tag.loads => before.current_size,
            _ => tag.step,
        };
        Seen {
            ids_drawn: tag.ids_drawn,
            loads: tag.loads,
            rate,
            current_size: size.max(tag.current_left),
        }
    }
}
