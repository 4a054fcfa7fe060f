//! Reading sequences.

use pgrx::pg_sys;

const READ: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;

/// The columns of every sequence, by their numbers.
const LAST_VALUE: i32 = 1;
const IS_CALLED: i32 = 3;

/// The last value of a sequence, and whether it was handed out; `None` if no sequence has this
/// OID. Read without a plan and without a name: the owner could give the name to a view.
pub fn state(sequence: pg_sys::Oid) -> Option<(i64, bool)> {
    // SAFETY: the order of calls is PostgreSQL's own for such scans; an error in between is
    // cleaned up by the resource owner.
    unsafe {
        let relation = pg_sys::try_relation_open(sequence, READ);
        if relation.is_null() {
            return None;
        }
        let mut state = None;
        if (*(*relation).rd_rel).relkind as u8 == pg_sys::RELKIND_SEQUENCE {
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            let scan = pg_sys::systable_beginscan(
                relation,
                pg_sys::InvalidOid,
                false,
                snapshot,
                0,
                std::ptr::null_mut(),
            );
            let row = pg_sys::systable_getnext(scan);
            if !row.is_null() {
                let column = |number| {
                    let mut null = false;
                    pg_sys::heap_getattr(row, number, (*relation).rd_att, &mut null).value()
                };
                state = Some((column(LAST_VALUE) as i64, column(IS_CALLED) & 0xff != 0));
            }
            pg_sys::systable_endscan(scan);
            pg_sys::UnregisterSnapshot(snapshot);
        }
        pg_sys::relation_close(relation, READ);
        state
    }
}
