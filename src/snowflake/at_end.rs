//! The end of a transaction that has to do with snowflake ids.

use pgrx::pg_sys::SubTransactionId;

use super::{own_lease, releases};
use crate::pg::xact_end::Observer;

/// Forgets leases of the transaction's own, and lowers ceilings of those that it has
/// released.
pub struct AtEnd;

impl Observer for AtEnd {
    /// This session may not see the commit: the file of ceilings stays as it is.
    fn before_prepare(&self) {
        releases::forget();
    }

    fn after_commit(&self) {
        own_lease::end_of_transaction();
        releases::after_commit();
    }

    fn after_abort(&self) {
        own_lease::end_of_transaction();
        releases::forget();
    }

    fn after_sub_commit(&self, sub: SubTransactionId, parent: SubTransactionId) {
        releases::after_sub_commit(sub, parent);
    }

    fn after_sub_abort(&self, sub: SubTransactionId) {
        releases::after_sub_abort(sub);
    }
}
