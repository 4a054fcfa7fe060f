//! Trigger functions: what fired, and the rows it fired for.

use pgrx::pg_sys;

use super::call::{Call, Datum, Returns};
use super::heap::Row;

/// The event that fired a trigger.
pub enum Event<'call> {
    Insert { new: Row<'call> },
    Update { old: Row<'call>, new: Row<'call> },
    Delete { old: Row<'call> },
    Truncate,
}

/// The answer of a trigger function: the row to continue with, or none.
pub struct Answer<'call>(Option<Row<'call>>);

impl<'call> Answer<'call> {
    /// The row is stored, or deleted.
    pub fn go_on_with(row: Row<'call>) -> Self {
        Answer(Some(row))
    }

    /// The operation on the row is skipped. Has no effect in an AFTER trigger.
    pub const NOTHING: Self = Answer(None);
}

impl Returns for Answer<'_> {
    fn returned(self, _call: Call<'_>) -> Datum {
        self.0
            .map_or(Datum::from(0), |row| Datum::from(row.tuple()))
    }
}

/// The relation and event for which a trigger function was called; `None` if the
/// function was not called as a trigger.
pub fn event(call: Call<'_>) -> Option<(pg_sys::Oid, Event<'_>)> {
    // SAFETY: a trigger's context is its TriggerData, which outlives the call, and the event
    // does not. The call's memory context is reset only after it.
    unsafe {
        let context = (*call.info).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
            return None;
        }
        let data = &*context.cast::<pg_sys::TriggerData>();
        let descriptor = (*data.tg_relation).rd_att;
        let row = |tuple| Row::new(tuple, descriptor);
        let operation = data.tg_event & pg_sys::TRIGGER_EVENT_OPMASK;
        let is_for_row = data.tg_event & pg_sys::TRIGGER_EVENT_ROW != 0;
        if is_for_row == (operation == pg_sys::TRIGGER_EVENT_TRUNCATE) {
            // A statement trigger has no rows.
            return None;
        }
        let event = match operation {
            pg_sys::TRIGGER_EVENT_INSERT => Event::Insert {
                new: row(data.tg_trigtuple),
            },
            pg_sys::TRIGGER_EVENT_UPDATE => Event::Update {
                old: row(data.tg_trigtuple),
                new: row(data.tg_newtuple),
            },
            pg_sys::TRIGGER_EVENT_DELETE => Event::Delete {
                old: row(data.tg_trigtuple),
            },
            _ => Event::Truncate,
        };
        Some(((*data.tg_relation).rd_id, event))
    }
}

/// How many triggers a table has, those of constraints included.
pub fn count_of(relation: pg_sys::Oid) -> usize {
    // SAFETY: the table is open, and locked, while its triggers are counted.
    unsafe {
        let table = pg_sys::table_open(relation, pg_sys::AccessShareLock as _);
        let found = (*table).trigdesc.as_ref();
        let count = found.map_or(0, |found| found.numtriggers as usize);
        pg_sys::table_close(table, pg_sys::AccessShareLock as _);
        count
    }
}

/// Whether the session replays changes made elsewhere.
pub fn is_replica() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::SessionReplicationRole == pg_sys::SESSION_REPLICATION_ROLE_REPLICA as i32 }
}
