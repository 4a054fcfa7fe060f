//! Numbers for fed tags: asked of the centre, through the link, while the loader goes on with
//! other work.

use std::cell::RefCell;
use std::time::Duration;

use leaf_core::grant::Fed;
use leaf_core::time::Monotonic;

use super::job::Job;
use crate::link::call::call_link;
use crate::pg::clock;
use crate::shmem::Shared;
use crate::shmem::index::Found;
use crate::shmem::requests::Id;
use crate::shmem::upstream::{Demand, Denial, Reply};

/// How often the loader makes sure that there is a link. Answers wake it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A job that waits for the centre.
struct UnderWay {
    job: Job,
    id: Id,
    asked: u64,
}

/// The pause before numbers that could not be granted are tried again.
const TRY_AGAIN: Duration = Duration::from_millis(100);

thread_local! {
    /// Jobs whose numbers are there but could not be granted, and when to try again.
    static KEPT: RefCell<Vec<(Job, Monotonic)>> = const { RefCell::new(Vec::new()) };
    static UNDER_WAY: RefCell<Vec<UnderWay>> = const { RefCell::new(Vec::new()) };
}

/// Asks the centre for what a job needs; `false` if that is not possible now. Raises no error.
pub fn ask(shared: &Shared, job: &Job, demand: &Demand) -> bool {
    let Some(id) = shared.upstream.requests.post(demand) else {
        return false;
    };
    if !call_link(shared) {
        shared.upstream.requests.withdraw(id);
        return false;
    }
    UNDER_WAY.with_borrow_mut(|under_way| {
        under_way.push(UnderWay {
            job: job.clone(),
            id,
            asked: match demand {
                Demand::Feed { count, .. } => *count,
                Demand::Register { .. } | Demand::Renew { .. } => 0,
            },
        });
    });
    true
}

/// The jobs for which the centre has granted numbers, and those for which it has not.
pub fn answered(shared: &Shared) -> (Vec<Job>, Vec<(Job, Denial)>) {
    let now = clock::monotonic();
    let is_due = |(_, at): &mut (Job, Monotonic)| *at <= now;
    let kept = KEPT.with_borrow_mut(|kept| kept.extract_if(.., is_due).collect::<Vec<_>>());
    let mut fed: Vec<_> = kept.into_iter().map(|(job, _)| job).collect();
    let mut denial = Vec::new();
    UNDER_WAY.with_borrow_mut(|under_way| {
        under_way.retain(|it| {
            let Some(answer) = shared.upstream.requests.collect(it.id) else {
                return true;
            };
            match answer {
                Ok(Reply::Fed { run, incarnation }) => fed.push(Job::Fed {
                    job: Box::new(it.job.clone()),
                    fed: Fed {
                        run,
                        incarnation,
                        asked: it.asked,
                    },
                }),
                Ok(Reply::Leased { .. } | Reply::Renewed { .. }) => {}
                Err(cause) => denial.push((it.job.clone(), cause)),
            }
            false
        });
        if !under_way.is_empty() && !call_link(shared) {
            for it in under_way.drain(..) {
                shared.upstream.requests.withdraw(it.id);
                denial.push((it.job, Denial::Away));
            }
        }
    });
    (fed, denial)
}

/// Whether the segment that a slot needs was asked of the centre already.
pub fn is_under_way(found: Found) -> bool {
    any(|other| other.number == found.number && other.epoch == found.epoch)
}

/// Whether a segment for the slot with that number was asked of the centre.
pub fn is_under_way_for(number: usize) -> bool {
    any(|other| other.number == number)
}

fn any(is_it: impl Fn(&Found) -> bool) -> bool {
    let is_of_it = |job: &Job| match job {
        Job::Segment { found, .. } => is_it(found),
        Job::Request(_) | Job::Leftover(_) | Job::Fed { .. } => false,
    };
    let is_kept = |(job, _): &(Job, Monotonic)| match job {
        Job::Fed { job, .. } => is_of_it(job),
        _ => false,
    };
    UNDER_WAY.with_borrow(|under_way| under_way.iter().any(|it| is_of_it(&it.job)))
        || KEPT.with_borrow(|kept| kept.iter().any(is_kept))
}

/// Keeps a job whose numbers are there but could not be granted.
pub fn keep(job: &Job) {
    let again = clock::monotonic() + TRY_AGAIN;
    KEPT.with_borrow_mut(|kept| kept.push((job.clone(), again)));
}

/// When the loader should look for answers at the latest, if it expects some.
pub fn next_look() -> Option<Monotonic> {
    let waits = UNDER_WAY.with_borrow(|under_way| !under_way.is_empty());
    let look = waits.then(|| clock::monotonic() + LOOK_AGAIN);
    let again = KEPT.with_borrow(|kept| kept.iter().map(|(_, at)| *at).min());
    look.into_iter().chain(again).min()
}

/// The loader ends: what the centre grants from now on is lost.
pub fn abandon(shared: &Shared) {
    KEPT.take();
    for it in UNDER_WAY.take() {
        shared.upstream.requests.withdraw(it.id);
    }
}
