//! The double buffer: two granted segments, consumed without a lock.
//!
//! # Tickets, not ids, are counted
//!
//! A buffer holds one ticket `cursor` that only grows, a `limit` (the first
//! ticket that no published segment covers) and two cells. A cell maps the
//! tickets `[first, end)` to the ids `[base, base + end - first)`. A *draw* takes
//! an id: it is one `fetch_add` on the cursor, followed by reading the cell that
//! covers the ticket. No ticket is returned twice. Therefore, a thread that sleeps
//! between the two steps can lose its ticket, which leaves a gap, but can never
//! repeat an id.
//!
//! # Who may call what
//!
//! [`draw`](DoubleBuffer::draw) and [`draw_many`](DoubleBuffer::draw_many) may
//! be called by any thread or process at any time. The functions that write a cell, the limit
//! or the epoch ([`publish`](DoubleBuffer::publish),
//! [`take_rest`](DoubleBuffer::take_rest),
//! [`bump_epoch`](DoubleBuffer::bump_epoch)) must be called by one caller at a
//! time, which holds a lock of the buffer's owner. A violation of this rule cannot
//! break memory safety, but it can repeat ids.
//!
//! # Rules that keep ids unique
//!
//! - Cursor and limit never decrease, not even when the buffer is assigned to
//!   another tag.
//! - A published segment starts at `max(limit, cursor)`: tickets beyond the limit,
//!   drawn while the buffer was empty, cost no ids.
//! - A cell is overwritten only after the cursor has passed its end.
//! - A caller that moves the cursor to the limit with `fetch_max` owns exactly the
//!   tickets in between.
//!
//! The idea of the double buffer comes from Meituan Leaf ("Leaf-segment").

use crate::run::Run;
use crate::sync::{AtomicU64, Ordering};

/// Maximum number of ids that one [`DoubleBuffer::draw_many`] takes. A caller that
/// is killed in the middle of a batch loses no more than this.
pub const MAX_DRAW: u64 = 1024;

/// The number, counted from 0, of the id in a segment of `len` ids at which the next
/// segment is due: `percent` percent of `len`, rounded down. Values above 100 count as
/// 100. The result is the argument `prefetch_after` of [`DoubleBuffer::publish`].
///
/// ```
/// use leaf_core::buffer::prefetch_after;
///
/// assert_eq!(prefetch_after(1_000, 10), 100);
/// assert_eq!(prefetch_after(1_000, 0), 0);
/// // Beyond the last id: the next segment is fetched when this one is used up.
/// assert_eq!(prefetch_after(1_000, 100), 1_000);
/// ```
pub fn prefetch_after(len: u64, percent: u64) -> u64 {
    let percent = percent.min(100);
    // In two parts, neither of which can overflow.
    len / 100 * percent + len % 100 * percent / 100
}

/// Value of `wake` for no prefetch: no ticket ever reaches it.
const NEVER: u64 = u64::MAX;

/// The tickets of a segment, and their ids.
///
/// No version number is needed, because every segment begins at or after the end of
/// all earlier ones. A reader loads `end` first and `first` last. If a writer changes
/// the cell in between, the reader has the `end` of an old segment and the `first` of
/// a later one: a range without tickets, so that the values are never used.
#[repr(C)]
#[derive(Debug)]
struct Cell {
    /// One past the last ticket covered; 0 before the first segment.
    end: AtomicU64,
    /// The number to add (wrapping) to a ticket to get its id.
    offset: AtomicU64,
    /// First ticket covered.
    first: AtomicU64,
}

/// The values that a reader found in a [`Cell`]: one segment, or a range that covers
/// no ticket.
#[derive(Clone, Copy, Debug, Default)]
struct View {
    end: u64,
    first: u64,
    offset: u64,
}

impl View {
    fn covers(&self, ticket: u64) -> bool {
        self.first <= ticket && ticket < self.end
    }

    fn id(&self, ticket: u64) -> i64 {
        ticket.wrapping_add(self.offset) as i64
    }
}

impl Cell {
    fn new() -> Self {
        Cell {
            end: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            first: AtomicU64::new(0),
        }
    }

    /// Reads the cell, in the opposite order of [`write`](Self::write).
    #[inline]
    fn read(&self) -> View {
        // Acquire: `offset` and `first` are at least as new as `end`.
        let end = self.end.load(Ordering::Acquire);
        // Acquire: `first` is at least as new as `offset`.
        let offset = self.offset.load(Ordering::Acquire);
        let first = self.first.load(Ordering::Relaxed);
        View { end, first, offset }
    }

    fn write(&self, view: View) {
        self.first.store(view.first, Ordering::Relaxed);
        // Release: a reader that sees this value sees no older `first`.
        self.offset.store(view.offset, Ordering::Release);
        // Release: a reader that sees this value sees no older `offset` or `first`.
        self.end.store(view.end, Ordering::Release);
    }
}

/// The two cells and the other values that a draw only reads: one cache line, written
/// once per segment.
#[repr(C, align(64))]
#[derive(Debug)]
struct Window {
    /// Changes whenever the buffer's ids are no longer those that callers were allowed
    /// to draw, for example because the buffer is assigned to another tag.
    epoch: AtomicU64,
    /// The ticket at which the next segment is due: the caller that draws it requests
    /// the segment.
    wake: AtomicU64,
    cells: [Cell; 2],
}

/// The cursor, in a cache line of its own, because every draw writes it. Beside it, in the line that
/// hardware fetches with it, is what draws hardly read; what all draws read is apart from both.
#[repr(C, align(64))]
#[derive(Debug)]
struct Cursor {
    /// The next ticket. Written by every draw.
    next: AtomicU64,
    _alone: [u64; 7],
    /// The first ticket after all published segments. Written by `publish`.
    limit: AtomicU64,
    /// Whether ids that were drawn ahead were used since [`DoubleBuffer::take_used`]: 1 or 0.
    used: AtomicU64,
    _rest: [u64; 6],
}

/// At most two runs of ids, ascending: the result of one access to the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    runs: [Option<Run>; 2],
}

impl Runs {
    /// The runs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Run> + use<> {
        self.runs.into_iter().flatten()
    }

    /// Number of ids in all runs together.
    pub fn len(&self) -> u64 {
        self.iter().map(|run| run.len).sum()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.runs[0].is_none()
    }

    /// The last ids without a gap between them: all, if the runs follow each other.
    pub fn last_consecutive(&self) -> Option<Run> {
        match self.runs {
            [Some(one), Some(two)] if one.end() == Some(two.first) => Some(Run {
                first: one.first,
                len: one.len + two.len,
            }),
            [one, two] => two.or(one),
        }
    }

    fn push(&mut self, run: Run) {
        let free = if self.runs[0].is_none() { 0 } else { 1 };
        self.runs[free] = Some(run);
    }
}

/// One id from [`DoubleBuffer::draw`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The id; no other draw returns it.
    pub id: i64,
    /// Whether this draw crossed the prefetch threshold. That is true for exactly one
    /// caller per segment, which must request the next segment.
    pub due: bool,
}

/// Ids from [`DoubleBuffer::draw_many`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnMany {
    /// The ids; never empty, unless they are of another epoch.
    pub runs: Runs,
    /// As [`Drawn::due`].
    pub due: bool,
}

/// Error of [`DoubleBuffer::publish`]: both cells hold unused ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The ids in a buffer at one moment; exact only while no caller draws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Ids left in the segment in use.
    pub current: u64,
    /// Ids in the next segment.
    pub next: u64,
    /// The id that the next draw returns, if there is one.
    pub position: Option<i64>,
}

/// Two segments of ids and the cursor of the draws; see the [module](self) for
/// the rules.
///
/// `#[repr(C)]` and without pointers: it can lie in memory that several processes
/// map at different addresses. A draw costs one `fetch_add`, and loads from a cache
/// line that is written only once per segment.
///
/// ```
/// use leaf_core::DoubleBuffer;
///
/// let buffer = DoubleBuffer::new();
/// assert!(buffer.draw().is_none());
/// buffer.publish(1_000, 500, 50).unwrap();
/// assert_eq!(buffer.draw().unwrap().id, 1_000);
/// assert_eq!(buffer.draw().unwrap().id, 1_001);
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct DoubleBuffer {
    cursor: Cursor,
    window: Window,
}

impl Default for DoubleBuffer {
    fn default() -> Self {
        Self::new()
    }
}

impl DoubleBuffer {
    /// An empty buffer at epoch 0.
    pub fn new() -> Self {
        DoubleBuffer {
            cursor: Cursor {
                next: AtomicU64::new(0),
                _alone: [0; 7],
                limit: AtomicU64::new(0),
                used: AtomicU64::new(0),
                _rest: [0; 6],
            },
            window: Window {
                epoch: AtomicU64::new(0),
                wake: AtomicU64::new(NEVER),
                cells: [Cell::new(), Cell::new()],
            },
        }
    }

    /// The buffer's epoch. Read it *after* a draw, and drop the ids if it is not the
    /// one for which the caller found out whose ids these are.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.window.epoch.load(Ordering::Acquire)
    }

    /// Draws one id, or `None` when the buffer is empty.
    ///
    /// A ticket that no segment covers is dropped: its cell was overwritten while the
    /// caller slept, or it was drawn beyond the limit. The limit is not compared first: the
    /// cursor's cache line would be transferred between cores once more, to save tickets,
    /// which cost nothing.
    #[inline]
    pub fn draw(&self) -> Option<Drawn> {
        loop {
            let ticket = self.ticket();
            if let Some(drawn) = self.with(ticket) {
                return Some(drawn);
            }
            if !self.recheck(ticket) {
                return None;
            }
        }
    }

    /// One attempt of [`draw`](Self::draw): `None`, too, if the ticket was dropped while ids are
    /// left. Without the loop, it needs fewer registers.
    #[inline]
    pub fn try_draw(&self) -> Option<Drawn> {
        self.with(self.ticket())
    }

    #[inline(always)]
    fn ticket(&self) -> u64 {
        // Acquire and release pair with the last line of `publish`: either
        // this caller sees the new `wake`, or the publisher sees that the
        // ticket is taken.
        self.cursor.next.fetch_add(1, Ordering::AcqRel)
    }

    /// The id of a ticket, if a segment covers it.
    #[inline(always)]
    fn with(&self, ticket: u64) -> Option<Drawn> {
        let due = ticket == self.window.wake.load(Ordering::Acquire);
        let mut views = self.window.cells.iter().map(Cell::read);
        let view = views.find(|view| view.covers(ticket))?;
        Some(Drawn {
            id: view.id(ticket),
            due,
        })
    }

    /// Draws up to `min(count, MAX_DRAW)` ids at once, or `None` when the
    /// buffer is empty. Takes no more tickets than there are ids.
    pub fn draw_many(&self, count: u64) -> Option<DrawnMany> {
        loop {
            let cursor = self.cursor.next.load(Ordering::Acquire);
            let left = self
                .cursor
                .limit
                .load(Ordering::Acquire)
                .saturating_sub(cursor);
            let take = count.min(left).min(MAX_DRAW);
            if take == 0 {
                return None;
            }
            let ticket = self.cursor.next.fetch_add(take, Ordering::AcqRel);
            let wake = self.window.wake.load(Ordering::Acquire);
            let runs = self.runs(ticket, ticket + take);
            if !runs.is_empty() {
                let due = ticket <= wake && wake < ticket + take;
                return Some(DrawnMany { runs, due });
            }
        }
    }

    /// Draws `count` ids at once, or `None` when there are fewer. A caller that slept while its
    /// ids were overwritten gets fewer, perhaps none.
    pub fn draw_all(&self, count: u64) -> Option<DrawnMany> {
        let mut ticket = self.cursor.next.load(Ordering::Acquire);
        loop {
            let limit = self.cursor.limit.load(Ordering::Acquire);
            let end = ticket.checked_add(count).filter(|&end| end <= limit)?;
            let taken = &self.cursor.next;
            match taken.compare_exchange(ticket, end, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let wake = self.window.wake.load(Ordering::Acquire);
                    return Some(DrawnMany {
                        runs: self.runs(ticket, end),
                        due: ticket <= wake && wake < end,
                    });
                }
                Err(now) => ticket = now,
            }
        }
    }

    /// As [`draw_many`](Self::draw_many), for a caller who found out at `epoch` whose ids these
    /// are: there are none in what is returned if another epoch has begun.
    pub fn draw_many_at(&self, epoch: u64, count: u64) -> Option<DrawnMany> {
        let mut drawn = self.draw_many(count)?;
        if self.epoch() != epoch {
            drawn.runs = Runs::default();
        }
        Some(drawn)
    }

    /// How many ids a caller who keeps `wanted` of them for itself may draw ahead: at most a tenth
    /// of the segment in use, and at least one.
    pub fn ahead(&self, wanted: u64) -> u64 {
        let cursor = self.cursor.next.load(Ordering::Acquire);
        let views = self.window.cells.iter().map(Cell::read);
        let in_use = views.into_iter().find(|view| view.covers(cursor));
        let len = in_use.map_or(0, |view| view.end - view.first);
        wanted.min(len / 10).max(1)
    }

    /// Records that an id that was drawn ahead is used.
    #[inline]
    pub fn note_use(&self) {
        if self.cursor.used.load(Ordering::Relaxed) == 0 {
            self.cursor.used.store(1, Ordering::Relaxed);
        }
    }

    /// Whether [`note_use`](Self::note_use) was called since the last call of this.
    pub fn take_used(&self) -> bool {
        self.cursor.used.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether a draw may succeed now. A waiting caller checks this before it draws
    /// again, so that waiting costs no tickets.
    pub fn has_ids(&self) -> bool {
        self.cursor.next.load(Ordering::Acquire) < self.cursor.limit.load(Ordering::Acquire)
    }

    /// A number that changes with every draw. It distinguishes a buffer in use from
    /// an idle one.
    pub fn drawn(&self) -> u64 {
        self.cursor.next.load(Ordering::Relaxed)
    }

    /// Whether the next segment should be fetched now: the prefetch threshold has
    /// been crossed, or no ids are left.
    pub fn is_due(&self) -> bool {
        let cursor = self.cursor.next.load(Ordering::Acquire);
        cursor > self.window.wake.load(Ordering::Acquire)
            || cursor >= self.cursor.limit.load(Ordering::Acquire)
    }

    /// Whether a segment could be published now.
    pub fn has_room(&self) -> bool {
        let cursor = self.cursor.next.load(Ordering::Acquire);
        self.free_cell(cursor).is_some()
    }

    /// Adds the ids `[base, base + len)`, to be drawn after all that were published
    /// before.
    ///
    /// The draw that takes id number `prefetch_after` of the segment (counted from 0)
    /// returns that the next segment is due; with a value of `len` or more, no draw
    /// does. See [`prefetch_after`]. Returns whether the threshold has already been
    /// crossed.
    ///
    /// The caller must hold the buffer's lock and own the ids. `len` must be at
    /// least 1, and `base + len` must fit into an `i64`.
    ///
    /// # Errors
    /// [`Full`] if both cells hold unused ids.
    pub fn publish(&self, base: i64, len: u64, prefetch_after: u64) -> Result<bool, Full> {
        debug_assert!(len > 0);
        let cursor = self.cursor.next.load(Ordering::Acquire);
        let first = cursor.max(self.cursor.limit.load(Ordering::Relaxed));
        let cell = self.free_cell(cursor).ok_or(Full)?;
        cell.write(View {
            end: first + len,
            first,
            offset: (base as u64).wrapping_sub(first),
        });
        self.cursor.limit.store(first + len, Ordering::Release);
        let wake = match prefetch_after < len {
            true => first + prefetch_after,
            false => NEVER,
        };
        self.window.wake.store(wake, Ordering::Release);
        // Adds 0, but, unlike a load, is ordered among the draws: every draw
        // either is counted here or sees `wake`.
        Ok(self.cursor.next.fetch_add(0, Ordering::AcqRel) > wake)
    }

    /// Takes all ids that are left; they cannot be drawn afterwards.
    ///
    /// If the result is dropped, the ids are lost. The caller must hold the buffer's
    /// lock.
    pub fn take_rest(&self) -> Runs {
        let limit = self.cursor.limit.load(Ordering::Relaxed);
        let from = self.cursor.next.fetch_max(limit, Ordering::AcqRel);
        self.runs(from.min(limit), limit)
    }

    /// Starts a new epoch: callers drop the ids that they drew in the old one. Returns
    /// the new epoch. The caller must hold the buffer's lock, and must call this
    /// before it writes a cell for the new epoch.
    pub fn bump_epoch(&self) -> u64 {
        self.window.epoch.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The ids left in the buffers, for monitoring.
    pub fn levels(&self) -> Levels {
        let cursor = self.cursor.next.load(Ordering::Acquire);
        let limit = self.cursor.limit.load(Ordering::Acquire);
        let rest = self.runs(cursor.min(limit), limit);
        let mut runs = rest.iter();
        let current = runs.next();
        Levels {
            current: current.map_or(0, |run| run.len),
            next: runs.next().map_or(0, |run| run.len),
            position: current.map(|run| run.first),
        }
    }

    /// Whether a ticket that no cell covers lies below the limit, that is, its cell was
    /// overwritten. Then ids may be left, and the draw is repeated.
    #[cold]
    fn recheck(&self, ticket: u64) -> bool {
        ticket < self.cursor.limit.load(Ordering::Acquire)
    }

    /// The cell to overwrite: one whose tickets have all been drawn.
    fn free_cell(&self, cursor: u64) -> Option<&Cell> {
        let end = |cell: &Cell| cell.end.load(Ordering::Relaxed);
        let oldest = self.window.cells.iter().min_by_key(|cell| end(cell))?;
        (end(oldest) <= cursor).then_some(oldest)
    }

    /// The ids of the tickets `[from, to)`, ascending. Tickets that no cell covers are
    /// left out.
    fn runs(&self, from: u64, to: u64) -> Runs {
        let [a, b] = &self.window.cells;
        let (a, b) = (a.read(), b.read());
        let mut runs = Runs::default();
        for view in if a.first <= b.first { [a, b] } else { [b, a] } {
            let (first, end) = (view.first.max(from), view.end.min(to));
            if first < end {
                runs.push(Run {
                    first: view.id(first),
                    len: end - first,
                });
            }
        }
        runs
    }
}
