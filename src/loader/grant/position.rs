//! Where tags of the centre stand, for sessions that attach tags to them.

use std::cell::RefCell;

use leaf_core::time::Monotonic;

use crate::loader::conversation::message::{Answered, Demand, Reply};
use crate::loader::conversation::{self, RequestId};
use crate::loader::work::{Done, Work};
use crate::shmem::Shared;
use crate::shmem::mailbox::{Answer, LoaderRequest};
use crate::shmem::requests::Id;
use crate::shmem::upstream::Denial;

/// Asks the centre where tags stand.
pub struct Positions;

thread_local! {
    /// The requests of sessions, and those to the centre that answer them.
    static ASKED: RefCell<Vec<(Id, RequestId)>> = const { RefCell::new(Vec::new()) };
}

fn is_position(asked: &LoaderRequest) -> bool {
    asked.tag_of_centre().is_some()
}

impl Work for Positions {
    fn run(&self, shared: &Shared, database: u32) -> Done {
        let mut done = Done::Nothing;
        ASKED.with_borrow_mut(|waiting| {
            for request in shared.mailbox.take_of(database, is_position) {
                let tag = request.asked.tag_of_centre().unwrap_or_default();
                let id = conversation::post(Demand::Numbers {
                    tag,
                    count: 0,
                    exact: false,
                });
                waiting.push((request.id, id));
                done = Done::Something;
            }
            waiting.retain(|(of_session, id)| {
                let Some(answered) = conversation::collect(*id) else {
                    return true;
                };
                shared.mailbox.answer(*of_session, meaning(answered));
                done = Done::Something;
                false
            });
        });
        done
    }

    fn next_try(&self, shared: &Shared, database: u32) -> Option<Monotonic> {
        shared.mailbox.next_try_of(database, is_position)
    }
}

fn meaning(answered: Answered) -> Answer {
    let found = answered.answer.and_then(|reply| match reply {
        Reply::Granted { run, incarnation } => Ok((run.first, incarnation)),
        Reply::Leased { .. } | Reply::Renewed { .. } => Err(Denial::Refused),
    });
    Answer::Position(answered.setting, found)
}
