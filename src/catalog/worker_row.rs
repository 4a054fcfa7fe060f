//! A row of `leaf.worker` as triggers and look-ups see it, without SQL.

use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use pgrx::pg_sys;

use super::relation;
use crate::pg::{clock, display, heap};

/// Columns of `leaf.worker` that are read without SQL.
mod column {
    pub const WORKER_ID: i16 = 1;
    pub const NODE: i16 = 2;
    pub const HISTORY: i16 = 5;
    pub const LAYOUT: i16 = 6;
    pub const EPOCH: i16 = 7;
    pub const CEILING: i16 = 8;
    pub const START_AT: i16 = 13;
}

/// A row of `leaf.worker` in a trigger.
pub struct WorkerRow<'r>(pub heap::Row<'r>);

impl<'r> WorkerRow<'r> {
    pub fn worker_id(&self) -> i32 {
        self.0.integer(column::WORKER_ID).unwrap_or_default()
    }

    pub fn node(&self) -> String {
        let node = self.0.text(column::NODE).unwrap_or_default();
        display(node)
    }

    pub fn history(&self) -> &[u8] {
        self.0.text(column::HISTORY).unwrap_or_default()
    }

    /// Layout and epoch; `None` if they are not valid.
    pub fn scheme(&self) -> Option<Scheme> {
        scheme_of(&self.0)
    }

    pub fn ceiling(&self) -> WallTime {
        self.0.timestamp(column::CEILING).unwrap_or_default()
    }

    /// Where the ids of the lease begin, if that is known.
    pub fn start_at(&self) -> Option<WallTime> {
        self.0.timestamp(column::START_AT)
    }

    /// The row with another ceiling.
    pub fn with_ceiling(self, ceiling: WallTime) -> WorkerRow<'r> {
        let ceiling = pg_sys::Datum::from(clock::to_timestamp(ceiling));
        let row = self.0.with(column::CEILING, ceiling);
        WorkerRow(row)
    }
}

/// Layout and epoch of an arbitrary row of the registry; all rows have the same.
pub fn scheme_in(registry: pg_sys::Oid) -> Option<Scheme> {
    // The first row of an index: the table may begin with many dead ones.
    heap::any_row(registry, relation::worker_index(), scheme_of).flatten()
}

fn scheme_of(row: &heap::Row<'_>) -> Option<Scheme> {
    let layout = String::from_utf8_lossy(row.text(column::LAYOUT)?).parse();
    Some(Scheme {
        layout: layout.ok()?,
        epoch: row.timestamp(column::EPOCH)?,
    })
}
