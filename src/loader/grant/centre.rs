//! The centre as the grantor of fed tags: it is asked, while the loader goes on with other work.
//!
//! That a tag is fed, its row says: the first load locks it, and finds that the centre must be
//! asked. From then on the loader knows it, and asks straight away, until the row has changed or
//! the centre refuses. The transaction after the answer locks the row, and checks that the numbers
//! are of the tag that it is attached to, and above all that it has granted. Whatever happens in
//! between, such as a crash, a lost answer or a new epoch of the slot, numbers may be lost; none is
//! used twice.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::Duration;

use leaf_core::grant::{Decision, Delivery, Found, Grantor, Ledger, Row};
use leaf_core::time::Monotonic;

use super::collect::Job;
use super::transact::Decided;
use crate::catalog::{self, alloc, relation};
use crate::loader::conversation::message::{Answered, Demand, Reply};
use crate::loader::conversation::{self, RequestId};
use crate::pg::{clock, own_xact};
use crate::settings::{segment as settings, upstream};
use crate::shmem::Shared;
use crate::shmem::index::{Claim, FoundSlot};
use crate::shmem::key::OwnedKey;
use crate::shmem::upstream::Denial;

/// For how many tags the centre is asked before anybody draws from them.
const MOST_AHEAD: usize = 128;

/// The pause before numbers that could not be granted are tried again.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// A job that waits for the centre.
struct AwaitingCentre {
    job: Job,
    id: RequestId,
    count: u64,
}

/// A fed tag.
struct Known {
    /// Its row, as the last transaction has left it.
    row: Row,
    /// The centre's tag, in UTF-8.
    tag_of_centre: String,
    /// The epoch of its slot before the row was read: a change of the row begins another one.
    epoch: Option<u64>,
}

thread_local! {
    /// Whether this loader has looked for tags that were fed lately.
    static HAS_BEGUN: Cell<bool> = const { Cell::new(false) };
    static AWAITING_CENTRE: RefCell<Vec<AwaitingCentre>> = const { RefCell::new(Vec::new()) };
    /// Jobs whose numbers are there but could not be granted, and when to try again.
    static KEPT: RefCell<Vec<(Job, Monotonic)>> = const { RefCell::new(Vec::new()) };
    static KNOWN: RefCell<HashMap<OwnedKey, Known>> = RefCell::default();
}

/// Requests segments of the tags that were fed lately, if none is in memory: the server has
/// started, and the centre is asked for all of them at once instead of for each at its first draw.
pub fn request_lately_fed(shared: &Shared, database: u32) {
    if HAS_BEGUN.replace(true) || upstream::upstream().is_none() {
        return;
    }
    let mut is_any = false;
    (shared.index).each_of(database, |_, _, slot| {
        let state = slot.state.read();
        is_any |= state.grantor == Grantor::Centre && state.loaded_at != Monotonic::ZERO;
    });
    if is_any {
        return;
    }
    // Half of the slots are left to other tags.
    let most = MOST_AHEAD.min(shared.index.len() / 2);
    let read = || {
        let catalog = relation::alloc().map(|alloc| alloc.to_u32());
        let tags = catalog.map(|_| catalog::as_owner(|| alloc::lately_fed(most)));
        let owned = |tag| OwnedKey {
            database,
            catalog: catalog.unwrap_or_default(),
            tag,
        };
        let tags = tags.into_iter().flatten();
        Some(tags.map(|(tag, it)| (owned(tag), it)).collect())
    };
    let claim = |tags: Vec<(OwnedKey, [u8; 16])>| {
        for (key, incarnation) in &tags {
            let since = Monotonic::ZERO;
            match (shared.index).claim(key.as_ref(), *incarnation, since, &shared.leftovers) {
                Claim::Slot(found, _) => shared.index.request(found.number, database),
                Claim::Wait => return shared.index.stop_waiting(),
            }
        }
    };
    // If this fails, each tag is asked for at its first draw.
    let _ = own_xact::run_briefly(read, claim);
}

/// Records the row of a job's tag, as a transaction has found it.
pub fn learn(shared: &Shared, job: &Job, decided: &Decided) {
    if matches!(decided.decision, Decision::Busy | Decision::NotLast) {
        return;
    }
    KNOWN.with_borrow_mut(|all| {
        let before = all.remove(job.key());
        let is_fed = matches!(
            decided.decision,
            Decision::Ask { .. } | Decision::Granted { .. }
        );
        let row = decided.row.filter(|row| row.grantor() == Grantor::Centre);
        let Some(row) = row.filter(|_| is_fed) else {
            return;
        };
        // The record of a row goes with it, and with the tag that it is attached to.
        let before = before.filter(|known| {
            (known.row.incarnation, known.row.upstream) == (row.incarnation, row.upstream)
        });
        let (name, epoch) = before.map(|it| (it.tag_of_centre, it.epoch)).unzip();
        let Some(tag_of_centre) = decided.tag_of_centre.clone().or(name) else {
            return;
        };
        if all.len() >= shared.index.len() {
            all.clear();
        }
        let known = Known {
            row,
            tag_of_centre,
            epoch: job.slot().map(|found| found.epoch).or(epoch.flatten()),
        };
        all.insert(job.key().clone(), known);
    });
}

/// The centre has refused a job, and will again: the next one reads the row.
pub fn forget(job: &Job) {
    KNOWN.with_borrow_mut(|all| all.remove(job.key()));
}

/// How many numbers the centre has to be asked for, and whether fewer are of no use, if the job's
/// tag is known to be fed, and its row would say so.
pub fn need(shared: &Shared, job: &Job) -> Option<(u64, bool)> {
    KNOWN.with_borrow(|all| {
        let known = all.get(job.key())?;
        if known.epoch.is_none() || known.epoch != epoch_of(shared, job) {
            return None;
        }
        let (wanted, past) = (job.wanted()?, job.past(shared));
        let policy = settings::step_policy(Grantor::Centre);
        let mut ledger = Ledger::new(Found::Row(known.row));
        match ledger.decide(&wanted, job.incarnation(), &past, &policy) {
            Decision::Ask { count, exact } => Some((count, exact)),
            _ => None,
        }
    })
}

/// The epoch of the slot of the job's tag, if the tag is in memory.
fn epoch_of(shared: &Shared, job: &Job) -> Option<u64> {
    let mut epoch = job.slot().map(|found| found.epoch);
    if epoch.is_none() {
        let key = job.key().as_ref();
        shared
            .index
            .with(key, |slot| epoch = Some(slot.buffer.epoch()));
    }
    epoch
}

/// Asks the centre for what a job needs; `false` if it is not known which tag of the centre that
/// is. Raises no error.
pub fn ask(job: &Job, count: u64, exact: bool) -> bool {
    let name = KNOWN.with_borrow(|all| Some(all.get(job.key())?.tag_of_centre.clone()));
    let Some(tag) = name else {
        return false;
    };
    let (id, job) = (
        conversation::post(Demand::Numbers { tag, count, exact }),
        job.clone(),
    );
    AWAITING_CENTRE.with_borrow_mut(|asked| asked.push(AwaitingCentre { job, id, count }));
    true
}

/// The jobs that go on: for which the centre has granted numbers, with them, and for which it has
/// not, with the reason.
pub fn answered() -> (Vec<Job>, Vec<(Job, Denial)>) {
    let (mut delivered, mut denied) = (Vec::new(), Vec::new());
    AWAITING_CENTRE.with_borrow_mut(|asked| {
        asked.retain(|it| {
            let Some(Answered { answer, .. }) = conversation::collect(it.id) else {
                return true;
            };
            match answer {
                Ok(Reply::Granted { run, incarnation }) => delivered.push(Job {
                    what: it.job.what.clone(),
                    delivery: Some(Delivery {
                        run,
                        incarnation,
                        asked: it.count,
                    }),
                }),
                Ok(Reply::Leased { .. } | Reply::Renewed { .. }) => {}
                Err(denial) => denied.push((it.job.clone(), denial)),
            }
            false
        });
    });
    let now = clock::monotonic();
    if !delivered.is_empty() || KEPT.with_borrow(|kept| kept.iter().any(|(_, at)| *at <= now)) {
        // A row takes only numbers above those that it has taken.
        delivered.extend(KEPT.take().into_iter().map(|(job, _)| job));
        delivered.sort_by_key(|job| job.delivery.map(|it| it.run.first));
    }
    (delivered, denied)
}

/// Whether a segment was asked of the centre, and not published yet, for a slot for which `is_it`
/// returns true.
pub fn is_under_way(is_it: &dyn Fn(&FoundSlot) -> bool) -> bool {
    let is_of_it = |job: &Job| job.slot().is_some_and(|found| is_it(&found));
    AWAITING_CENTRE.with_borrow(|asked| asked.iter().any(|it| is_of_it(&it.job)))
        || KEPT.with_borrow(|kept| kept.iter().any(|(job, _)| is_of_it(job)))
}

/// Keeps a job whose numbers are there but could not be granted.
pub fn keep(job: Job) {
    let again = clock::monotonic() + TRY_AGAIN;
    KEPT.with_borrow_mut(|kept| kept.push((job, again)));
}

/// When jobs are tried again whose numbers are there, if there are some.
pub fn next_try() -> Option<Monotonic> {
    KEPT.with_borrow(|kept| kept.iter().map(|(_, at)| *at).min())
}
