//! The link: the background worker of the cluster that speaks with the centre, of which a shard
//! gets the numbers of its tags, and its worker ids.
//!
//! It is started by the first loader or session that has a request ([`call`]), and ends, which
//! closes its connection, when there was none for `leaf.loader_idle_timeout`. It stays while
//! snowflake ids are drawn with a lease from the centre: a connection that is lost is the only
//! sign that another registry may be behind the centre's address. It has no
//! connection to a database, so that it can hold up no command that waits for sessions to leave
//! one. Its main thread waits only on its latch and for the thread that speaks with the
//! centre ([`speaker`]), and each request is answered: with numbers, with a lease, or with the
//! reason why there are none. Its states, and what each answer leads to, are in
//! `docs/architecture.md`.

mod answers;
pub mod call;
mod centre;
mod failure;
mod speaker;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgrx::{pg_guard, pg_sys};

use crate::pg::libpq::LibPq;
use crate::pg::wait_event::WaitEvent;
use crate::pg::{self, bgworker, clock, guc, latch, process};
use crate::settings;
use crate::settings::upstream as upstream_settings;
use crate::shmem::requests::Id;
use crate::shmem::text::Text;
use crate::shmem::upstream::{Demand, Denial, Reply};
use crate::shmem::{self, LINK, Shared};
use centre::Address;
use failure::{Answer, Failure};
use speaker::{Message, Speaker};

/// How long the link sleeps at most.
const NAP: Duration = Duration::from_secs(1);

/// The pauses after failures to reach the centre. Many shards must not come back at the same
/// moment, so each pause is shortened by chance, by up to a half.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often the same failure is logged.
const LOG_AGAIN: Duration = Duration::from_secs(60);

/// How long the link waits for the next answer: several hosts may have to be tried.
fn patience() -> Duration {
    upstream_settings::timeout() * 4
}

static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// The main function of the background worker.
///
/// # Safety
/// Called by the postmaster's child.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_link_main(_argument: pg_sys::Datum) {
    let Some(shared) = shmem::get() else {
        return;
    };
    if !shared.links.enter(LINK) {
        return;
    }
    IS_ENTERED.store(true, Ordering::Relaxed);
    process::before_exit(at_exit);
    // The other thread may be in a library that is being torn down.
    process::exit_without_destructors();
    bgworker::begin_without_database();
    Link::new(shared).work();
}

/// What was asked and is not answered yet.
struct UnderWay {
    demands: VecDeque<(Id, Demand)>,
    /// When the next answer comes too late.
    until: Instant,
}

struct Link {
    shared: &'static Shared,
    /// The thread, or why there is none.
    speaker: Result<Speaker, String>,
    /// How many conversations were given up whose answers are still to come.
    given_up: usize,
    under_way: Option<UnderWay>,
    /// No request is passed on before this.
    pause: Duration,
    paused_until: Option<Instant>,
    /// What was logged for each subject.
    logged: HashMap<String, (String, Instant)>,
}

impl Link {
    fn new(shared: &'static Shared) -> Self {
        let speaker = LibPq::load(&guc::library_folder())
            .and_then(|pq| Speaker::start(pq).map_err(|error| error.to_string()));
        Link {
            shared,
            speaker,
            given_up: 0,
            under_way: None,
            pause: Duration::ZERO,
            paused_until: None,
            logged: HashMap::new(),
        }
    }

    fn work(mut self) {
        let mut last_work = Instant::now();
        loop {
            process::check_for_interrupts();
            if bgworker::reload_if_asked() {
                // The centre may be another one.
                (self.pause, self.paused_until) = (Duration::ZERO, None);
            }
            if self.listen() || self.ask() {
                last_work = Instant::now();
                continue;
            }
            let is_idle = last_work.elapsed() >= settings::server::loader_idle_timeout();
            if is_idle && self.under_way.is_none() && !self.shared.upstream.is_watched() {
                let has_posted = || self.shared.upstream.requests.next_try(|_| true).is_some();
                if self.shared.links.leave(LINK, has_posted) {
                    IS_ENTERED.store(false, Ordering::Relaxed);
                    return;
                }
            }
            let descriptor = self.speaker.as_ref().ok().map(Speaker::descriptor);
            latch::wait_or_readable(self.nap(), descriptor, WaitEvent::LinkMain);
        }
    }

    fn nap(&self) -> Duration {
        let until = self.under_way.as_ref().map(|it| it.until);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        left.unwrap_or(NAP).min(NAP)
    }

    /// Passes answers on; `false` if there are none.
    fn listen(&mut self) -> bool {
        let messages = self
            .speaker
            .as_mut()
            .map_or_else(|_| Vec::new(), Speaker::messages);
        let is_any = !messages.is_empty();
        for message in messages {
            self.hear(message);
        }
        let is_late = |it: &mut UnderWay| it.until <= Instant::now();
        if let Some(late) = self.under_way.take_if(is_late) {
            // The thread may be resolving a name. Its answers will be dropped.
            self.given_up += 1;
            let cause = "the centre could not be reached in time";
            let demands = Vec::from(late.demands);
            self.fail(&demands, Denial::Away, cause);
            return true;
        }
        is_any
    }

    fn hear(&mut self, message: Message) {
        match message {
            Message::Changed => self.shared.upstream.note(|state| state.connections += 1),
            Message::End(_) if self.given_up > 0 => self.given_up -= 1,
            Message::Answer(_) if self.given_up > 0 => {}
            Message::Answer(answer) => {
                let next = self.under_way.as_mut().and_then(|it| {
                    it.until = Instant::now() + patience();
                    it.demands.pop_front()
                });
                if let Some((id, demand)) = next {
                    self.settle(id, &demand, *answer);
                }
            }
            Message::End(host) => {
                self.under_way = None;
                self.note_connection(host.as_deref());
            }
        }
    }

    /// Passes requests to the centre; `false` if there are none, or others are under way.
    fn ask(&mut self) -> bool {
        if self.under_way.is_some() {
            return false;
        }
        let mut demands = self.shared.upstream.requests.take(|_| true);
        // Those for numbers go in one statement, last: leases are not to wait for them.
        demands.sort_by_key(|(_, demand)| demand.is_for_numbers());
        if demands.is_empty() {
            return false;
        }
        let Some(conninfo) = upstream_settings::upstream() else {
            self.fail(&demands, Denial::NoUpstream, "leaf.upstream is not set");
            return true;
        };
        let speaker = match &self.speaker {
            Ok(speaker) => speaker,
            Err(cause) => {
                let cause = cause.clone();
                self.fail(&demands, Denial::Away, &cause);
                return true;
            }
        };
        let is_paused = self
            .paused_until
            .is_some_and(|until| until > Instant::now());
        if is_paused || self.given_up > 0 {
            self.answer_all(&demands, Denial::Away);
            return true;
        }
        let timeout = upstream_settings::timeout();
        let wanted = demands.iter().map(|(_, demand)| *demand).collect();
        if !speaker.ask(Address { conninfo, timeout }, wanted) {
            self.fail(&demands, Denial::Away, "the thread of the link has ended");
            return true;
        }
        self.under_way = Some(UnderWay {
            demands: demands.into(),
            until: Instant::now() + patience(),
        });
        true
    }

    /// Records whether the centre is connected.
    fn note_connection(&mut self, host: Option<&str>) {
        self.shared.upstream.note(|state| match host {
            Some(host) => {
                state.connected_at = state.connected_at.or_else(|| Some(clock::now()));
                state.host = Text::of(host);
            }
            None => state.connected_at = None,
        });
        match host {
            Some(_) => (self.pause, self.paused_until) = (Duration::ZERO, None),
            None => self.begin_pause(),
        }
    }

    fn settle(&mut self, id: Id, demand: &Demand, answer: Answer) {
        let upstream = &self.shared.upstream;
        let answer = match answer {
            Ok(mut reply) => {
                if let Reply::Leased { from, .. } | Reply::Renewed { from, .. } = &mut reply {
                    from.connection = upstream.state().connections;
                }
                upstream.note_reply(&reply);
                self.logged.remove(&demand.subject());
                Ok(reply)
            }
            Err(Failure { denial, cause }) => {
                self.note_failure(&demand.subject(), &cause);
                if !denial.is_unreached() {
                    upstream.note_answer();
                }
                Err(denial)
            }
        };
        self.shared.upstream.requests.answer(id, answer);
    }

    /// Answers requests with a failure that concerns all of them.
    fn fail(&mut self, demands: &[(Id, Demand)], denial: Denial, cause: &str) {
        self.shared.upstream.note(|state| state.connected_at = None);
        for (_, demand) in demands {
            self.note_failure(&demand.subject(), cause);
        }
        self.answer_all(demands, denial);
    }

    fn answer_all(&self, demands: &[(Id, Demand)], denial: Denial) {
        for (id, _) in demands {
            self.shared.upstream.requests.answer(*id, Err(denial));
        }
    }

    /// Records a failure, and logs it unless it was logged lately.
    fn note_failure(&mut self, subject: &str, cause: &str) {
        self.shared.upstream.note(|state| state.failed += 1);
        self.shared.upstream.note_failure(cause);
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

/// Runs however the link ends: those who wait learn that it has.
#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _argument: pg_sys::Datum) {
    if IS_ENTERED.swap(false, Ordering::Relaxed)
        && let Some(shared) = shmem::get()
    {
        shared.links.leave(LINK, || false);
        shared.upstream.note(|state| state.connected_at = None);
        let away = |_: &Demand| Some(Err(Denial::Away));
        shared.upstream.requests.settle_taken(|_| true, away);
    }
}
