//! Replication of this server, as its configuration has it.

use pgrx::pg_sys;

/// Whether commits wait for a synchronous standby.
pub fn has_synchronous_standby() -> bool {
    // SAFETY: plain variables of this process; the string is NUL-terminated.
    unsafe {
        let names = pg_sys::SyncRepStandbyNames;
        !names.is_null() && *names != 0 && pg_sys::max_wal_senders > 0
    }
}
