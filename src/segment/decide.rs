//! What each job is granted, in the loader's transaction.

use leaf_core::grant::Decision;

use super::auto_create;
use super::grant_source::{GrantSource, Want};
use super::job::Job;
use super::row_source::RowSource;
use crate::catalog::{self, alloc, relation};
use crate::shmem::Shared;

/// What was decided on a job.
pub struct Decided {
    pub decision: Decision,
    /// The centre's tag, in UTF-8, if the decision is to ask it.
    pub upstream_tag: Option<String>,
}

/// Decides on each job, in their order; `None` if the extension no longer exists in
/// the database.
pub fn decide(shared: &Shared, database: u32, jobs: &[Job]) -> Option<Vec<Decided>> {
    let Some(alloc) = relation::alloc() else {
        shared.index.free_all(database, |_| true);
        return None;
    };
    let is_of_other = |job: &Job| job.key().catalog != alloc.to_u32();
    if jobs.iter().any(is_of_other) {
        // Slots of an extension that was dropped: no session can draw from them.
        let is_other = |catalog| catalog != alloc.to_u32();
        shared.index.free_all(database, is_other);
    }
    for job in jobs {
        if let Some(owner) = job.owner_of_new_tag()
            && !is_of_other(job)
        {
            auto_create::insert(&job.key().tag, owner);
        }
    }
    let wants: Vec<_> = jobs
        .iter()
        .filter_map(|job| {
            Some(Want {
                tag: &job.key().tag,
                incarnation: job.incarnation(),
                wanted: job.wanted()?,
                fed: job.fed(),
                past: job.past(shared),
                is_void: Box::new(move || is_of_other(job) || job.is_stale(shared)),
            })
        })
        .collect();
    let mut granted = RowSource.grant(&wants).into_iter();
    let decisions = jobs.iter().map(|job| match job.wanted() {
        // A tag that was created has to be looked up.
        None => Decision::Changed,
        Some(_) => granted.next().unwrap_or(Decision::Changed),
    });
    Some(with_upstream_tags(jobs, decisions.collect()))
}

fn with_upstream_tags(jobs: &[Job], decisions: Vec<Decision>) -> Vec<Decided> {
    let is_to_be_fed = |decision: &Decision| matches!(decision, Decision::ToBeFed { .. });
    let asked: Vec<&[u8]> = (jobs.iter().zip(&decisions))
        .filter(|(_, decision)| is_to_be_fed(decision))
        .map(|(job, _)| job.key().tag.as_slice())
        .collect();
    let names = match asked.is_empty() {
        true => Vec::new(),
        false => catalog::as_owner(|| alloc::upstream_tags(&asked)),
    };
    let mut names = names.into_iter();
    let decided = decisions.into_iter().map(|decision| Decided {
        decision,
        upstream_tag: is_to_be_fed(&decision)
            .then(|| names.next().flatten())
            .flatten(),
    });
    decided.collect()
}
