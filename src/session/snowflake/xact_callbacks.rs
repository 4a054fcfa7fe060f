//! Leases at the end of a transaction.

use pgrx::pg_sys::SubTransactionId;

use super::own_lease;
use crate::lease::releases;
use crate::pg::xact_end::Observer;

/// Discards the transaction's own lease, and lowers the ceilings of leases that it has
/// released.
pub struct AtEnd;

impl Observer for AtEnd {
    /// Another session may commit the transaction, so the file of ceilings is not changed.
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
