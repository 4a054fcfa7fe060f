//! The notices of PostgreSQL about commits that wait for a synchronous standby.

/// Whether a notice says that a commit may be lost in a failover, because somebody has cancelled
/// its wait for the standby. Its text is translated: `routine` is the function that it is from.
///
/// ```
/// use leaf_core::standby::says_unconfirmed;
///
/// assert!(says_unconfirmed("SyncRepWaitForLSN"));
/// assert!(!says_unconfirmed("exec_stmt_raise"));
/// ```
pub fn says_unconfirmed(routine: &str) -> bool {
    routine == "SyncRepWaitForLSN"
}
