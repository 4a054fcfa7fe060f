//! The database of this process, and other databases.

use pgrx::pg_sys;

/// The OID of the database that this process is connected to.
pub fn current() -> u32 {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyDatabaseId }.to_u32()
}

/// Whether there is a database with this OID.
pub fn exists(database: u32) -> bool {
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as _;
    // SAFETY: a system catalog lookup inside a transaction.
    unsafe {
        let zero = pg_sys::Datum::from(0);
        let database = pg_sys::Datum::from(pg_sys::Oid::from(database));
        pg_sys::SearchSysCacheExists(cache, database, zero, zero, zero)
    }
}

/// Lets the roles end this process that can end the sessions of the database's owner:
/// `DROP DATABASE … WITH (FORCE)` by the owner has to end all processes in the database.
/// For a process that is connected without a role. Needs a transaction.
pub fn let_owner_end_this_process() {
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as _;
    // SAFETY: a system catalog lookup inside a transaction, and a field of this process's
    // own entry, which others only read.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(pg_sys::MyDatabaseId));
        if !tuple.is_null() {
            let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            (*pg_sys::MyProc).roleId = (*form).datdba;
            pg_sys::ReleaseSysCache(tuple);
        }
    }
}

/// Whether this process may continue to use its database: no session holds or waits
/// for the lock that is needed to drop, copy, rename or move it. Needs a transaction.
pub fn is_free(database: u32) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database,
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    let mode = pg_sys::RowExclusiveLock as _;
    // SAFETY: a well-formed tag. The lock only serves to check: it is released at
    // once, because the commit that follows may wait for a standby.
    unsafe {
        let answer = pg_sys::LockAcquire(&raw const tag, mode, false, true);
        let is_free = answer != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL;
        if is_free {
            pg_sys::LockRelease(&raw const tag, mode, false);
        }
        is_free
    }
}
