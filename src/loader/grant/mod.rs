//! Grants: what loaders do for segment ids.
//!
//! A round of the loader: [`collect`] the jobs that sessions have requested; [`transact`], which
//! locks the tags' rows, decides, and writes; and after the commit [`publish`] to slots and
//! sessions. The table's trigger allows the update, because `catalog::intent` says that it is a
//! grant.
//!
//! For a tag whose row says that a centre grants its numbers, the [`centre`] is asked in between:
//! the job comes back with the numbers in a later round, and goes through the same transaction.

mod centre;
mod collect;
pub mod position;
mod publish;
mod rows;
mod transact;

use std::sync::atomic::Ordering;

use leaf_core::time::Monotonic;

use crate::loader::work::{Done, Work};
use crate::shmem::Shared;
use crate::shmem::index::FoundSlot;
use crate::shmem::slot::Slot;
use collect::Job;
use publish::{Next, Publisher};

/// Grants segments and blocks.
pub struct Granting;

impl Work for Granting {
    fn request_overdue(&self, shared: &Shared, database: u32) {
        collect::request_overdue(shared, database);
    }

    fn run(&self, shared: &Shared, database: u32) -> Done {
        centre::request_lately_fed(shared, database);
        let publisher = Publisher::new(shared, database);
        let (mut jobs, denied) = centre::answered();
        for (job, denial) in &denied {
            if !denial.may_pass_soon() {
                centre::forget(job);
            }
            publisher.denied(job, *denial);
        }
        publisher.deliver();
        // What the centre has just answered is published below.
        let is_answered = |is_it: &dyn Fn(&FoundSlot) -> bool| {
            jobs.iter().filter_map(Job::slot).any(|found| is_it(&found))
        };
        let collected = collect::collect(shared, database, |is_it| {
            is_answered(is_it) || centre::is_under_way(is_it)
        });
        if jobs.is_empty() && denied.is_empty() && collected.is_empty() {
            return Done::Nothing;
        }
        let denied = denied.iter().map(|(job, _)| job);
        let tried = jobs.iter().chain(denied).chain(&collected);
        let slots: Vec<usize> = tried.filter_map(Job::slot).map(|it| it.number).collect();
        for job in collected {
            match centre::need(shared, &job) {
                Some((count, exact)) => ask(&publisher, &job, count, exact),
                None => jobs.push(job),
            }
        }
        let stays = jobs.is_empty() || grant(&publisher, jobs);
        collect::end_loading(shared, slots, centre::is_under_way);
        match stays {
            true => Done::Something,
            false => Done::Leave,
        }
    }

    fn next_try(&self, shared: &Shared, database: u32) -> Option<Monotonic> {
        let job = collect::next_try(shared, database);
        job.into_iter().chain(centre::next_try()).min()
    }

    fn hand_over(&self, shared: &Shared, database: u32) {
        let end_loading = |slot: &Slot| slot.is_loading.store(false, Ordering::Release);
        (shared.index).each_of(database, |_, _, slot| end_loading(slot));
        shared.mailbox.hand_over(database);
        shared.index.forget_requests(database);
    }
}

/// Grants what the rows grant, and asks the centre for the rest. `false` if the loader must leave
/// the database.
fn grant(publisher: &Publisher<'_>, jobs: Vec<Job>) -> bool {
    let &Publisher {
        shared, database, ..
    } = publisher;
    let mut left = Vec::new();
    let stays = transact::transact(shared, database, jobs, |jobs, outcome| {
        let next: Vec<_> = match outcome {
            Ok(decided) => (jobs.iter().zip(decided))
                .map(|(job, decided)| {
                    centre::learn(shared, job, &decided);
                    publisher.settle(job, decided.decision)
                })
                .collect(),
            Err(message) => (jobs.iter())
                .map(|job| publisher.failed(job, message))
                .collect(),
        };
        publisher.deliver();
        let next = jobs.iter().zip(next);
        let next = next.filter(|(_, next)| *next != Next::Nothing);
        left.extend(next.map(|(job, next)| (job.clone(), next)));
    });
    for (job, next) in left {
        match next {
            Next::Ask { count, exact } => ask(publisher, &job, count, exact),
            Next::Again => centre::keep(job),
            Next::Nothing => {}
        }
    }
    stays
}

fn ask(publisher: &Publisher<'_>, job: &Job, count: u64, exact: bool) {
    if !centre::ask(job, count, exact) {
        publisher.failed(job, "the centre's tag is not known any more");
    }
}
