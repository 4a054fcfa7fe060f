//! Hands out snowflake ids.
//!
//! The state that counts is one number: the last issued id itself, worker id
//! and all. It only ever changes by compare-and-swap, and the worker id of the
//! next id is the one in it: a lease that changes hands while a caller sleeps
//! cannot make an id of one worker's time and another's number.
//!
//! # The ceiling
//!
//! Nothing is issued at or above the ceiling, which somebody else has made
//! durable before it was set here. It names the worker id, too: a caller that
//! sleeps while the lease changes hands, even there and back, sees that its
//! last id and its ceiling are not of one worker. Between two leases of one
//! worker id the order decides: [`install`](Generator::install) writes the
//! ceiling after the last id, so a caller that has read it can no longer
//! exchange the last id of an earlier lease.
//!
//! # Who may call what
//!
//! [`take`](Generator::take) may be called by anyone at any time;
//! [`install`](Generator::install), [`extend`](Generator::extend) and
//! [`fence`](Generator::fence) by one at a time, whose business is the lease.
//!
//! # The clock
//!
//! It is read after the last id. If it then stands before that id's time, it
//! has gone back, or the ids run ahead of it: because the lease began ahead of
//! it, at the ceiling of the life before, or because the rules allow to *borrow*
//! from the time to come.

use super::Layout;
use crate::sync::{AtomicU64, Ordering};

/// What the generator needs from outside, asked for only when needed.
pub trait Environment {
    /// The clock, in microseconds since the epoch of the ids; 0 before it.
    /// Called once per attempt, after the last id was read.
    fn now(&self) -> u64;
    /// What to do when the clock is behind. Called only then.
    fn clock_rules(&self) -> ClockRules;
    /// Any number. Called once per tick.
    fn random(&self) -> u64;
}

/// What to do when the clock is behind the last issued id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockPolicy {
    /// Wait for a little, refuse beyond (Meituan Leaf's way).
    Error,
    /// Wait, however long.
    Wait,
    /// Go on from the last id's time.
    Borrow,
}

/// A policy and its bounds, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRules {
    /// What to do.
    pub policy: ClockPolicy,
    /// A clock that is behind by no more than this is waited for, whatever the
    /// policy.
    pub tolerance_us: u64,
    /// How far ahead of the clock ids may be that are borrowed.
    pub max_lead_us: u64,
}

/// Consecutive ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first.
    pub first: i64,
    /// How many; never 0.
    pub len: u64,
    /// Whether the ceiling should be raised soon.
    pub due: bool,
}

/// Why there is no id now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is no lease, or its ceiling is reached.
    Ceiling,
    /// The tick's ids are used up, or the clock is a little behind: worth
    /// another try after so many microseconds.
    Wait {
        /// Until then, nothing changes by itself.
        us: u64,
    },
    /// The clock is behind the last id by more than the rules allow.
    ClockBehind {
        /// By so many microseconds.
        us: u64,
    },
    /// The time field has no more values.
    TimeUsedUp,
}

/// The generator of one worker; see the [module](self).
///
/// `#[repr(C)]` and free of pointers: it may lie in memory that several
/// processes share.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Generator {
    /// The last issued id. Written by every call, so it has a cache line to itself.
    last: Line,
    /// The first id of the lease's worker that must not be issued; 0 without a
    /// lease. Written by the lease's keeper.
    ceiling: AtomicU64,
    /// From this id on, the ceiling is due to be raised. As above.
    renew_at: AtomicU64,
    /// How far ahead of the clock the lease's ids began, in microseconds; 0 once
    /// the clock has caught up. Ids may be that far ahead of it until then.
    start_lead: AtomicU64,
    /// 1 while the clock is known to be behind.
    behind: AtomicU64,
    /// How often the clock was seen to have gone back.
    rollbacks: AtomicU64,
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Line(AtomicU64);

/// What a lease allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Whose ids.
    pub worker: u64,
    /// The first tick that may be used, at least 1.
    pub from: u64,
    /// The first tick that may not.
    pub ceiling: u64,
    /// The tick from which on the ceiling is due to be raised.
    pub renew_at: u64,
}

impl Generator {
    /// A generator without a lease.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes up to `count` ids of one tick, ascending and above all taken
    /// before. `count` is at least 1.
    #[inline]
    pub fn take(&self, layout: &Layout, count: u64, env: &impl Environment) -> Result<Taken, Stop> {
        loop {
            // Acquire: a ceiling read after this is of the same lease or later.
            let last = self.last.0.load(Ordering::Acquire);
            // Acquire: pairs with `install`; see the module.
            let ceiling = self.ceiling.load(Ordering::Acquire);
            if ceiling == 0 {
                return Err(Stop::Ceiling);
            }
            if layout.unpack(ceiling).1 != layout.unpack(last).1 {
                // A later lease's ceiling; its last id is there, too.
                continue;
            }
            let (first, len) = self.next(layout, last, count, env)?;
            if first >= ceiling {
                return Err(Stop::Ceiling);
            }
            let new_last = first + (len - 1);
            let swapped = self.last.0.compare_exchange_weak(
                last,
                new_last,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if swapped.is_ok() {
                return Ok(Taken {
                    first: first as i64,
                    len,
                    due: new_last >= self.renew_at.load(Ordering::Relaxed),
                });
            }
        }
    }

    /// The ids that follow `last` now: the first, and how many of `count`.
    #[inline]
    fn next(
        &self,
        layout: &Layout,
        last: u64,
        count: u64,
        env: &impl Environment,
    ) -> Result<(u64, u64), Stop> {
        let (tick, worker, sequence) = layout.unpack(last);
        let used_up = sequence + 1 == layout.ids_per_tick();
        let now = env.now();
        let now_tick = now / layout.tick_us();
        if now_tick >= tick {
            self.caught_up(last);
        }
        if now_tick > tick {
            return self.in_new_tick(
                layout,
                now_tick,
                worker,
                used_up && now_tick == tick + 1,
                count,
                env,
            );
        }
        let behind = (tick * layout.tick_us()).saturating_sub(now);
        let lead = match behind {
            0 => 0,
            _ => self.allowed_lead(behind, env)?,
        };
        if !used_up {
            let left = layout.ids_per_tick() - (sequence + 1);
            return Ok((last + 1, count.min(left)));
        }
        let next_behind = ((tick + 1) * layout.tick_us()).saturating_sub(now);
        if next_behind > lead {
            return Err(Stop::Wait {
                us: next_behind - lead,
            });
        }
        fresh(layout, tick + 1, worker, 0, count)
    }

    /// The clock has passed the last id's tick.
    fn in_new_tick(
        &self,
        layout: &Layout,
        tick: u64,
        worker: u64,
        is_busy: bool,
        count: u64,
        env: &impl Environment,
    ) -> Result<(u64, u64), Stop> {
        // Where every id of a tick is wanted, none is left out.
        let start = match is_busy {
            true => 0,
            false => env.random() % layout.start_spread(),
        };
        fresh(layout, tick, worker, start, count)
    }

    /// The clock is no longer behind the last id.
    #[inline]
    fn caught_up(&self, last: u64) {
        if self.behind.load(Ordering::Relaxed) != 0 {
            self.behind.store(0, Ordering::Relaxed);
        }
        // Acquire: who reads a lease's head start reads its last id below, and
        // does not end a head start that is not that of `last`.
        let lead = self.start_lead.load(Ordering::Acquire);
        if lead != 0 && self.last.0.load(Ordering::Relaxed) == last {
            let _ = self
                .start_lead
                .compare_exchange(lead, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How far ids may be ahead of the clock, which is behind the last one.
    #[cold]
    fn allowed_lead(&self, behind: u64, env: &impl Environment) -> Result<u64, Stop> {
        let rules = env.clock_rules();
        let start_lead = self.start_lead.load(Ordering::Relaxed);
        if behind > start_lead && self.behind.swap(1, Ordering::Relaxed) == 0 {
            self.rollbacks.fetch_add(1, Ordering::Relaxed);
        }
        let borrowed = match rules.policy {
            ClockPolicy::Borrow => rules.max_lead_us,
            ClockPolicy::Error | ClockPolicy::Wait => 0,
        };
        let lead = start_lead.max(borrowed);
        let gone_back = behind.saturating_sub(start_lead);
        if 0 < gone_back && gone_back <= rules.tolerance_us {
            return Err(Stop::Wait { us: gone_back });
        }
        if behind <= lead {
            return Ok(lead);
        }
        let us = behind - lead;
        let is_patient = rules.policy == ClockPolicy::Wait || us <= rules.tolerance_us;
        Err(match is_patient {
            true => Stop::Wait { us },
            false => Stop::ClockBehind { us: behind },
        })
    }

    /// Begins a lease: issues ids of its span from now on, and no others.
    ///
    /// `now_us` is the clock, in microseconds since the epoch: a span that
    /// begins after it is counted from there until the clock has caught up.
    pub fn install(&self, layout: &Layout, span: Span, now_us: u64) {
        self.begin(layout, span, now_us, |_| span.from);
    }

    /// As [`install`](Self::install), for a worker that follows another: begins
    /// above the last id, where the ceiling leaves room for that.
    pub fn install_above(&self, layout: &Layout, span: Span, now_us: u64) {
        self.begin(layout, span, now_us, |last| {
            let above = layout.unpack(last).0.saturating_add(1);
            match above < span.ceiling {
                true => span.from.max(above),
                false => span.from,
            }
        });
    }

    /// `from` tells, from the last id, the tick to begin with.
    fn begin(&self, layout: &Layout, span: Span, now_us: u64, from: impl Fn(u64) -> u64) {
        self.ceiling.store(0, Ordering::Relaxed);
        let mut last = self.last.0.load(Ordering::Relaxed);
        let before = loop {
            let before = from(last).clamp(1, layout.ticks()) - 1;
            let first = layout.pack(before, span.worker, layout.ids_per_tick() - 1);
            // Release: who reads this id reads no ceiling of an earlier lease.
            // An exchange, because callers under way may still take an id.
            let swapped =
                self.last
                    .0
                    .compare_exchange(last, first, Ordering::AcqRel, Ordering::Relaxed);
            match swapped {
                Ok(_) => break before,
                Err(newer) => last = newer,
            }
        };
        let start_lead = ((before + 1) * layout.tick_us()).saturating_sub(now_us);
        // Waiting for the next tick is no head start.
        let ahead = before * layout.tick_us() > now_us;
        // Release: pairs with `caught_up`.
        self.start_lead
            .store(if ahead { start_lead } else { 0 }, Ordering::Release);
        self.behind.store(0, Ordering::Relaxed);
        self.extend(layout, span.ceiling, span.renew_at);
    }

    /// Raises the ceiling of the lease that is installed.
    pub fn extend(&self, layout: &Layout, ceiling: u64, renew_at: u64) {
        let id_at = |tick: u64| tick.min(layout.ticks()) * layout.ids_of_a_tick();
        self.renew_at.store(id_at(renew_at), Ordering::Relaxed);
        // Callers change the last id, but never whose it is.
        let (_, worker, _) = layout.unpack(self.last.0.load(Ordering::Relaxed));
        let ceiling = id_at(ceiling) + worker * layout.ids_per_tick();
        // Release: who reads this ceiling reads no last id of an earlier lease.
        self.ceiling.store(ceiling, Ordering::Release);
    }

    /// Ends the lease: no caller that comes from now on gets an id. One that is
    /// under way may still get one below the ceiling.
    pub fn fence(&self) {
        self.ceiling.store(0, Ordering::Release);
    }

    /// Whether there is a lease.
    pub fn is_leased(&self) -> bool {
        self.ceiling.load(Ordering::Acquire) != 0
    }

    /// Whether the next id lies below the ceiling, with a clock that shows so
    /// many microseconds since the epoch.
    pub fn has_room(&self, layout: &Layout, now_us: u64) -> bool {
        let (tick, _, sequence) = layout.unpack(self.last.0.load(Ordering::Acquire));
        let used_up = sequence + 1 == layout.ids_per_tick();
        let next = (now_us / layout.tick_us()).max(tick + u64::from(used_up));
        next < layout.unpack(self.ceiling.load(Ordering::Acquire)).0
    }

    /// Whether the ceiling is due to be raised.
    pub fn is_due(&self) -> bool {
        self.last.0.load(Ordering::Relaxed) >= self.renew_at.load(Ordering::Relaxed)
    }

    /// The tick of the last issued id, or the one before the span of a lease
    /// that has issued none.
    pub fn last_tick(&self, layout: &Layout) -> u64 {
        layout.unpack(self.last.0.load(Ordering::Acquire)).0
    }

    /// How often the clock was seen to have gone back.
    pub fn rollbacks(&self) -> u64 {
        self.rollbacks.load(Ordering::Relaxed)
    }

    /// Forgets everything, for another registry.
    pub fn reset(&self) {
        self.fence();
        self.start_lead.store(0, Ordering::Relaxed);
        self.behind.store(0, Ordering::Relaxed);
        self.rollbacks.store(0, Ordering::Relaxed);
    }
}

/// Ids of a tick of which none was issued.
#[inline]
fn fresh(
    layout: &Layout,
    tick: u64,
    worker: u64,
    start: u64,
    count: u64,
) -> Result<(u64, u64), Stop> {
    if tick >= layout.ticks() {
        return Err(Stop::TimeUsedUp);
    }
    let left = layout.ids_per_tick() - start;
    Ok((layout.pack(tick, worker, start), count.min(left)))
}
