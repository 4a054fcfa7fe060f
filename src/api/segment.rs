//! Drawing ids: `leaf_segment_next`, `leaf_segment_batch`.

use std::collections::VecDeque;

use leaf_core::buffer::Run;
use leaf_core::tag::MAX_CHARS;
use pgrx::iter::SetOfIterator;
use pgrx::prelude::*;
use pgrx::{AnyElement, pg_sys};

use crate::error::Error;
use crate::patience::Patience;
use crate::pg::call::{self, Call};
use crate::pg::{self, args};
use crate::session::{self, Entry, SharedSource, Source};
use crate::transaction;
use crate::waiting;

#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_leaf_segment_next() -> &'static pg_sys::Pg_finfo_record {
    &pg::V1
}

/// The next id of a tag: the path that must cost nothing.
///
/// While the tag has ids and nothing has changed, this is three comparisons, a
/// `fetch_add` and a read of one cache line: no SPI, no allocation, no lock, and
/// no call that pgrx would have to guard. The first call of an execution also
/// finds the session's entry for the tag.
///
/// # Safety
/// Called by PostgreSQL as a strict function of one `text` argument.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_segment_next(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: PostgreSQL's promise about `fcinfo`; nothing but entries is left
    // at the call site.
    unsafe {
        let call = Call::new(fcinfo);
        if let Some(entry) = entry_of(call)
            && entry.is_good()
            && let Some(slot) = entry.slot()
            && let Some(drawn) = slot.buffer.draw()
        {
            if drawn.due {
                call::guarded(|| waiting::request_load(entry.number()));
            }
            if slot.buffer.epoch() == entry.epoch() {
                return pg_sys::Datum::from(drawn.id);
            }
        }
        call::guarded(|| pg_sys::Datum::from(next_slowly(call)))
    }
}

/// This session's entry for the tag of the call, if it has one.
///
/// # Safety
/// As [`leaf_segment_next`].
#[inline(always)]
unsafe fn entry_of(call: Call) -> Option<&'static Entry> {
    // SAFETY: the caller's promise.
    unsafe {
        let site = call.site::<Entry>();
        if let Some(site) = &site
            && (site.is_constant || args::plain_text(call.arg(0)) == Some(site.value.tag()))
        {
            return Some(site.value);
        }
        let entry = session::known(args::plain_text(call.arg(0))?)?;
        if site.is_none() {
            call.set_site(entry, 0);
        }
        Some(entry)
    }
}

/// As [`leaf_segment_next`] when anything has to be found out or waited for.
///
/// # Safety
/// As [`leaf_segment_next`].
#[cold]
unsafe fn next_slowly(call: Call) -> i64 {
    // SAFETY: a strict function's argument is a valid text.
    let tag = checked(unsafe { args::text(call.arg(0)) });
    let patience = Patience::new();
    loop {
        match session::resolve(tag, &patience) {
            Source::Private => return transaction::take(tag, 1).first,
            Source::Shared(source) => {
                if let Some(id) = waiting::draw(&source, tag, &patience) {
                    return id;
                }
            }
        }
    }
}

/// The tag, if it can be one at all.
pub fn checked(tag: &[u8]) -> &[u8] {
    if tag.is_empty() {
        bad_argument("tag must not be empty", "Name a tag, such as 'orders'.");
    }
    // Only a text with more bytes than a tag has characters can be too long.
    if tag.len() > MAX_CHARS && args::characters(tag) > MAX_CHARS {
        bad_argument("tag is too long", "A tag has at most 128 characters.");
    }
    tag
}

/// A number of ids to draw.
pub fn checked_count(count: i64) -> u64 {
    if count < 1 {
        bad_argument(
            format!("count must be at least 1, not {count}"),
            "Ask for one id or more.",
        );
    }
    count as u64
}

/// Raises the error for an argument out of its range.
pub fn bad_argument(message: impl Into<String>, hint: &'static str) -> ! {
    let message = message.into();
    Error::BadArgument { message, hint }.raise()
}

#[pg_extern(sql = false)]
fn leaf_segment_batch(tag: AnyElement, count: i32) -> SetOfIterator<'static, i64> {
    // SAFETY: a strict function's argument is a valid text.
    let tag = checked(unsafe { args::text(tag.datum()) }).to_vec();
    let left = checked_count(i64::from(count));
    session::shared();
    SetOfIterator::new(Batch {
        tag,
        left,
        drawn: VecDeque::with_capacity(2),
        drawn_from: None,
    })
}

/// The rest of a `leaf_segment_batch`: draws as it goes, so that a batch of any
/// size needs no more memory than one draw.
struct Batch {
    tag: Vec<u8>,
    left: u64,
    drawn: VecDeque<Run>,
    /// Under what `drawn` was drawn, if it may become void.
    drawn_from: Option<SharedSource>,
}

impl Iterator for Batch {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            return None;
        }
        // A cursor may stay open while the tag is dropped, or the role changes.
        if self
            .drawn_from
            .is_some_and(|source| !session::is_still_good(&self.tag, &source))
        {
            self.drawn.clear();
        }
        if self.drawn.is_empty() {
            pg::check_for_interrupts();
            self.draw();
        }
        let run = self.drawn.front_mut()?;
        let id = run.first;
        run.first += 1;
        run.len -= 1;
        if run.len == 0 {
            self.drawn.pop_front();
        }
        self.left -= 1;
        Some(id)
    }
}

impl Batch {
    fn draw(&mut self) {
        let patience = Patience::new();
        self.drawn_from = None;
        while self.drawn.is_empty() {
            match session::resolve(&self.tag, &patience) {
                Source::Private => self
                    .drawn
                    .push_back(transaction::take(&self.tag, self.left)),
                Source::Shared(source) => {
                    let runs = waiting::draw_many(&source, &self.tag, self.left, &patience);
                    self.drawn.extend(runs.iter().flat_map(|runs| runs.iter()));
                    self.drawn_from = Some(source);
                }
            }
        }
    }
}
