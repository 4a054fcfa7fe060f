//! Roles: the current role, its privileges, and acting as another role.

use std::ffi::{CStr, CString};

use pgrx::pg_sys;

use super::guc;

unsafe extern "C-unwind" {
    // Called for every id, so it is declared here without pgrx's error guard. It reads
    // one variable and cannot fail.
    fn GetUserId() -> pg_sys::Oid;
}

/// The current role of this process.
#[inline(always)]
pub fn current() -> pg_sys::Oid {
    // SAFETY: reads a variable of this process.
    unsafe { GetUserId() }
}

/// The OID of a role, if there is one with this name.
pub fn by_name(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: a system catalog lookup inside a transaction.
    let oid = unsafe { pg_sys::get_role_oid(name.as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// The name of a role, in the database's encoding.
pub fn name_of(role: pg_sys::Oid) -> CString {
    // SAFETY: a system catalog lookup inside a transaction; a copy is taken.
    unsafe { CStr::from_ptr(pg_sys::GetUserNameFromId(role, false)).to_owned() }
}

/// Whether `role` is `other`, a member of it that inherits its privileges, or a
/// superuser.
pub fn has_privileges_of(role: pg_sys::Oid, other: pg_sys::Oid) -> bool {
    // SAFETY: a system catalog lookup inside a transaction.
    unsafe { pg_sys::has_privs_of_role(role, other) }
}

/// Whether `role` is a superuser.
pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: a system catalog lookup inside a transaction.
    unsafe { pg_sys::superuser_arg(role) }
}

/// The role whose only member is the owner of the database.
pub fn owner_of_database() -> pg_sys::Oid {
    pg_sys::Oid::from(pg_sys::ROLE_PG_DATABASE_OWNER)
}

/// Whether `role` may see everything that is monitored.
pub fn is_monitor(role: pg_sys::Oid) -> bool {
    has_privileges_of(role, pg_sys::Oid::from(pg_sys::ROLE_PG_MONITOR))
}

/// Runs `work` as `role`, with the restrictions of a maintenance command: session
/// state cannot be changed, only `pg_catalog` is in the search path, and no row is
/// hidden by a policy. If `work` raises an error, the abort restores the role and the
/// settings.
pub fn acting_as<R>(role: pg_sys::Oid, work: impl FnOnce() -> R) -> R {
    let mut saved_role = pg_sys::InvalidOid;
    let mut saved_context = 0;
    let restricted = pg_sys::SECURITY_RESTRICTED_OPERATION | pg_sys::SECURITY_LOCAL_USERID_CHANGE;
    // SAFETY: the sequence that PostgreSQL itself uses for maintenance commands.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&raw mut saved_role, &raw mut saved_context);
        pg_sys::SetUserIdAndSecContext(role, saved_context | restricted as i32);
    }
    let settings = [
        (c"search_path", c"pg_catalog, pg_temp"),
        // A policy must not hide a row without an error.
        (c"row_security", c"off"),
    ];
    let result = guc::with(&settings, work);
    // SAFETY: undoes exactly what was done above.
    unsafe { pg_sys::SetUserIdAndSecContext(saved_role, saved_context) };
    result
}
