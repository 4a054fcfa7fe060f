//! Publishing what was granted: segments to slots, blocks to the sessions that requested
//! them. Nothing here raises an error.

use std::cell::RefCell;
use std::time::Duration;

use leaf_core::Run;
use leaf_core::grant::{Decision, Grantor};
use leaf_core::time::Monotonic;

use super::collect::{Job, What};
use crate::pg::{self, clock};
use crate::settings::segment as settings;
use crate::shmem::Shared;
use crate::shmem::index::FoundSlot;
use crate::shmem::mailbox::Answer;
use crate::shmem::requests::Id;
use crate::shmem::slot::Verdict;
use crate::shmem::upstream::Denial;

/// After this time, another attempt is made to take the ids of an evicted slot back.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(500);

/// The next step for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Nothing,
    /// To ask the centre.
    Ask {
        count: u64,
        exact: bool,
    },
    /// To try again with the numbers of the centre, which are there.
    Again,
}

/// Publishes the outcome of grants to the sessions that wait.
pub struct Publisher<'a> {
    pub shared: &'a Shared,
    pub database: u32,
    /// The answers left to deliver.
    answers: RefCell<Vec<(Id, Answer)>>,
}

impl<'a> Publisher<'a> {
    pub fn new(shared: &'a Shared, database: u32) -> Self {
        Publisher {
            shared,
            database,
            answers: RefCell::default(),
        }
    }

    /// Answers the sessions whose jobs were settled.
    pub fn deliver(&self) {
        self.shared.mailbox.answer_all(&self.answers.take());
    }

    /// Publishes the outcome of a job, after the commit; sessions have it with
    /// [`deliver`](Self::deliver).
    pub fn settle(&self, job: &Job, decision: Decision) -> Next {
        match decision {
            Decision::Ask { count, exact } => return Next::Ask { count, exact },
            Decision::OtherUpstream => return self.denied(job, Denial::OtherTag),
            Decision::Replaced => return self.denied(job, Denial::Replaced),
            Decision::Busy => {
                return self.failed(job, "the tag's row is locked by another transaction");
            }
            Decision::Below { high_water } => {
                return self.failed(
                    job,
                    &format!("max_id of the tag's row is below {high_water}, up to which ids have been handed out; raise it"),
                );
            }
            Decision::DeliveredBelow { max_id } => {
                let granted = "up to which the tag's are granted";
                let message = format!("the centre has granted numbers below {max_id}, {granted}");
                // The same numbers would be below it again.
                let job = Job {
                    what: job.what.clone(),
                    delivery: None,
                };
                return self.failed(&job, &message);
            }
            _ => {}
        }
        match (&job.what, decision) {
            (What::Request(request), Decision::Missing) => {
                self.answer(request.id, Answer::Decided(Decision::Changed));
            }
            (What::Request(request), _) => self.answer(request.id, Answer::Decided(decision)),
            (What::Segment { found, .. }, Decision::Granted { run, step }) => {
                let grantor = match job.delivery {
                    Some(_) => Grantor::Centre,
                    None => Grantor::Row,
                };
                self.publish(*found, run, step, grantor);
            }
            (What::Segment { found, .. }, Decision::Exhausted) => {
                self.pointless(*found, Verdict::Exhausted);
            }
            // Sessions look the tag up again.
            (What::Segment { found, .. }, Decision::Missing | Decision::Changed) => {
                self.shared.index.slot(found.number).lose_row(found.epoch);
            }
            (What::Segment { .. } | What::Leftover(_), _) => {}
        }
        Next::Nothing
    }

    /// Settles a job for which nothing is granted before something changes.
    pub fn denied(&self, job: &Job, denial: Denial) -> Next {
        if denial.may_pass_soon() {
            return self.failed(job, denial.message());
        }
        match &job.what {
            What::Segment { found, .. } => self.pointless(*found, Verdict::Denied(denial)),
            What::Request(request) => self.answer(request.id, Answer::Denied(denial)),
            What::Leftover(_) => {}
        }
        Next::Nothing
    }

    fn answer(&self, id: Id, answer: Answer) {
        self.answers.borrow_mut().push((id, answer));
    }

    /// Publishes a committed grant in the slot, unless the slot has begun a new epoch
    /// since the job was collected.
    fn publish(&self, found: FoundSlot, run: Run, step: u64, grantor: Grantor) {
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
        state.grantor = grantor;
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
    fn pointless(&self, found: FoundSlot, verdict: Verdict) {
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

    /// Records a failure after which another attempt may succeed, and requests that.
    pub fn failed(&self, job: &Job, message: &str) -> Next {
        // Numbers that the centre has granted are not asked for again.
        let (has_numbers, next) = match job.delivery {
            Some(_) => (true, Next::Again),
            None => (false, Next::Nothing),
        };
        match &job.what {
            What::Request(request) if has_numbers => {
                self.shared.mailbox.note_failure(request.id, message);
            }
            What::Request(request) => self.shared.mailbox.put_back(request.id, message),
            What::Leftover(leftover) => {
                let later = clock::monotonic() + LEFTOVER_PAUSE;
                self.shared.leftovers.post(leftover, later);
            }
            What::Segment { found, .. } => {
                if self.slot_failed(*found, message) && !has_numbers {
                    let tag = pg::display(&job.key().tag);
                    pg::log(&format!("could not load ids for tag \"{tag}\": {message}"));
                }
            }
        }
        next
    }

    /// Records a failure in the slot, unless it has begun a new epoch. Returns whether it
    /// is the first since the last success.
    fn slot_failed(&self, found: FoundSlot, message: &str) -> bool {
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
