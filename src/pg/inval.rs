//! A counter that changes whenever something that permissions depend on may have
//! changed in this process's view: roles, memberships, or the table `leaf.alloc`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pgrx::{pg_guard, pg_sys};

// A backend has one thread, and every process has its own copy of these. They are
// atomics and not thread locals, because the counter is read for every id and a thread
// local of a shared library costs a function call.
static GENERATION: AtomicU64 = AtomicU64::new(1);
static WATCHED: AtomicU32 = AtomicU32::new(0);
static LAST_WATCHED: AtomicU32 = AtomicU32::new(0);
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// The counter; never 0.
#[inline(always)]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Invalidates everything that was decided under the current generation.
pub fn bump() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The watched relation, as set by [`watch`]; `None` after it was invalidated.
pub fn watched() -> Option<pg_sys::Oid> {
    match WATCHED.load(Ordering::Relaxed) {
        0 => None,
        oid => Some(pg_sys::Oid::from(oid)),
    }
}

/// The relation that was watched last, even if it has been invalidated since. Reads
/// no system catalog, so it may be called after a commit.
pub fn last_watched() -> Option<pg_sys::Oid> {
    match LAST_WATCHED.load(Ordering::Relaxed) {
        0 => None,
        oid => Some(pg_sys::Oid::from(oid)),
    }
}

/// Watches the relation.
pub fn watch(relation: pg_sys::Oid) {
    WATCHED.store(relation.to_u32(), Ordering::Relaxed);
    LAST_WATCHED.store(relation.to_u32(), Ordering::Relaxed);
    if REGISTERED.swap(true, Ordering::Relaxed) {
        return;
    }
    let nothing = pg_sys::Datum::from(0);
    // SAFETY: the callbacks are functions without state of their own; they are
    // registered once per process and stay valid as long as it lives.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), nothing);
        for cache in [
            pg_sys::SysCacheIdentifier::AUTHOID,
            pg_sys::SysCacheIdentifier::AUTHNAME,
            pg_sys::SysCacheIdentifier::AUTHMEMMEMROLE,
            pg_sys::SysCacheIdentifier::AUTHMEMROLEMEM,
            // The database's owner is a member of pg_database_owner.
            pg_sys::SysCacheIdentifier::DATABASEOID,
        ] {
            pg_sys::CacheRegisterSyscacheCallback(cache as _, Some(role_changed), nothing);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_changed(_arg: pg_sys::Datum, relation: pg_sys::Oid) {
    let all = relation == pg_sys::InvalidOid;
    if all || relation.to_u32() == WATCHED.load(Ordering::Relaxed) {
        WATCHED.store(0, Ordering::Relaxed);
        bump();
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn role_changed(_arg: pg_sys::Datum, _cache: i32, _hash: u32) {
    bump();
}
