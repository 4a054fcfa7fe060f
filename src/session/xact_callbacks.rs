//! Tags at the end of a transaction.

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::SubTransactionId;

use super::{asking, changes, own_grants, own_tags};
use crate::error::Report;
use crate::pg::xact_end::Observer;

/// Updates rows and shared memory according to what a transaction has done.
pub struct AtEnd;

impl Observer for AtEnd {
    fn before_commit(&self) {
        own_grants::before_commit();
        changes::drop_stale_ids();
    }

    /// Changes that have to be applied to shared memory at the commit would be lost when
    /// this session ends.
    fn before_prepare(&self) {
        if !changes::need_no_commit() || !own_tags::is_empty() {
            // When: `PREPARE TRANSACTION`
            Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot PREPARE a transaction that has changed leaf.alloc",
                "Change tags in a separate transaction, and commit it without PREPARE TRANSACTION.",
            )
            .raise();
        }
    }

    fn after_commit(&self) {
        own_tags::after_end();
        changes::after_commit();
    }

    fn after_abort(&self) {
        asking::withdraw();
        own_tags::after_end();
        changes::after_abort();
    }

    fn after_sub_commit(&self, sub: SubTransactionId, parent: SubTransactionId) {
        own_tags::after_sub_commit(sub, parent);
        changes::after_sub_commit(sub, parent);
    }

    fn after_sub_abort(&self, sub: SubTransactionId) {
        asking::withdraw();
        own_tags::after_sub_abort(sub);
        changes::after_sub_abort(sub);
    }
}
