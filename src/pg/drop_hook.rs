//! The drop of databases.

use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

/// Is called when a database is dropped, with its OID: before the drop, which may still
/// fail, in the transaction of the drop.
pub type AtDrop = fn(u32);

static AT_DROP: OnceLock<AtDrop> = OnceLock::new();

static mut PREVIOUS: pg_sys::object_access_hook_type = None;

/// Sets the function. Called while the server preloads leaf.
pub fn init(at_drop: AtDrop) {
    if AT_DROP.set(at_drop).is_err() {
        return;
    }
    // SAFETY: hooks are installed by one thread, each calling its predecessor.
    unsafe {
        PREVIOUS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(hook);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn hook(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    part: i32,
    argument: *mut core::ffi::c_void,
) {
    // SAFETY: written once, before any hook runs.
    if let Some(previous) = unsafe { PREVIOUS } {
        // SAFETY: the hook that was installed before this one, with its own arguments.
        unsafe { previous(access, class, object, part, argument) };
    }
    if access == pg_sys::ObjectAccessType::OAT_DROP
        && class == pg_sys::DatabaseRelationId
        && let Some(at_drop) = AT_DROP.get()
    {
        at_drop(object.to_u32());
    }
}
