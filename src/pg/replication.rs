//! Replication of this server, as its configuration has it.

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

/// The timeline up to whose end this server has replayed what a primary had streamed to it, before
/// it was promoted, or nothing beyond the end of what it had written itself; `None` if some of it
/// came from an archive, or if replay ended early, at a target.
pub fn streamed_to_its_end(own_end: Option<u64>) -> Option<u32> {
    let targets = [
        c"recovery_target",
        c"recovery_target_lsn",
        c"recovery_target_name",
        c"recovery_target_time",
        c"recovery_target_xid",
    ];
    if targets.iter().any(|target| !guc::text(target).is_empty()) {
        return None;
    }
    let mut timeline = 0;
    // SAFETY: shared memory of this server; numbers that nobody changes after the promotion.
    let is_streamed = unsafe {
        let was_told = !pg_sys::WalRcv.is_null() && (*pg_sys::WalRcv).latestWalEnd != 0;
        let nothing = std::ptr::null_mut();
        let received = pg_sys::GetWalRcvFlushRecPtr(nothing, std::ptr::null_mut());
        let replayed = pg_sys::GetXLogReplayRecPtr(&raw mut timeline);
        was_told && replayed <= received || own_end.is_some_and(|end| replayed <= end)
    };
    is_streamed.then_some(timeline)
}
