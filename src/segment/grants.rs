//! Granting: decide, write, commit, and only then publish.

use super::decide::decide;
use super::job::Job;
use super::jobs;
use super::publish::Publisher;
use crate::pg::own_xact::{self, Failure};
use crate::shmem::Shared;

/// Does the jobs, all in one transaction if possible. If that fails, each tag gets its
/// own transaction, so that one bad row does not delay other tags. `false` if the
/// loader must leave the database.
pub fn make(shared: &Shared, database: u32, jobs: Vec<Job>) -> bool {
    let publisher = Publisher { shared, database };
    // A tag that is to be created may be being created by a transaction that lasts. So that
    // others do not wait for that, too, each of these comes by itself, and last.
    let (new, jobs): (Vec<_>, Vec<_>) =
        (jobs.into_iter()).partition(|job| job.owner_of_new_tag().is_some());
    let mut groups: Vec<_> = jobs::by_tag(new).collect();
    if !jobs.is_empty() {
        groups.push(jobs);
    }
    while let Some(jobs) = groups.pop() {
        match attempt(&publisher, &jobs) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(failure) if jobs::are_of_one_tag(&jobs) => {
                publisher.all_failed(&jobs, &failure.message);
            }
            Err(_) => groups.extend(jobs::by_tag(jobs)),
        }
    }
    true
}

/// One transaction for the jobs. Its grants are published only after it has committed.
/// `false` if the loader must leave the database.
fn attempt(publisher: &Publisher<'_>, jobs: &[Job]) -> Result<bool, Failure> {
    own_xact::run_briefly(
        || decide(publisher.shared, publisher.database, jobs),
        |decisions| {
            for (job, decision) in jobs.iter().zip(decisions) {
                publisher.settle(job, decision);
            }
        },
    )
}
