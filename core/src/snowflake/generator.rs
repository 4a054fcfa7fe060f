//! Hands out snowflake ids.
//!
//! The essential state is one number: the last issued id, including its worker id.
//! It changes only by compare-and-swap, and the next id has the same worker id. If
//! the generator gets the lease of another worker id while a caller sleeps, the
//! caller therefore cannot combine the time of one worker id with the number of the
//! other.
//!
//! # The ceiling
//!
//! Ids at or above the *ceiling* are not issued. The caller that sets the ceiling here
//! has made it durable before. The ceiling contains the worker id, too: a caller that
//! sleeps while the worker id changes, even to another one and back, finds that its
//! last id and its ceiling have different worker ids. Between two leases of the same
//! worker id, the order of writes prevents a mix: [`install`](Generator::install)
//! writes the ceiling after the last id, so that a caller that has read the new
//! ceiling can no longer exchange the last id of an earlier lease.
//!
//! # The atomics
//!
//! | | written by | relied on |
//! |---|---|---|
//! | `last` | every call, by compare-and-swap; the keeper at the beginning of a lease, before `ceiling` | no id twice: whoever exchanges it owns the ids up to its new value |
//! | `ceiling` | the keeper: 0, then `last`, then the new one (release) | a call that has read it (acquire) has the `last` of the same lease or fails to exchange it |
//! | `renew_at` | the keeper, with the ceiling | a hint: a stale value asks too early or too late, and whoever keeps the lease looks again |
//! | `start_lead` | the keeper, after `last` (release); calls set it to 0 once the clock has caught up with the very `last` that they have read | how far ahead of the clock ids may be; too small a value makes calls wait |
//! | `behind`, `rollbacks` | calls | statistics only |
//!
//! # Who may call what
//!
//! [`take`](Generator::take) may be called by any thread or process at any time;
//! [`install`](Generator::install), [`extend`](Generator::extend),
//! [`fence`](Generator::fence) and [`end`](Generator::end) by one caller at a time, the keeper of the lease.
//!
//! # The clock
//!
//! The clock is read after the last id. If it is then behind that id's time, either
//! it has gone back, or the ids are ahead of it. Ids are ahead of the clock if the
//! lease began ahead of it, at the ceiling of an earlier lease, or if the rules allow
//! ids to *borrow* time from the future.

use super::layout::Layout;
use crate::sync::{AtomicU64, Ordering};
use crate::time::SinceEpoch;

/// The clock, settings and random numbers of a generator. Each value is read only when needed.
pub trait Environment {
    /// The clock. Called once per attempt, after the last id was read.
    fn now(&self) -> SinceEpoch;
    /// The rules for a clock that is behind. Called only in this case.
    fn clock_rules(&self) -> ClockRules;
    /// A random number. Called once per tick.
    fn random(&self) -> u64;
}

/// The action when the clock is behind the last issued id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockPolicy {
    /// Wait for a short time; refuse if the clock is further behind (as Meituan Leaf
    /// does).
    Error,
    /// Wait, however long.
    Wait,
    /// Continue from the last id's time.
    Borrow,
}

/// A policy and its bounds, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRules {
    /// The action.
    pub policy: ClockPolicy,
    /// Whatever the policy, calls wait out a clock lag up to this.
    pub tolerance_us: u64,
    /// How far ahead of the clock borrowed ids can be.
    pub max_lead_us: u64,
}

/// Ids of one tick and worker id, ascending. Those of other worker ids may lie between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TickIds {
    first: i64,
    step: u64,
    len: u64,
}

impl TickIds {
    /// The first of those that are left. A generator gives at least one.
    #[inline]
    pub fn first(&self) -> i64 {
        self.first
    }
}

impl Iterator for TickIds {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        self.len = self.len.checked_sub(1)?;
        let id = self.first;
        self.first = id.wrapping_add_unsigned(self.step);
        Some(id)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len as usize, Some(self.len as usize))
    }
}

impl ExactSizeIterator for TickIds {}

/// Ids from [`Generator::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The ids; at least one.
    pub ids: TickIds,
    /// Whether the ceiling should be raised soon.
    pub due: bool,
}

/// Why there is no id now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is no lease, or ids have reached its ceiling.
    Ceiling,
    /// The tick's ids are used up, or the clock is a little behind: the caller should
    /// try again later.
    Wait {
        /// After how many microseconds. Until then, nothing changes by itself.
        us: u64,
    },
    /// The clock is behind the last id by more than the rules allow.
    ClockBehind {
        /// By how many microseconds.
        us: u64,
    },
    /// The time field has no more values.
    TimeUsedUp,
}

/// The generator of one worker id; see the [module](self).
///
/// `#[repr(C)]` and without pointers: it can lie in memory that several
/// processes share.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Generator {
    /// The last issued id. Every call writes it, so it has a cache line of its own.
    last: Line,
    /// The first id of the lease's worker id that must not be issued; 0 without a
    /// lease. Written by the lease's keeper.
    ceiling: AtomicU64,
    /// From this id on, the ceiling is due to be raised. Written by the lease's keeper.
    renew_at: AtomicU64,
    /// How far ahead of the clock the lease's ids began, in microseconds; 0 once
    /// the clock has caught up. Until then, ids can be this far ahead of the clock.
    start_lead: AtomicU64,
    /// 1 while the clock is known to be behind.
    behind: AtomicU64,
    /// How often the clock was found to have gone back.
    rollbacks: AtomicU64,
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Line(AtomicU64);

/// The times that a lease allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The worker id of the ids.
    pub worker_id: u64,
    /// The first tick that may be used, at least 1.
    pub from: u64,
    /// The first tick that may not be used.
    pub ceiling: u64,
    /// The tick from which the ceiling is due to be raised.
    pub renew_at: u64,
}

impl Generator {
    /// A generator without a lease.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes up to `count` ids of one tick, ascending and above all that were taken
    /// before. `count` must be at least 1.
    ///
    /// # Errors
    /// Why there is no id now.
    #[inline]
    pub fn take(&self, layout: &Layout, count: u64, env: &impl Environment) -> Result<Taken, Stop> {
        loop {
            // Acquire: a ceiling read after this is of the same lease or a later one.
            let last = self.last.0.load(Ordering::Acquire);
            // Acquire: pairs with `install`; see the module.
            let ceiling = self.ceiling.load(Ordering::Acquire);
            if ceiling == 0 {
                return Err(Stop::Ceiling);
            }
            if layout.unpack(ceiling).1 != layout.unpack(last).1 {
                // The ceiling is of a later lease, whose last id is stored already.
                continue;
            }
            let (first, len) = self.next(layout, last, count, env)?;
            if first >= ceiling {
                return Err(Stop::Ceiling);
            }
            let step = layout.step();
            let new_last = first + (len - 1) * step;
            let swapped = self.last.0.compare_exchange_weak(
                last,
                new_last,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if swapped.is_ok() {
                return Ok(Taken {
                    ids: TickIds {
                        first: first as i64,
                        step,
                        len,
                    },
                    due: new_last >= self.renew_at.load(Ordering::Relaxed),
                });
            }
        }
    }

    /// The ids that follow `last` now: the first one, and how many, up to `count`.
    #[inline]
    fn next(
        &self,
        layout: &Layout,
        last: u64,
        count: u64,
        env: &impl Environment,
    ) -> Result<(u64, u64), Stop> {
        let (tick, worker_id, sequence) = layout.unpack(last);
        let used_up = sequence + 1 == layout.ids_per_tick();
        let now = env.now().as_us();
        let now_tick = now / layout.tick_us();
        if now_tick >= tick {
            self.caught_up(last);
        }
        if now_tick > tick {
            return self.in_new_tick(
                layout,
                now_tick,
                worker_id,
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
            return Ok((last + layout.step(), count.min(left)));
        }
        let next_behind = ((tick + 1) * layout.tick_us()).saturating_sub(now);
        if next_behind > lead {
            return Err(Stop::Wait {
                us: next_behind - lead,
            });
        }
        fresh(layout, tick + 1, worker_id, 0, count)
    }

    /// Like [`next`](Self::next), when the clock has passed the last id's tick.
    fn in_new_tick(
        &self,
        layout: &Layout,
        tick: u64,
        worker_id: u64,
        is_busy: bool,
        count: u64,
        env: &impl Environment,
    ) -> Result<(u64, u64), Stop> {
        // If the last tick was used up, all ids of a tick may be needed.
        let start = match is_busy {
            true => 0,
            false => env.random() % layout.start_spread(),
        };
        fresh(layout, tick, worker_id, start, count)
    }

    /// Called when the clock is no longer behind the last id.
    #[inline]
    fn caught_up(&self, last: u64) {
        if self.behind.load(Ordering::Relaxed) != 0 {
            self.behind.store(0, Ordering::Relaxed);
        }
        // Acquire: a caller that sees a lease's head start also sees its last id
        // below, and does not end the head start of another lease than that of `last`.
        let lead = self.start_lead.load(Ordering::Acquire);
        if lead != 0 && self.last.0.load(Ordering::Relaxed) == last {
            let _ = self
                .start_lead
                .compare_exchange(lead, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How far ids can be ahead of the clock, when the clock is behind the last id by
    /// `behind` microseconds.
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

    /// Begins a lease: from now on, only ids of its span are issued.
    ///
    /// `now` is the clock. If the span begins after it, ids are counted from the start
    /// of the span until the clock has caught up.
    pub fn install(&self, layout: &Layout, span: Span, now: SinceEpoch) {
        self.begin(layout, span, now, |_| span.from);
    }

    /// Like [`install`](Self::install), for a worker id that follows another one:
    /// begins above the last id, if the ceiling leaves room for that.
    pub fn install_above(&self, layout: &Layout, span: Span, now: SinceEpoch) {
        self.begin(layout, span, now, |last| {
            let above = layout.unpack(last).0.saturating_add(1);
            match above < span.ceiling {
                true => span.from.max(above),
                false => span.from,
            }
        });
    }

    /// Begins a lease; `from` returns the tick to begin with for a last id.
    fn begin(&self, layout: &Layout, span: Span, now: SinceEpoch, from: impl Fn(u64) -> u64) {
        self.ceiling.store(0, Ordering::Relaxed);
        let mut last = self.last.0.load(Ordering::Relaxed);
        let before = loop {
            let before = from(last).clamp(1, layout.ticks()) - 1;
            let first = layout.pack(before, span.worker_id, layout.ids_per_tick() - 1);
            // Release: a caller that sees this id sees no ceiling of an earlier
            // lease. An exchange, because calls in progress may still take an id.
            let swapped =
                self.last
                    .0
                    .compare_exchange(last, first, Ordering::AcqRel, Ordering::Relaxed);
            match swapped {
                Ok(_) => break before,
                Err(newer) => last = newer,
            }
        };
        let start_lead = ((before + 1) * layout.tick_us()).saturating_sub(now.as_us());
        // A wait for the next tick is not a head start.
        let ahead = before * layout.tick_us() > now.as_us();
        // Release: pairs with `caught_up`.
        self.start_lead
            .store(if ahead { start_lead } else { 0 }, Ordering::Release);
        self.behind.store(0, Ordering::Relaxed);
        self.extend(layout, span.ceiling, span.renew_at);
    }

    /// Raises the ceiling of the lease that is installed.
    pub fn extend(&self, layout: &Layout, ceiling: u64, renew_at: u64) {
        let id_at = |tick: u64, worker_id| layout.pack(tick.min(layout.ticks()), worker_id, 0);
        self.renew_at.store(id_at(renew_at, 0), Ordering::Relaxed);
        // Callers change the last id, but never its worker id.
        let (_, worker_id, _) = layout.unpack(self.last.0.load(Ordering::Relaxed));
        // Release: a caller that sees this ceiling sees no last id of an earlier
        // lease.
        self.ceiling
            .store(id_at(ceiling, worker_id), Ordering::Release);
    }

    /// Ends the lease: later calls get no id. A call in progress may still get one
    /// below the ceiling.
    pub fn fence(&self) {
        self.ceiling.store(0, Ordering::Release);
    }

    /// Ends the lease for good: no call gets an id any more, not even one in progress.
    /// Returns the first tick in which the lease has issued no id.
    pub fn end(&self, layout: &Layout) -> u64 {
        self.fence();
        let mut last = self.last.0.load(Ordering::Acquire);
        loop {
            let (tick, worker_id, sequence) = layout.unpack(last);
            let most = layout.ids_per_tick() - 1;
            // A call in progress can exchange only the last id that it has read. After the
            // very last one, no id follows.
            let sealed = match sequence < most {
                true => layout.pack(tick, worker_id, most),
                false if tick + 1 < layout.ticks() => layout.pack(tick + 1, worker_id, most),
                false => return tick + 1,
            };
            match self
                .last
                .0
                .compare_exchange(last, sealed, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return tick + 1,
                Err(newer) => last = newer,
            }
        }
    }

    /// Whether there is a lease.
    pub fn is_leased(&self) -> bool {
        self.ceiling.load(Ordering::Acquire) != 0
    }

    /// Whether the next id lies below the ceiling, if the clock shows `now`.
    pub fn has_room(&self, layout: &Layout, now: SinceEpoch) -> bool {
        let (tick, _, sequence) = layout.unpack(self.last.0.load(Ordering::Acquire));
        let used_up = sequence + 1 == layout.ids_per_tick();
        let next = (now.as_us() / layout.tick_us()).max(tick + u64::from(used_up));
        next < layout.unpack(self.ceiling.load(Ordering::Acquire)).0
    }

    /// Whether the ceiling is due to be raised.
    pub fn is_due(&self) -> bool {
        self.last.0.load(Ordering::Relaxed) >= self.renew_at.load(Ordering::Relaxed)
    }

    /// The tick of the last issued id. If the lease has issued none, the tick before
    /// its span.
    pub fn last_tick(&self, layout: &Layout) -> u64 {
        layout.unpack(self.last.0.load(Ordering::Acquire)).0
    }

    /// How often the clock was found to have gone back.
    pub fn rollbacks(&self) -> u64 {
        self.rollbacks.load(Ordering::Relaxed)
    }

    /// Ends the lease and resets the clock state and the count of rollbacks, for another
    /// registry.
    pub fn reset(&self) {
        self.fence();
        self.start_lead.store(0, Ordering::Relaxed);
        self.behind.store(0, Ordering::Relaxed);
        self.rollbacks.store(0, Ordering::Relaxed);
    }
}

/// Ids of a tick in which none was issued, from the sequence number `start` on.
#[inline]
fn fresh(
    layout: &Layout,
    tick: u64,
    worker_id: u64,
    start: u64,
    count: u64,
) -> Result<(u64, u64), Stop> {
    if tick >= layout.ticks() {
        return Err(Stop::TimeUsedUp);
    }
    let left = layout.ids_per_tick() - start;
    Ok((layout.pack(tick, worker_id, start), count.min(left)))
}
