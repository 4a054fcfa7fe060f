//! Reading one row without SQL: no plan, no row lock, no code of other roles, and the
//! reader needs no privilege on the table.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;

use leaf_core::time::WallTime;
use pgrx::pg_sys;

use super::clock;

/// A relation's OID by name, if it exists.
pub fn relation_oid(schema: &CStr, relation: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: system catalog lookups inside a transaction.
    unsafe {
        let namespace = pg_sys::get_namespace_oid(schema.as_ptr(), true);
        if namespace == pg_sys::InvalidOid {
            return None;
        }
        let oid = pg_sys::get_relname_relid(relation.as_ptr(), namespace);
        (oid != pg_sys::InvalidOid).then_some(oid)
    }
}

/// An extension.
pub struct Extension {
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
    /// The schema of its functions.
    pub schema: pg_sys::Oid,
}

/// An extension by its name, if it exists.
pub fn extension(name: &CStr) -> Option<Extension> {
    // SAFETY: a system catalog lookup inside a transaction.
    let oid = unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) };
    if oid == pg_sys::InvalidOid {
        return None;
    }
    let index = pg_sys::Oid::from(pg_sys::ExtensionOidIndexId);
    let read = |row: &Row<'_>| {
        Some(Extension {
            oid,
            owner: row.oid(3)?,
            schema: row.oid(4)?,
        })
    };
    find_by_oid(pg_sys::ExtensionRelationId, index, Seen::Before, oid, read)?
}

/// The extension to which an object of a catalog belongs, if it does.
pub fn extension_of(catalog: pg_sys::Oid, object: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a system catalog lookup inside a transaction.
    let extension = unsafe { pg_sys::getExtensionOfObject(catalog, object) };
    (extension != pg_sys::InvalidOid).then_some(extension)
}

/// Whether the current command gives a schema another name.
pub fn is_being_renamed(schema: pg_sys::Oid) -> bool {
    let index = pg_sys::Oid::from(pg_sys::NamespaceOidIndexId);
    let name = |seen| {
        find_by_oid(pg_sys::NamespaceRelationId, index, seen, schema, |row| {
            row.name(2).map(CStr::to_owned)
        })
    };
    name(Seen::Before) != name(Seen::After)
}

/// Whether a catalog is seen as before the current command, or with what that has done.
#[derive(Clone, Copy)]
enum Seen {
    Before,
    After,
}

/// Whether the current transaction has created a relation.
pub fn is_created_here(relation: pg_sys::Oid) -> bool {
    // SAFETY: a relation cache lookup inside a transaction; the entry is released.
    unsafe {
        let entry = pg_sys::RelationIdGetRelation(relation);
        if entry.is_null() {
            return false;
        }
        let created = (*entry).rd_createSubid != 0;
        pg_sys::RelationClose(entry);
        created
    }
}

/// Whether the current transaction, or in a parallel worker that of its leader, has
/// created or changed a relation.
pub fn is_own_version_of_relation(relation: pg_sys::Oid) -> bool {
    // SAFETY: a system catalog lookup inside a transaction; the entry is released.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::RELOID as _,
            pg_sys::Datum::from(relation),
        );
        if tuple.is_null() {
            return false;
        }
        let xmin = (*(*tuple).t_data).t_choice.t_heap.t_xmin;
        pg_sys::ReleaseSysCache(tuple);
        pg_sys::TransactionIdIsCurrentTransactionId(xmin)
    }
}

/// Locks under which relations can be read; released when dropped.
pub struct Readable(Vec<pg_sys::Oid>);

const READ: pg_sys::LOCKMODE = pg_sys::AccessShareLock as pg_sys::LOCKMODE;

/// Whether this transaction already holds a lock on the relation. It then has
/// precedence over waiting sessions, and does not have to wait itself.
fn has_lock(relation: pg_sys::Oid) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: super::database::current(),
        locktag_field2: relation.to_u32(),
        locktag_field3: 0,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_RELATION as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    // SAFETY: a well-formed tag; looks into this process's own table of locks.
    unsafe {
        // There, a function that also looks for stronger locks came with a minor version.
        #[cfg(any(feature = "pg15", feature = "pg16"))]
        return (READ..=pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE)
            .any(|mode| pg_sys::LockHeldByMe(&raw const tag, mode));
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        return pg_sys::LockHeldByMe(&raw const tag, READ, true);
    }
}

/// Waits until all the relations can be read, and calls `keep_waiting`, which sleeps
/// or raises an error, as long as they cannot: a caller's wait is bounded whatever
/// locks other sessions hold.
pub fn wait_until_readable(relations: &[pg_sys::Oid], mut keep_waiting: impl FnMut()) -> Readable {
    let mut locked = Readable(Vec::with_capacity(relations.len()));
    for &relation in relations {
        if has_lock(relation) {
            // SAFETY: granted at once; see `Drop`.
            unsafe { pg_sys::LockRelationOid(relation, READ) };
        } else {
            // SAFETY: takes the lock or does not; see `Drop`.
            while !unsafe { pg_sys::ConditionalLockRelationOid(relation, READ) } {
                keep_waiting();
            }
        }
        locked.0.push(relation);
    }
    locked
}

impl Drop for Readable {
    fn drop(&mut self) {
        for &relation in &self.0 {
            // SAFETY: the lock is held; only these functions fill the list.
            unsafe { pg_sys::UnlockRelationOid(relation, READ) };
        }
    }
}

/// Locks a relation for reading until the transaction ends, unless that takes a wait.
pub fn lock_for_reading_at_once(relation: pg_sys::Oid) -> bool {
    // SAFETY: takes the lock or does not.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, READ) }
}

/// The owner of a relation.
pub fn relation_owner(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a system catalog lookup inside a transaction; the entry is released.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(
            pg_sys::SysCacheIdentifier::RELOID as _,
            pg_sys::Datum::from(relation),
        );
        if tuple.is_null() {
            return None;
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        let owner = (*form).relowner;
        pg_sys::ReleaseSysCache(tuple);
        Some(owner)
    }
}

/// Whether a role may update rows of a relation.
pub fn may_update(role: pg_sys::Oid, relation: pg_sys::Oid) -> bool {
    has_privilege(role, relation, pg_sys::ACL_UPDATE)
}

fn has_privilege(role: pg_sys::Oid, relation: pg_sys::Oid, privilege: u32) -> bool {
    let privilege = pg_sys::AclMode::from(privilege);
    // SAFETY: a system catalog lookup inside a transaction.
    let found = unsafe { pg_sys::pg_class_aclcheck(relation, role, privilege) };
    found == pg_sys::AclResult::ACLCHECK_OK
}

/// A row of a table, valid during `'r`.
pub struct Row<'r> {
    tuple: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
    lifetime: PhantomData<&'r ()>,
}

impl<'r> Row<'r> {
    /// The row in a tuple.
    ///
    /// # Safety
    /// Both pointers are valid during `'r` and belong together, and the memory contexts in
    /// which the row is read or copied are not reset before its end.
    pub unsafe fn new(tuple: pg_sys::HeapTuple, descriptor: pg_sys::TupleDesc) -> Self {
        Row {
            tuple,
            descriptor,
            lifetime: PhantomData,
        }
    }

    /// The tuple itself.
    pub fn tuple(&self) -> pg_sys::HeapTuple {
        self.tuple
    }

    /// A copy of the row with one column changed, to NULL if there is no value.
    pub fn with(&self, column: i16, value: impl Into<Option<pg_sys::Datum>>) -> Row<'r> {
        let value = value.into();
        let mut null = value.is_none();
        let (mut number, mut value) = (column as i32, value.unwrap_or(pg_sys::Datum::null()));
        // SAFETY: one column, described by three arrays of one element.
        let tuple = unsafe {
            pg_sys::heap_modify_tuple_by_cols(
                self.tuple,
                self.descriptor,
                1,
                &raw mut number,
                &raw mut value,
                &raw mut null,
            )
        };
        Row {
            tuple,
            descriptor: self.descriptor,
            lifetime: PhantomData,
        }
    }

    /// A copy of the row with these columns of another row of the same table.
    pub fn with_columns_of(self, other: &Row<'_>, columns: &[i16]) -> Row<'r> {
        let with = |row: Row<'r>, &column: &i16| row.with(column, other.column(column));
        columns.iter().fold(self, with)
    }

    /// A column of type `boolean`.
    pub fn flag(&self, column: i16) -> Option<bool> {
        self.datum(column, &[pg_sys::BOOLOID])
            .map(|datum| datum.value() as u8 != 0)
    }

    /// A column of type `integer`.
    pub fn integer(&self, column: i16) -> Option<i32> {
        self.datum(column, &[pg_sys::INT4OID])
            .map(|datum| datum.value() as i32)
    }

    /// A column of type `timestamptz`.
    pub fn timestamp(&self, column: i16) -> Option<WallTime> {
        self.datum(column, &[pg_sys::TIMESTAMPTZOID])
            .map(|datum| clock::from_timestamp(datum.value() as i64))
    }

    /// A column of type `oid`.
    fn oid(&self, column: i16) -> Option<pg_sys::Oid> {
        self.datum(column, &[pg_sys::OIDOID])
            .map(|datum| pg_sys::Oid::from(datum.value() as u32))
    }

    /// A column of type `bigint`.
    pub fn bigint(&self, column: i16) -> Option<i64> {
        self.datum(column, &[pg_sys::INT8OID])
            .map(|datum| datum.value() as i64)
    }

    /// A column of type `text` or `varchar`.
    pub fn text(&self, column: i16) -> Option<&[u8]> {
        // SAFETY: the column is of such a type; the bytes lie in the tuple or
        // in a copy in the current memory context.
        self.datum(column, &[pg_sys::TEXTOID, pg_sys::VARCHAROID])
            .map(|datum| unsafe { super::datum::text(datum) })
    }

    /// Whether the current transaction wrote this version of the row.
    pub fn is_from_this_transaction(&self) -> bool {
        // SAFETY: reads this process's transaction state.
        unsafe { pg_sys::TransactionIdIsCurrentTransactionId(self.xmin()) }
    }

    /// The transaction that wrote this version of the row.
    fn xmin(&self) -> pg_sys::TransactionId {
        // SAFETY: the tuple is valid; see the type.
        unsafe { (*(*self.tuple).t_data).t_choice.t_heap.t_xmin }
    }

    /// Whether a column of type `xid` names the transaction that wrote this version of the row.
    pub fn is_written_by(&self, column: i16) -> bool {
        let writer = self.datum(column, &[pg_sys::XIDOID]);
        writer.is_some_and(|datum| datum.value() as u32 == self.xmin().into_inner())
    }

    /// A column of type `name`.
    pub fn name(&self, column: i16) -> Option<&CStr> {
        // SAFETY: a name is a C string in a fixed field of the tuple.
        self.datum(column, &[pg_sys::NAMEOID])
            .map(|datum| unsafe { CStr::from_ptr(datum.cast_mut_ptr()) })
    }

    /// A column of type `uuid`.
    pub fn uuid(&self, column: i16) -> Option<[u8; 16]> {
        // SAFETY: a uuid is 16 bytes in the tuple.
        self.datum(column, &[pg_sys::UUIDOID])
            .map(|datum| unsafe { *datum.cast_mut_ptr::<[u8; 16]>() })
    }

    /// A column of type `name[]`, element by element, without NULLs.
    pub fn names(&self, column: i16) -> Vec<CString> {
        let Some(datum) = self.datum(column, &[pg_sys::NAMEARRAYOID]) else {
            return Vec::new();
        };
        let mut elements = std::ptr::null_mut();
        let mut nulls = std::ptr::null_mut();
        let mut count = 0;
        // SAFETY: the column is an array of names (64 bytes, `char` alignment);
        // the elements point into the detoasted array, and are copied.
        unsafe {
            let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr());
            pg_sys::deconstruct_array(
                array.cast(),
                pg_sys::NAMEOID,
                pg_sys::NAMEDATALEN as i32,
                false,
                b'c' as _,
                &raw mut elements,
                &raw mut nulls,
                &raw mut count,
            );
            (0..count as usize)
                .filter(|&i| !*nulls.add(i))
                .map(|i| CStr::from_ptr((*elements.add(i)).cast_mut_ptr()).to_owned())
                .collect()
        }
    }

    /// A column; an error if it no longer has the type that the extension gave it.
    fn datum(&self, column: i16, expected: &[pg_sys::Oid]) -> Option<pg_sys::Datum> {
        // SAFETY: the descriptor is valid; see `new`.
        let found = unsafe { pg_sys::SPI_gettypeid(self.descriptor, column as i32) };
        if !expected.contains(&found) {
            pgrx::error!(
                "column {column} of a table of leaf does not have the type it was created with"
            );
        }
        self.column(column)
    }

    fn column(&self, column: i16) -> Option<pg_sys::Datum> {
        let mut null = false;
        // SAFETY: the tuple and its descriptor belong together.
        let datum =
            unsafe { pg_sys::heap_getattr(self.tuple, column as i32, self.descriptor, &mut null) };
        (!null).then_some(datum)
    }
}

/// Passes a row of a relation to `read`, like [`find_by_text`]: the first one of the index
/// `index`, or an arbitrary one.
pub fn any_row<R>(
    relation: pg_sys::Oid,
    index: Option<pg_sys::Oid>,
    read: impl FnOnce(&Row<'_>) -> R,
) -> Option<R> {
    let index = index.map(Index::FromStart);
    scan(relation, index, None, Seen::Before, first(read))
}

/// Passes all rows of a relation to `read`.
pub fn each_row(relation: pg_sys::Oid, mut read: impl FnMut(&Row<'_>)) {
    scan(relation, None, None, Seen::Before, |row| {
        read(row);
        None::<()>
    });
}

/// Reads the first row of a scan, which ends it.
fn first<R>(read: impl FnOnce(&Row<'_>) -> R) -> impl FnMut(&Row<'_>) -> Option<R> {
    let mut read = Some(read);
    move |row| read.take().map(|read| read(row))
}

/// Finds the row of `relation` whose first column, of a text type, equals `key`, and
/// passes it to `read`. Uses the unique index `index` on that column if it exists, from its end:
/// while an old snapshot is held, no version of the row can be removed, and the last ones are there.
///
/// Sees everything that was committed before the call and what this transaction did,
/// whatever snapshot the transaction uses, because the scan takes its own snapshot,
/// like a system catalog lookup.
pub fn find_by_text<R>(
    relation: pg_sys::Oid,
    index: Option<pg_sys::Oid>,
    key: &[u8],
    read: impl FnOnce(&Row<'_>) -> R,
) -> Option<R> {
    // SAFETY: a text; the copy lives as long as the statement.
    let text = unsafe { pg_sys::cstring_to_text_with_len(key.as_ptr().cast(), key.len() as i32) };
    let equality = (pg_sys::F_TEXTEQ, pg_sys::DEFAULT_COLLATION_OID);
    let text = pg_sys::Datum::from(text);
    let key = Some((equality, text));
    let index = index.map(Index::FromEnd);
    scan(relation, index, key, Seen::Before, first(read))
}

/// Like [`find_by_text`], for a catalog whose first column is its OID, with an index on it.
fn find_by_oid<R>(
    catalog: pg_sys::Oid,
    index: pg_sys::Oid,
    seen: Seen,
    key: pg_sys::Oid,
    read: impl FnOnce(&Row<'_>) -> R,
) -> Option<R> {
    let equality = (pg_sys::F_OIDEQ, pg_sys::InvalidOid);
    let key = pg_sys::Datum::from(key);
    scan(
        catalog,
        Some(Index::FromStart(index)),
        Some((equality, key)),
        seen,
        first(read),
    )
}

/// A function that compares, and its collation.
type Equality = (u32, pg_sys::Oid);

/// An index, and from where it is read.
#[derive(Clone, Copy)]
enum Index {
    FromStart(pg_sys::Oid),
    FromEnd(pg_sys::Oid),
}

/// Passes rows to `read` until it returns something.
fn scan<R>(
    relation: pg_sys::Oid,
    index: Option<Index>,
    first_column: Option<(Equality, pg_sys::Datum)>,
    seen: Seen,
    mut read: impl FnMut(&Row<'_>) -> Option<R>,
) -> Option<R> {
    let mut key = pg_sys::ScanKeyData::default();
    // SAFETY: the order of calls is PostgreSQL's own for such a scan; an error
    // in between is cleaned up by the resource owner. The function compares values of the
    // type of the key, which is that of the first column.
    unsafe {
        if let Some(((function, collation), value)) = first_column {
            pg_sys::ScanKeyEntryInitialize(
                &raw mut key,
                0,
                1,
                pg_sys::BTEqualStrategyNumber as _,
                pg_sys::InvalidOid,
                collation,
                pg_sys::Oid::from(function),
                value,
            );
        }
        let table = pg_sys::table_open(relation, pg_sys::AccessShareLock as _);
        if (*(*table).rd_rel).relkind as u8 != pg_sys::RELKIND_RELATION {
            pgrx::error!("a table of leaf has been replaced by something else");
        }
        let snapshot = match seen {
            Seen::Before => std::ptr::null_mut(),
            Seen::After => &raw mut pg_sys::SnapshotSelfData,
        };
        let (keys, key) = (i32::from(first_column.is_some()), &raw mut key);
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let row =
            |tuple: pg_sys::HeapTuple| (!tuple.is_null()).then(|| Row::new(tuple, (*table).rd_att));
        let result = if let Some(Index::FromEnd(index)) = index {
            let index = pg_sys::index_open(index, lock);
            let scan = pg_sys::systable_beginscan_ordered(table, index, snapshot, keys, key);
            let back = pg_sys::ScanDirection::BackwardScanDirection;
            let mut rows = std::iter::from_fn(|| row(pg_sys::systable_getnext_ordered(scan, back)));
            let result = rows.find_map(|row| read(&row));
            pg_sys::systable_endscan_ordered(scan);
            pg_sys::index_close(index, lock);
            result
        } else {
            let index = match index {
                Some(Index::FromStart(index) | Index::FromEnd(index)) => Some(index),
                None => None,
            };
            let (is_there, index) = (index.is_some(), index.unwrap_or(pg_sys::InvalidOid));
            let scan = pg_sys::systable_beginscan(table, index, is_there, snapshot, keys, key);
            let mut rows = std::iter::from_fn(|| row(pg_sys::systable_getnext(scan)));
            let result = rows.find_map(|row| read(&row));
            pg_sys::systable_endscan(scan);
            result
        };
        pg_sys::table_close(table, lock);
        result
    }
}
