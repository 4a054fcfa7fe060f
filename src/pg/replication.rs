//! Replication of this server, as its configuration has it.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::guc;

/// Whether commits wait for a synchronous standby.
pub fn has_synchronous_standby() -> bool {
    // SAFETY: plain variables of this process; the string is NUL-terminated.
    unsafe {
        let names = pg_sys::SyncRepStandbyNames;
        !names.is_null() && *names != 0 && pg_sys::max_wal_senders > 0
    }
}

/// Whether all that this server replayed before it was promoted, at the end, came from a primary
/// that had streamed it here: nothing from an archive, and without a target at which replay
/// ended early.
pub fn was_streamed_to_its_end() -> bool {
    let targets = [
        c"recovery_target",
        c"recovery_target_lsn",
        c"recovery_target_name",
        c"recovery_target_time",
        c"recovery_target_xid",
    ];
    if targets.iter().any(|target| !guc::text(target).is_empty()) {
        return false;
    }
    // SAFETY: shared memory of this server; numbers that nobody changes after the promotion.
    unsafe {
        let was_told = !pg_sys::WalRcv.is_null() && (*pg_sys::WalRcv).latestWalEnd != 0;
        let nothing = std::ptr::null_mut();
        let received = pg_sys::GetWalRcvFlushRecPtr(nothing, std::ptr::null_mut());
        was_told && pg_sys::GetXLogReplayRecPtr(std::ptr::null_mut()) <= received
    }
}

/// Whether this server had replayed nothing beyond this location when it was promoted.
pub fn has_replayed_up_to(location: u64) -> bool {
    // SAFETY: reads shared memory.
    unsafe { pg_sys::GetXLogReplayRecPtr(std::ptr::null_mut()) <= location }
}

/// The name that this server has for the primary whose standby it is.
pub fn own_name() -> String {
    let conninfo = guc::text(c"primary_conninfo");
    let named = conninfo
        .split_once("application_name")
        .and_then(|(_, rest)| {
            let value = rest.trim_start().strip_prefix('=')?.trim_start();
            let quoted = value.strip_prefix('\'').map(|rest| rest.split('\'').next());
            quoted.unwrap_or_else(|| value.split_whitespace().next())
        });
    let cluster = guc::text(c"cluster_name");
    match (named, cluster.as_str()) {
        (Some(name), _) => name.to_owned(),
        (None, "") => "walreceiver".to_owned(),
        (None, cluster) => cluster.to_owned(),
    }
}

/// The standby without which no commit of this server is confirmed, if there is just one that can
/// confirm it.
pub fn only_synchronous_standby() -> Option<String> {
    if !has_synchronous_standby() {
        return None;
    }
    // SAFETY: as the setting's check has made it; one name, which ends with a NUL.
    unsafe {
        let config = pg_sys::SyncRepConfig.as_ref()?;
        if config.nmembers != 1 {
            return None;
        }
        let name = CStr::from_ptr(config.member_names.as_ptr()).to_string_lossy();
        (name != "*").then(|| name.into_owned())
    }
}
