//! Reading a column of any table without a plan: nothing that belongs to the table's owner
//! is executed, such as policies, or functions in the predicates of indexes, which a
//! planner may call.

use pgrx::{AnyNumeric, FromDatum, PgMemoryContexts, pg_sys};

use super::process;

/// A column of a table that has rows of its own.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub table: pg_sys::Oid,
    pub attribute: i16,
    /// The type of the column, a domain perhaps.
    pub type_oid: pg_sys::Oid,
    pub numbers: Numbers,
    pub index: Option<Index>,
}

/// The type of the numbers in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    SmallInt,
    Integer,
    BigInt,
    Numeric,
}

/// A B-tree index over all rows, whose first column is the column that is read.
#[derive(Clone, Copy, Debug)]
pub struct Index {
    pub oid: pg_sys::Oid,
    pub is_descending: bool,
}

/// What a column has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// The largest number that is not above the limit; a fraction counts as the number
    /// that it is rounded to.
    pub largest: Option<i64>,
    /// Whether it has a number above the limit, or one that is none (NaN).
    pub has_outliers: bool,
    /// Whether it has a number that was not to be counted.
    pub has_others: bool,
}

impl Column {
    /// Reads the column, whatever snapshot the transaction uses; `None` if it is no longer
    /// as described, because it was changed before it could be locked. Only numbers for which
    /// `counts` is true are counted. Can be cancelled.
    pub fn summary(&self, limit: i64, counts: impl Fn(i64) -> bool) -> Option<Summary> {
        let mut summary = Summary::default();
        let is_read = self.each(|value| {
            match value.filter(|&value| value <= limit) {
                None => summary.has_outliers = true,
                Some(value) if !counts(value) => summary.has_others = true,
                Some(value) => summary.largest = summary.largest.max(Some(value)),
            }
            // In the order of an index, the first one is the largest.
            self.index.is_some() && summary.largest.is_some()
        });
        is_read.then_some(summary)
    }

    /// Calls `visit` with each value that is not NULL until it returns `true`: `None` for
    /// a number that no `bigint` can be. With an index, the largest values come first.
    /// Returns whether the column is as described.
    fn each(&self, mut visit: impl FnMut(Option<i64>) -> bool) -> bool {
        // What reading a value needs is freed after each row.
        let mut memory = PgMemoryContexts::new("leaf column");
        // SAFETY: the order of calls is PostgreSQL's own for such scans; an error in
        // between is cleaned up by the resource owner.
        unsafe {
            let table = pg_sys::try_table_open(self.table, pg_sys::AccessShareLock as _);
            if table.is_null() {
                return false;
            }
            let descriptor = (*table).rd_att;
            let attribute = i32::from(self.attribute);
            let is_as_described = pg_sys::SPI_gettypeid(descriptor, attribute) == self.type_oid
                && self.index.is_none_or(|index| has_index(table, index.oid));
            if !is_as_described {
                pg_sys::table_close(table, pg_sys::AccessShareLock as _);
                return false;
            }
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            for tuple in Scan::begin(table, self.index, snapshot) {
                process::check_for_interrupts();
                let mut null = false;
                let value = pg_sys::heap_getattr(tuple, attribute, descriptor, &mut null);
                if null {
                    continue;
                }
                let value = memory.switch_to(|_| self.numbers.read(value));
                memory.reset();
                if visit(value) {
                    break;
                }
            }
            pg_sys::UnregisterSnapshot(snapshot);
            pg_sys::table_close(table, pg_sys::AccessShareLock as _);
            true
        }
    }
}

/// The rows of an open table, in no order, or in the order of an index, the largest first.
struct Scan {
    scan: pg_sys::SysScanDesc,
    index: Option<(pg_sys::Relation, pg_sys::ScanDirection::Type)>,
}

impl Scan {
    /// # Safety
    /// The table is open, and has the index; the snapshot is registered. Both remain so until the
    /// scan is dropped.
    unsafe fn begin(
        table: pg_sys::Relation,
        index: Option<Index>,
        snapshot: pg_sys::Snapshot,
    ) -> Self {
        use pg_sys::ScanDirection::{BackwardScanDirection, ForwardScanDirection};
        let no_keys = std::ptr::null_mut();
        // SAFETY: the caller's promise; without keys, all rows are found.
        unsafe {
            let Some(index) = index else {
                let none = pg_sys::InvalidOid;
                let scan = pg_sys::systable_beginscan(table, none, false, snapshot, 0, no_keys);
                return Scan { scan, index: None };
            };
            let direction = match index.is_descending {
                true => ForwardScanDirection,
                false => BackwardScanDirection,
            };
            let relation = pg_sys::index_open(index.oid, pg_sys::AccessShareLock as _);
            let scan = pg_sys::systable_beginscan_ordered(table, relation, snapshot, 0, no_keys);
            Scan {
                scan,
                index: Some((relation, direction)),
            }
        }
    }
}

impl Iterator for Scan {
    type Item = pg_sys::HeapTuple;

    fn next(&mut self) -> Option<pg_sys::HeapTuple> {
        // SAFETY: the scan goes on until it is dropped. A row is valid until the next one is read.
        let tuple = unsafe {
            match self.index {
                Some((_, direction)) => pg_sys::systable_getnext_ordered(self.scan, direction),
                None => pg_sys::systable_getnext(self.scan),
            }
        };
        (!tuple.is_null()).then_some(tuple)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // After an error, PostgreSQL's resource owner ends the scan.
        if std::thread::panicking() {
            return;
        }
        // SAFETY: ended once.
        unsafe {
            match self.index {
                Some((relation, _)) => {
                    pg_sys::systable_endscan_ordered(self.scan);
                    pg_sys::index_close(relation, pg_sys::AccessShareLock as _);
                }
                None => pg_sys::systable_endscan(self.scan),
            }
        }
    }
}

/// Whether an open table still has an index, which is then not dropped while the table is
/// locked.
///
/// # Safety
/// The table is open and locked.
unsafe fn has_index(table: pg_sys::Relation, index: pg_sys::Oid) -> bool {
    // SAFETY: the caller's promise; the list is of OIDs.
    unsafe {
        let indexes = pg_sys::RelationGetIndexList(table);
        let has = pg_sys::list_member_oid(indexes, index);
        pg_sys::list_free(indexes);
        has
    }
}

impl Numbers {
    /// # Safety
    /// The value is of this type and not NULL.
    unsafe fn read(self, value: pg_sys::Datum) -> Option<i64> {
        match self {
            Numbers::SmallInt => Some(i64::from(value.value() as i16)),
            Numbers::Integer => Some(i64::from(value.value() as i32)),
            Numbers::BigInt => Some(value.value() as i64),
            Numbers::Numeric => {
                // SAFETY: the caller's promise.
                let value = unsafe { AnyNumeric::from_datum(value, false) };
                value.and_then(|value| i64::try_from(value).ok())
            }
        }
    }
}
