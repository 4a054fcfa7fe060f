//! The conversation of a loader with the centre, of which a shard gets the numbers of its tags,
//! and its worker ids.
//!
//! A [`Demand`] is posted, and its answer collected in a later turn of the loader's loop; the
//! loader goes on with other work meanwhile. A thread ([`speaker`]) calls libpq, and the loader's
//! main thread waits only on its latch and for a message of it. So the loader ends at once when it
//! has to, whatever the centre does. Each request is answered: with numbers, with a lease, or with
//! the reason why there are none. What each answer leads to is in `docs/architecture.md`.
//!
//! - The thread starts with the first request, when the loader is connected to its database and
//!   `lc_messages` cannot change any more: both call `setenv`, and libpq reads the environment.
//! - The connection string goes with each question, and the answer names it ([`Answered`]): the
//!   setting may have changed since.
//! - That a connection was lost, the thread stores itself ([`Contact`]).
//! - The connection ends with the loader, whose successor knows of none: a lease is not confirmed
//!   any more, and the centre is asked.

mod answers;
mod centre;
mod failure;
pub mod message;
mod speaker;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::pg::libpq::LibPq;
use crate::pg::{self, guc, process};
use crate::settings::upstream::{self as settings, CentreDigest};
use crate::shmem::text::Text;
use crate::shmem::upstream::{Contact, Denial};
use centre::Address;
use failure::Failure;
use message::{Answer, Answered, Demand, Reply};
use speaker::{Message, Speaker};

/// The pauses after failures to reach the centre. Many shards must not come back at the same
/// moment, so each pause is shortened by chance, by up to a half.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often the same failure is logged.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// For numbers of how many tags the centre is asked at once: requests about leases do not wait for
/// more than that.
const MOST_TAGS: usize = 256;

/// How long the loader waits for the next answer: several hosts may have to be tried.
fn patience() -> Duration {
    settings::timeout() * 4
}

/// Identifies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

thread_local! {
    static CONVERSATION: RefCell<Option<Conversation>> = const { RefCell::new(None) };
}

/// Prepares the conversation of this loader. Called before it is connected to its database.
pub fn begin(contact: &'static Contact) {
    // The connection of an earlier loader is gone.
    contact.disconnected();
    CONVERSATION.set(Some(Conversation::new(contact)));
}

fn with<R>(act: impl FnOnce(&mut Conversation) -> R) -> R {
    CONVERSATION.with_borrow_mut(|it| act(it.as_mut().expect("this process is a loader")))
}

/// Posts a request. Never waits, and raises no error.
pub fn post(demand: Demand) -> RequestId {
    with(|it| {
        it.last_id.0 += 1;
        it.posted.push((it.last_id, demand));
        it.last_id
    })
}

/// Takes the answer, if there is one.
pub fn collect(id: RequestId) -> Option<Answered> {
    with(|it| it.answered.remove(&id))
}

/// The number of this loader's connection: another one, if that was lost or made since. `None` in
/// other processes.
pub fn connection() -> Option<u64> {
    CONVERSATION.with_borrow(|it| Some(it.as_ref()?.contact.connection()))
}

/// Hears what the thread has to say, and passes requests on to it; `false` if there was nothing to
/// do. Never waits.
pub fn turn() -> bool {
    with(|it| it.listen() | it.ask())
}

/// Called after the configuration was reloaded: the centre may be another one.
pub fn reconsider() {
    with(|it| (it.pause, it.paused_until) = (Duration::ZERO, None));
}

/// For how long the loader may sleep because of the conversation, if there is one under way.
pub fn nap() -> Option<Duration> {
    with(|it| {
        let until = it.under_way.as_ref()?.until;
        Some(until.saturating_duration_since(Instant::now()))
    })
}

/// The descriptor that is readable when the thread has something to say, if there is a thread.
pub fn descriptor() -> Option<i32> {
    with(|it| it.speaker.as_ref().map(Speaker::descriptor))
}

/// The loader ends, and with it the connection.
pub fn end() {
    with(|it| it.contact.disconnected());
}

/// The questions that are not answered yet.
struct UnderWay {
    demands: VecDeque<(RequestId, Demand)>,
    /// The digest of the setting with which it was asked.
    setting: CentreDigest,
    /// When the next answer comes too late.
    until: Instant,
}

struct Conversation {
    contact: &'static Contact,
    /// The thread, once there is one.
    speaker: Option<Speaker>,
    last_id: RequestId,
    /// Requests that were not passed on yet.
    posted: Vec<(RequestId, Demand)>,
    under_way: Option<UnderWay>,
    /// How many rounds of questions were given up whose answers are still to come.
    given_up: usize,
    /// Answers that were not collected yet.
    answered: HashMap<RequestId, Answered>,
    /// No request is passed on before this.
    pause: Duration,
    paused_until: Option<Instant>,
    /// The last message in the log for each subject.
    logged: HashMap<String, (String, Instant)>,
}

impl Conversation {
    fn new(contact: &'static Contact) -> Self {
        Conversation {
            contact,
            speaker: None,
            last_id: RequestId(0),
            posted: Vec::new(),
            under_way: None,
            given_up: 0,
            answered: HashMap::new(),
            pause: Duration::ZERO,
            paused_until: None,
            logged: HashMap::new(),
        }
    }

    /// Hears what the thread has to say; `false` if that is nothing.
    fn listen(&mut self) -> bool {
        let Some(speaker) = &mut self.speaker else {
            return false;
        };
        let (messages, has_ended) = speaker.messages();
        let mut is_any = !messages.is_empty();
        for message in messages {
            self.hear(message);
        }
        if has_ended {
            // The next request starts another one.
            (self.speaker, self.given_up) = (None, 0);
            self.give_up("the thread that speaks with the centre has ended");
            return true;
        }
        if (self.under_way.as_ref()).is_some_and(|it| it.until <= Instant::now()) {
            // The thread may be resolving a name. Its answers will be dropped.
            self.given_up += 1;
            self.give_up("the centre could not be reached in time");
            is_any = true;
        }
        is_any
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::End(_) if self.given_up > 0 => self.given_up -= 1,
            Message::Answer(_) if self.given_up > 0 => {}
            Message::Answer(answer) => {
                let next = self.under_way.as_mut().and_then(|it| {
                    it.until = Instant::now() + patience();
                    Some((it.setting, it.demands.pop_front()?))
                });
                if let Some((setting, (id, demand))) = next {
                    self.settle(id, demand, setting, *answer);
                }
            }
            Message::End(host) => {
                self.under_way = None;
                self.note_connection(host.as_deref());
            }
        }
    }

    /// Passes requests on; `false` if there are none, or others are under way.
    fn ask(&mut self) -> bool {
        if self.under_way.is_some() || self.posted.is_empty() {
            return false;
        }
        // Those for numbers go in one statement, last: leases are not to wait for them.
        let (tags, mut demands): (Vec<_>, Vec<_>) =
            (self.posted.drain(..)).partition(|(_, demand)| demand.is_for_numbers());
        let mut tags = tags.into_iter();
        demands.extend(tags.by_ref().take(MOST_TAGS));
        self.posted = tags.collect();

        let setting = settings::digest();
        let Some(conninfo) = settings::upstream() else {
            self.fail(
                demands,
                setting,
                Denial::NoUpstream,
                "leaf.upstream is not set",
            );
            return true;
        };
        let is_paused = (self.paused_until).is_some_and(|until| until > Instant::now());
        if is_paused || self.given_up > 0 {
            self.deny(demands, setting, Denial::Away);
            return true;
        }
        let timeout = settings::timeout();
        let wanted = demands.iter().map(|(_, demand)| demand.clone()).collect();
        match self.speaker() {
            Ok(speaker) => speaker.ask(Address { conninfo, timeout }, wanted),
            Err(cause) => {
                self.begin_pause();
                self.fail(demands, setting, Denial::Away, &cause);
                return true;
            }
        }
        self.under_way = Some(UnderWay {
            demands: demands.into(),
            setting,
            until: Instant::now() + patience(),
        });
        true
    }

    /// The thread, which is started if there is none.
    fn speaker(&mut self) -> Result<&Speaker, String> {
        let speaker = match self.speaker.take() {
            Some(speaker) => speaker,
            None => {
                let pq = LibPq::load(&guc::library_folder())?;
                Speaker::start(pq, self.contact).map_err(|error| error.to_string())?
            }
        };
        Ok(self.speaker.insert(speaker))
    }

    /// The requests under way will not be answered.
    fn give_up(&mut self, cause: &str) {
        if let Some(it) = self.under_way.take() {
            self.fail(it.demands.into(), it.setting, Denial::Away, cause);
        }
    }

    /// Records whether the centre is connected.
    fn note_connection(&mut self, host: Option<&str>) {
        match host {
            Some(host) => {
                self.contact.note(|state| state.host = Text::of(host));
                (self.pause, self.paused_until) = (Duration::ZERO, None);
            }
            None => self.begin_pause(),
        }
    }

    fn settle(&mut self, id: RequestId, demand: Demand, setting: CentreDigest, answer: Answer) {
        let answer = answer.inspect(|reply| {
            self.note_answer();
            if let Reply::Granted { run, .. } = reply {
                self.contact.note(|state| {
                    state.feeds += 1;
                    state.numbers += run.len;
                });
            }
            self.logged.remove(&demand.subject());
        });
        let answer = answer.map_err(|Failure { denial, cause }| {
            self.note_failure(&demand.subject(), &cause);
            if !denial.is_unreached() {
                self.note_answer();
            }
            denial
        });
        let answered = Answered {
            demand,
            setting,
            answer,
        };
        self.answered.insert(id, answered);
    }

    fn note_answer(&self) {
        let now = pg::clock::now();
        self.contact.note(|state| state.answered_at = Some(now));
    }

    /// Answers requests with a failure that concerns all of them.
    fn fail(
        &mut self,
        demands: Vec<(RequestId, Demand)>,
        setting: CentreDigest,
        denial: Denial,
        cause: &str,
    ) {
        for (_, demand) in &demands {
            self.note_failure(&demand.subject(), cause);
        }
        self.deny(demands, setting, denial);
    }

    fn deny(&mut self, demands: Vec<(RequestId, Demand)>, setting: CentreDigest, denial: Denial) {
        let answers = demands.into_iter().map(|(id, demand)| {
            let answered = Answered {
                demand,
                setting,
                answer: Err(denial),
            };
            (id, answered)
        });
        self.answered.extend(answers);
    }

    /// Records a failure, and logs it unless it was logged lately.
    fn note_failure(&mut self, subject: &str, cause: &str) {
        self.contact.note(|state| {
            state.failed += 1;
            state.failures.note(cause);
        });
        let last = self.logged.get(subject);
        let is_known = last.is_some_and(|(last, at)| last == cause && at.elapsed() < LOG_AGAIN);
        if !is_known {
            pg::log(&format!("could not get {subject}: {cause}"));
            let said = (cause.to_owned(), Instant::now());
            self.logged.insert(subject.to_owned(), said);
        }
    }

    fn begin_pause(&mut self) {
        self.pause = (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let half = self.pause.as_micros() as u64 / 2;
        let shortened = self.pause - Duration::from_micros(process::random() % half.max(1));
        self.paused_until = Some(Instant::now() + shortened);
    }
}
