//! Granting: decide, write, commit, and only then make known.

use std::collections::{BTreeMap, BTreeSet};

use leaf_core::grant::Decision;

use super::grant_source::{GrantSource, Want};
use super::jobs::Job;
use super::publish::Publisher;
use super::row_source::RowSource;
use crate::catalog::relation;
use crate::pg::own_xact::{self, Failure};
use crate::shmem::Shared;

/// Does the jobs, all in one transaction if possible; when that fails, tag by
/// tag, so that one bad row holds up nobody else. `false` when the loader must
/// leave the database.
pub fn make(shared: &Shared, database: u32, jobs: Vec<Job>) -> bool {
    let publisher = Publisher { shared, database };
    match attempt(&publisher, &jobs) {
        Ok(stays) => return stays,
        Err(failure) if is_one_tag(&jobs) => {
            publisher.all_failed(&jobs, &failure.message);
            return true;
        }
        Err(_) => {}
    }
    for group in by_tag(jobs) {
        match attempt(&publisher, &group) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(failure) => publisher.all_failed(&group, &failure.message),
        }
    }
    true
}

fn is_one_tag(jobs: &[Job]) -> bool {
    let tags: BTreeSet<_> = jobs.iter().map(|job| &job.key().tag).collect();
    tags.len() == 1
}

fn by_tag(jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let mut groups: BTreeMap<Vec<u8>, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        groups.entry(job.key().tag.clone()).or_default().push(job);
    }
    groups.into_values().collect()
}

/// One transaction for the jobs. Nothing of it is made known unless it has
/// committed. `false` when the loader must leave.
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

/// What each job is given; `None` when leaf is not in the database any more.
fn decide(shared: &Shared, database: u32, jobs: &[Job]) -> Option<Vec<Decision>> {
    let Some(alloc) = relation::alloc() else {
        shared.index.free_all(database, |_| true);
        return None;
    };
    let is_of_other = |job: &Job| job.key().catalog != alloc.to_u32();
    if jobs.iter().any(is_of_other) {
        // Slots of an extension that was dropped: nobody can draw from them.
        let is_other = |catalog| catalog != alloc.to_u32();
        shared.index.free_all(database, is_other);
    }
    let wants: Vec<_> = jobs
        .iter()
        .map(|job| Want {
            tag: &job.key().tag,
            wanted: job.wanted(),
            past: job.past(shared),
            is_void: Box::new(move || is_of_other(job) || job.is_stale(shared)),
        })
        .collect();
    Some(RowSource.grant(&wants))
}
