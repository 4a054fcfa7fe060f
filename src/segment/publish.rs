//! Publishing what was granted: segments to slots, blocks to the sessions that requested
//! them. Nothing here raises an error.

use std::time::Duration;

use leaf_core::Run;
use leaf_core::grant::Decision;
use leaf_core::time::Monotonic;

use super::decide::Decided;
use super::feeding;
use super::job::Job;
use crate::pg::{self, clock};
use crate::settings::segment as settings;
use crate::shmem::Shared;
use crate::shmem::index::Found;
use crate::shmem::mailbox::{Answer, Request};
use crate::shmem::slot::Verdict;
use crate::shmem::text::Text;
use crate::shmem::upstream::{Demand, Denial};

/// After this time, another attempt is made to take the ids of an evicted slot back.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(500);

/// Publishes the outcome of grants to the sessions that wait.
pub struct Publisher<'a> {
    pub shared: &'a Shared,
    pub database: u32,
}

impl Publisher<'_> {
    /// Publishes the outcome of a job, after the commit.
    pub fn settle(&self, job: &Job, decided: Decided) {
        let Decided {
            decision,
            upstream_tag,
        } = decided;
        let whole = job;
        let (job, is_fed) = match whole {
            Job::Fed { job, .. } => (job.as_ref(), true),
            _ => (whole, false),
        };
        match decision {
            Decision::ToBeFed { count, exact } => {
                let tag = Text::of(&upstream_tag.unwrap_or_default());
                let demand = Demand::Feed { tag, count, exact };
                if !feeding::ask(self.shared, job, &demand) {
                    self.failed(job, "too many requests to the centre, or no background worker");
                }
            }
            Decision::OtherUpstream => self.denied(job, Denial::OtherTag),
            Decision::FedBelow { max_id } => self.failed(
                job,
                &format!("the centre has granted numbers below {max_id}, up to which the tag's are granted"),
            ),
            Decision::IsFed => self.answer_if_asked(job, Answer::IsFed),
            Decision::MayLackFeeds => self.answer_if_asked(job, Answer::MayLackFeeds),
            Decision::Busy => self.failed(whole, "the tag's row is locked by another transaction"),
            Decision::Below { high_water } => self.failed(
                job,
                &format!("max_id of the tag's row is below {high_water}, up to which ids have been handed out; raise it"),
            ),
            Decision::Granted { run, step } => match job {
                Job::Segment { found, .. } => self.publish(*found, run, step, is_fed),
                Job::Request(request) => self.answer(request, Answer::Granted { run }),
                Job::Leftover(_) | Job::Fed { .. } => {}
            },
            Decision::TakenBack | Decision::NotLast => {
                let was_last = decision == Decision::TakenBack;
                self.answer_if_asked(job, Answer::TakenBack { was_last });
            }
            Decision::Exhausted => match job {
                Job::Segment { found, .. } => self.pointless(*found, Verdict::Exhausted),
                Job::Request(request) => self.answer(request, Answer::Exhausted),
                Job::Leftover(_) | Job::Fed { .. } => {}
            },
            Decision::Missing | Decision::Changed => match job {
                // Sessions look the tag up again.
                Job::Segment { found, .. } => {
                    self.shared.index.slot(found.number).lose_row(found.epoch);
                }
                Job::Request(request) => self.answer(request, Answer::Changed),
                Job::Leftover(_) | Job::Fed { .. } => {}
            },
        }
    }

    /// Settles a job for which the centre has granted nothing.
    pub fn denied(&self, job: &Job, denial: Denial) {
        if denial.may_pass_soon() {
            return self.failed(job, denial.message());
        }
        match job {
            Job::Segment { found, .. } => self.pointless(*found, Verdict::Denied(denial)),
            Job::Request(request) => self.answer(request, Answer::Denied(denial)),
            Job::Leftover(_) | Job::Fed { .. } => {}
        }
    }

    /// Answers the session that has asked for the job, if one has.
    fn answer_if_asked(&self, job: &Job, answer: Answer) {
        if let Job::Request(request) = job {
            self.answer(request, answer);
        }
    }

    fn answer(&self, request: &Request, answer: Answer) {
        self.shared.mailbox.answer(request.id, answer);
    }

    /// Publishes a committed grant in the slot, unless the slot has begun a new epoch
    /// since the job was collected.
    fn publish(&self, found: Found, run: Run, step: u64, is_fed: bool) {
        let slot = self.shared.index.slot(found.number);
        let now = clock::monotonic();
        let mut state = slot.state.write();
        if slot.buffer.epoch() != found.epoch {
            return;
        }
        let prefetch_after = settings::prefetch_after(run.len);
        let drawn = slot.drawn_since_load(&state);
        let Ok(is_due) = slot.publish(&mut state, run, prefetch_after) else {
            return;
        };
        let lasted = now.since(state.loaded_at).as_micros().max(1);
        if state.loaded_at != Monotonic::ZERO {
            state.ids_per_second = drawn as f64 * 1e6 / lasted as f64;
        }
        state.high_water = run.first + run.len as i64;
        state.step = step;
        state.is_fed = is_fed;
        state.loaded_at = now;
        state.loads += 1;
        state.verdict = Verdict::Loadable;
        state.failures.end();
        slot.retry_at.set(Monotonic::ZERO);
        drop(state);
        slot.changed.broadcast();
        if is_due {
            self.shared.index.request(found.number, self.database);
        }
    }

    /// Notifies sessions that wait for the slot that another load would not help.
    fn pointless(&self, found: Found, verdict: Verdict) {
        let slot = self.shared.index.slot(found.number);
        let mut state = slot.state.write();
        if slot.buffer.epoch() == found.epoch {
            state.verdict = verdict;
            match verdict {
                Verdict::Exhausted => state.failures.note("the tag has reached its max_value"),
                Verdict::Denied(denial) => {
                    // Sessions ask again.
                    let failure = state.failures.record(denial.message());
                    slot.retry_at.set(failure.retry_at);
                }
                Verdict::Loadable | Verdict::Missing => {}
            }
        }
        drop(state);
        slot.changed.broadcast();
    }

    /// Records that the whole transaction has failed, for each of its jobs.
    pub fn all_failed(&self, jobs: &[Job], message: &str) {
        for job in jobs {
            self.failed(job, message);
        }
    }

    /// Records a failure after which another attempt may succeed, and requests that.
    fn failed(&self, job: &Job, message: &str) {
        match job {
            // The numbers are there: they are not asked for again.
            Job::Fed { job: inner, .. } => {
                feeding::keep(job);
                match inner.as_ref() {
                    Job::Segment { found, .. } => drop(self.slot_failed(*found, message)),
                    Job::Request(request) => self.shared.mailbox.note_failure(request.id, message),
                    Job::Leftover(_) | Job::Fed { .. } => {}
                }
            }
            Job::Request(request) => self.shared.mailbox.put_back(request.id, message),
            Job::Leftover(leftover) => {
                let later = clock::monotonic() + LEFTOVER_PAUSE;
                self.shared.leftovers.post(leftover, later);
            }
            Job::Segment { found, .. } => {
                if self.slot_failed(*found, message) {
                    let tag = pg::display(&job.key().tag);
                    pg::log(&format!("could not load ids for tag \"{tag}\": {message}"));
                }
            }
        }
    }

    /// Records a failure in the slot, unless it has begun a new epoch. Returns whether it
    /// is the first since the last success.
    fn slot_failed(&self, found: Found, message: &str) -> bool {
        let slot = self.shared.index.slot(found.number);
        let mut state = slot.state.write();
        if slot.buffer.epoch() != found.epoch {
            return false;
        }
        let failure = state.failures.record(message);
        slot.retry_at.set(failure.retry_at);
        drop(state);
        self.shared.index.request(found.number, self.database);
        failure.is_first
    }
}
