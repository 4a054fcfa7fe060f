//! What loaders do for segment ids.

use leaf_core::time::Monotonic;

use super::publish::Publisher;
use super::{feeding, grants, jobs};
use crate::catalog::triggers;
use crate::loader::work::{Done, Work};
use crate::shmem::Shared;

/// Grants segments and blocks.
pub struct Granting;

impl Work for Granting {
    fn request_overdue(&self, shared: &Shared, database: u32) {
        jobs::request_overdue(shared, database);
    }

    fn run(&self, shared: &Shared, database: u32) -> Done {
        let publisher = Publisher { shared, database };
        let (mut jobs, denial) = feeding::answered(shared);
        for (job, cause) in &denial {
            publisher.denied(job, *cause);
        }
        jobs.extend(jobs::collect(shared, database));
        if jobs.is_empty() {
            return match denial.is_empty() {
                true => Done::Nothing,
                false => Done::Something,
            };
        }
        let stays = grants::make(shared, database, jobs);
        jobs::end_loading(shared, database);
        triggers::repair();
        match stays {
            true => Done::Something,
            false => Done::Leave,
        }
    }

    fn next_try(&self, shared: &Shared, database: u32) -> Option<Monotonic> {
        jobs::next_try(shared, database)
    }

    fn hand_over(&self, shared: &Shared, database: u32) {
        feeding::abandon(shared);
        jobs::end_loading(shared, database);
        shared.mailbox.hand_over(database);
        shared.index.forget_requests(database);
    }
}
