//! From which rows this database has granted ids.
//!
//! A row that leaf's triggers did not see being written may be that of another node: replication
//! that fires no triggers can bring it. Nothing is granted from it before somebody says that it is the
//! right one, unless it is as before, or nobody else has numbers of the tag and it is the first one.
//!
//! Of tags that share their numbers with other nodes, a file says the same to the next loader. It is
//! read and written by the loader of its database alone.

use std::cell::RefCell;
use std::collections::HashMap;

use leaf_core::file;
use leaf_core::grant::{Found, Row};
use serde::{Deserialize, Serialize};

use crate::error::unusable_file;
use crate::pg::data_directory;

/// A line for each tag has a few hundred bytes.
const LARGEST: u64 = 1 << 30;

/// Which ids a row grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Source {
    incarnation: [u8; 16],
    stripes: u32,
    stripe: u32,
    width: Option<u64>,
    upstream: Option<[u8; 16]>,
}

impl Source {
    fn of(row: &Row) -> Self {
        let stripe = row.position.numbers.stripe();
        Source {
            incarnation: row.incarnation,
            stripes: stripe.count(),
            stripe: stripe.number(),
            width: stripe.width(),
            upstream: row.upstream,
        }
    }

    /// Whether other nodes have numbers of the tag, too.
    fn is_shared(&self) -> bool {
        self.upstream.is_some() || self.width.is_some()
    }
}

/// A line of the file; of those of one tag, the last one counts.
#[derive(Serialize, Deserialize)]
struct Line {
    catalog: u32,
    tag: Vec<u8>,
    source: Source,
}

/// The rows of a catalog.
#[derive(Default)]
struct Known {
    catalog: u32,
    sources: HashMap<Vec<u8>, Source>,
    /// Above how many of them some are forgotten.
    limit: usize,
    has_read: bool,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Compares the rows of tags, which are locked, with those before: one that was replaced is
/// [`Found::Replaced`] from now on, and the others are remembered. An error if the file cannot be
/// used. Of tags that share their numbers with nobody, about `most` are remembered.
pub fn compare(database: u32, catalog: u32, most: usize, tags: &[&[u8]], found: &mut [Found]) {
    KNOWN.with_borrow_mut(|known| {
        if known.catalog != catalog {
            *known = Known {
                catalog,
                ..Known::default()
            };
        }
        let mut new = Vec::new();
        for (&tag, found) in tags.iter().zip(found) {
            let Found::Row(row) = found else {
                continue;
            };
            let source = Source::of(row);
            if source.is_shared() || !row.is_signed {
                known.read(database);
            }
            let before = known.sources.get(tag).copied();
            let is_foreign = match before {
                Some(before) => before != source,
                None => source.is_shared(),
            };
            if !row.is_signed && is_foreign {
                *found = Found::Replaced;
            } else if before != Some(source) {
                let is_filed = source.is_shared() || before.is_some_and(|it| it.is_shared());
                new.push((tag.to_vec(), source, is_filed));
            }
        }
        known.note(database, new);
        known.keep(most);
    });
}

impl Known {
    fn read(&mut self, database: u32) {
        if self.has_read {
            return;
        }
        let path = data_directory::rows_of(database);
        let content = file::read_small(&path, LARGEST)
            .unwrap_or_else(|error| unusable_file("read", &path, &error).raise());
        let content = content.unwrap_or_default();
        // A part of a line is no line.
        let lines = content.split(|&byte| byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let lines = lines.filter(|line| line.catalog == self.catalog);
        let mut sources: HashMap<_, _> = lines.map(|line| (line.tag, line.source)).collect();
        // What was granted since this loader has begun is newer.
        sources.extend(std::mem::take(&mut self.sources));
        self.sources = sources;
        self.has_read = true;
    }

    /// Remembers rows, of which those are written to the file that are marked so.
    fn note(&mut self, database: u32, new: Vec<(Vec<u8>, Source, bool)>) {
        let mut lines = Vec::new();
        for (tag, source, _) in new.iter().filter(|(_, _, is_filed)| *is_filed) {
            let line = Line {
                catalog: self.catalog,
                tag: tag.clone(),
                source: *source,
            };
            // What a crash has left of a line ends here.
            lines.push(b'\n');
            lines.extend(serde_json::to_vec(&line).unwrap_or_default());
        }
        if !lines.is_empty() {
            let path = data_directory::rows_of(database);
            file::append_durably(&path, &lines)
                .unwrap_or_else(|error| unusable_file("write", &path, &error).raise());
        }
        let new = new.into_iter().map(|(tag, source, _)| (tag, source));
        self.sources.extend(new);
    }

    /// Forgets the tags that share their numbers with nobody, if they are more than `most`.
    fn keep(&mut self, most: usize) {
        if self.sources.len() > self.limit.max(most) {
            self.sources.retain(|_, source| source.is_shared());
            self.limit = self.sources.len() + most;
        }
    }
}
