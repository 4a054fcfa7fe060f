//! The grants to be made: segments for slots that run low, and what sessions ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use leaf_core::time::Monotonic;

use super::feeding;
use super::job::Job;
use crate::pg::clock;
use crate::shmem::Shared;
use crate::shmem::mailbox::Asked;
use crate::shmem::slot::Verdict;

/// All jobs that can be done now for the database.
pub fn collect(shared: &Shared, database: u32) -> Vec<Job> {
    let now = clock::monotonic();
    // What is taken back can be granted again at once.
    let leftovers = shared.leftovers.take(database);
    let requests = shared.mailbox.take_of(database, Asked::is_of_tag);
    let leftovers = leftovers.into_iter().map(Job::Leftover);
    let mut jobs: Vec<Job> = leftovers
        .chain(requests.into_iter().map(|it| Job::Request(Box::new(it))))
        .collect();
    for number in shared.index.requests_of(database) {
        let slot = shared.index.slot(number);
        if slot.retry_at.get() > now {
            continue;
        }
        shared.index.take_request(number);
        // Before the slot's tag is read, so that it is not evicted after that.
        slot.is_loading.store(true, Ordering::Release);
        match shared.index.owner_of(number) {
            Some((key, found))
                if key.database == database
                    && slot.buffer.is_due()
                    && slot.buffer.has_room()
                    && !feeding::is_under_way(found) =>
            {
                jobs.push(Job::Segment { key, found });
            }
            _ => slot
                .is_loading
                .store(feeding::is_under_way_for(number), Ordering::Release),
        }
    }
    jobs
}

/// Requests the segments that sessions should have requested but did not.
pub fn request_overdue(shared: &Shared, database: u32) {
    shared.index.each_of(database, |_, number, slot| {
        let buffer = &slot.buffer;
        if buffer.has_ids()
            && buffer.is_due()
            && buffer.has_room()
            && slot.state.read().verdict == Verdict::Loadable
        {
            shared.index.request(number, database);
        }
    });
}

/// When the next job may be tried, if there is one.
pub fn next_try(shared: &Shared, database: u32) -> Option<Monotonic> {
    let requests = shared.index.requests_of(database);
    let slots = requests.map(|number| shared.index.slot(number).retry_at.get());
    slots
        .chain(shared.mailbox.next_try_of(database, Asked::is_of_tag))
        .chain(shared.leftovers.next_try(database))
        .chain(feeding::next_look())
        .min()
}

/// Whether all jobs are of one tag.
pub fn are_of_one_tag(jobs: &[Job]) -> bool {
    let tags: BTreeSet<_> = jobs.iter().map(|job| &job.key().tag).collect();
    tags.len() == 1
}

/// The jobs of each tag.
pub fn by_tag(jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> {
    let mut groups: BTreeMap<Vec<u8>, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        groups.entry(job.key().tag.clone()).or_default().push(job);
    }
    groups.into_values()
}

/// The loader of the database has ended its loads.
pub fn end_loading(shared: &Shared, database: u32) {
    shared.index.each_of(database, |_, number, slot| {
        let is_loading = feeding::is_under_way_for(number);
        slot.is_loading.store(is_loading, Ordering::Release);
    });
}
