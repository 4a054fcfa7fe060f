//! Drops and alterations of objects, as they are made.

use std::sync::OnceLock;

use pgrx::pg_guard;
use pgrx::pg_sys::{self, ObjectAccessType, Oid};

/// Functions called in the transaction of a change, which may still fail or be refused.
pub struct Observers {
    /// Before a database is dropped, with its OID.
    pub database_is_dropped: fn(u32),
    /// Before an extension is dropped, also together with its schema.
    pub extension_is_dropped: fn(Oid),
    /// When a schema has got another name or owner, which catalog lookups do not see yet.
    pub schema_is_altered: fn(Oid),
}

static OBSERVERS: OnceLock<Observers> = OnceLock::new();

static mut PREVIOUS: pg_sys::object_access_hook_type = None;

/// Sets the functions. Called while the server preloads leaf.
pub fn init(observers: Observers) {
    if OBSERVERS.set(observers).is_err() {
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
    access: ObjectAccessType::Type,
    class: Oid,
    object: Oid,
    part: i32,
    argument: *mut core::ffi::c_void,
) {
    // SAFETY: written once, before any hook runs.
    if let Some(previous) = unsafe { PREVIOUS } {
        // SAFETY: the hook that was installed before this one, with its own arguments.
        unsafe { previous(access, class, object, part, argument) };
    }
    let Some(observers) = OBSERVERS.get() else {
        return;
    };
    match (access, class) {
        (ObjectAccessType::OAT_DROP, pg_sys::DatabaseRelationId) => {
            (observers.database_is_dropped)(object.to_u32());
        }
        (ObjectAccessType::OAT_DROP, pg_sys::ExtensionRelationId) => {
            (observers.extension_is_dropped)(object);
        }
        (ObjectAccessType::OAT_POST_ALTER, pg_sys::NamespaceRelationId) => {
            (observers.schema_is_altered)(object);
        }
        _ => {}
    }
}
