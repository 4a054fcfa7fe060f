//! Drawing segment ids, and blocks of them for buffers outside the server.

use leaf_core::Run;
use leaf_core::buffer::Drawn;
use pgrx::pg_sys;

use super::args;
use crate::error::Report;
use crate::pg::call::{Call, Datum, describe_function, sql_functions};
use crate::pg::rows::Record;
use crate::pg::{datum, display, report};
use crate::session::batch::Batch;
use crate::session::patience::{Ids, Patience};
use crate::session::tags::{self, KnownTag, Origin};
use crate::session::upstream::{self, Fed};
use crate::session::{blocks, draw, own_grants};
use crate::shmem;

describe_function!(leaf_segment_next);
sql_functions!(
    leaf_segment_batch,
    leaf_segment_last,
    leaf_segment_reserve,
    leaf_segment_return,
    leaf_segment_return_all,
    leaf_segment_feed,
    leaf_tag_incarnation
);

/// The next id of a tag. This is the fast path.
///
/// While the tag has ids and nothing has changed, this is three comparisons, a
/// `fetch_add` and a read of one cache line: no SPI, no allocation, no lock, and
/// no call that pgrx would have to guard. Ids that the session has taken ahead take no
/// `fetch_add`. The first call of an execution also finds the session's record of the tag.
///
/// # Safety
/// Called by PostgreSQL as a strict function of one `text` argument.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_segment_next(fcinfo: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: PostgreSQL's promise about `fcinfo`; only known tags are left at the call
    // site. What is not guarded does not panic: the session's records are borrowed only in
    // `tags`, where nothing else runs meanwhile.
    unsafe {
        let call = Call::new(fcinfo);
        if let Some(known) = known_tag(call)
            && known.is_good()
        {
            return match known.shared() {
                None => match known.cache.next() {
                    Some(id) => drawn(known, id),
                    None => refill(known, call),
                },
                Some(slot) => match slot.buffer.try_draw() {
                    Some(Drawn { due: true, id }) => drawn_and_due(known, id, call),
                    Some(it) if slot.buffer.epoch() == known.epoch() => drawn(known, it.id),
                    _ => next_guarded(call),
                },
            };
        }
        next_guarded(call)
    }
}

#[inline(always)]
fn drawn(known: &KnownTag, id: i64) -> Datum {
    known.drew(id);
    Datum::from(id)
}

// The rest of the fast path is not inlined, and nothing follows it: so the path saves few
// registers.

/// An id with which the slot's next segment is due.
///
/// # Safety
/// As for [`leaf_segment_next`].
#[cold]
#[inline(never)]
unsafe fn drawn_and_due(known: &KnownTag, id: i64, call: Call<'_>) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        report::guarded(|| draw::request_segment(known.number()));
        match known.shared() {
            Some(slot) if slot.buffer.epoch() == known.epoch() => drawn(known, id),
            _ => next_guarded(call),
        }
    }
}

/// The next id of a session that takes ids ahead and has none left.
///
/// # Safety
/// As for [`leaf_segment_next`].
#[inline(never)]
unsafe fn refill(known: &KnownTag, call: Call<'_>) -> Datum {
    // SAFETY: the caller's promise.
    unsafe {
        if known.cache.fill() == Some(true) {
            report::guarded(|| draw::request_segment(known.number()));
        }
        match known.cache.next() {
            Some(id) => drawn(known, id),
            None => next_guarded(call),
        }
    }
}

/// The next id, if something has to be looked up or waited for.
///
/// # Safety
/// As for [`leaf_segment_next`].
#[cold]
#[inline(never)]
unsafe fn next_guarded(call: Call<'_>) -> Datum {
    // SAFETY: the caller's promise.
    unsafe { report::guarded(|| Datum::from(next_slowly(call))) }
}

/// The session's record of the tag of the call, if it has drawn from it.
///
/// # Safety
/// As for [`leaf_segment_next`].
#[inline(always)]
unsafe fn known_tag(call: Call<'_>) -> Option<&'static KnownTag> {
    // SAFETY: the caller's promise.
    match unsafe { call.site::<KnownTag>() } {
        Some(site) if site.is_constant => Some(site.value),
        // SAFETY: as above.
        site => unsafe { find_known(call, site.map(|site| site.value)) },
    }
}

/// As [`known_tag`], if the tag is not a constant of the query, or this is the first call;
/// `before` is the tag of the call before.
///
/// # Safety
/// As for [`leaf_segment_next`].
#[inline(never)]
unsafe fn find_known(
    call: Call<'_>,
    before: Option<&'static KnownTag>,
) -> Option<&'static KnownTag> {
    // SAFETY: the caller's promise.
    unsafe {
        let tag = datum::plain_text(call.strict_arg(0));
        if let Some(before) = before
            && tag == Some(before.tag())
        {
            return Some(before);
        }
        let known = tags::known(tag?)?;
        if before.is_none() {
            call.set_site(known, 0);
        }
        Some(known)
    }
}

/// Like [`leaf_segment_next`], if something has to be looked up or waited for.
#[cold]
fn next_slowly(call: Call<'_>) -> i64 {
    let tag = args::tag(call.text(0));
    let patience = Patience::new(Ids::OfTag(tag));
    let (incarnation, id) = loop {
        match tags::resolve(tag, &patience) {
            Origin::Own(incarnation) => break (incarnation, own_grants::take(tag, 1).first),
            Origin::Slot(from) => {
                if let Some(id) = draw::draw_ahead(&from, tag, &patience) {
                    break (from.incarnation, id);
                }
            }
        }
    };
    tags::know(tag).drew_from(incarnation, id);
    id
}

/// The last id of a tag that this session drew.
fn leaf_segment_last(call: Call<'_>) -> i64 {
    let tag = args::tag(call.text(0));
    let incarnation = blocks::incarnation(tag);
    let last = tags::known(tag).and_then(|known| known.last_of(incarnation));
    last.unwrap_or_else(|| {
        // When: `leaf_segment_last` before the first draw
        Report::not_ready(
            format!("no id of tag \"{}\" was drawn in this session", display(tag)),
            "Draw one with leaf_segment_next or leaf_segment_batch first, or use INSERT ... RETURNING.",
        )
        .raise()
    })
}

/// Any number of ascending ids.
fn leaf_segment_batch(call: Call<'_>) -> Datum {
    call.each(|| {
        let (tag, count) = (args::tag(call.text(0)), args::count(call.integer(1)));
        shmem::require();
        Batch::new(tag, count)
    })
}

/// A block of consecutive ids. Not a record: `(f()).*` would call the function for each
/// column, and mix blocks.
fn leaf_segment_reserve(call: Call<'_>) -> Option<Run> {
    let (tag, count) = (call.text(0)?, call.bigint(1)?);
    let (tag, len) = (args::tag(Some(tag)), args::block_length(count));
    let first = blocks::reserve(tag, len, call.uuid(2));
    Some(Run { first, len })
}

/// Takes back the unused end of a block, if nothing was granted after it.
fn leaf_segment_return(call: Call<'_>) -> bool {
    let (tag, unused) = (args::tag(call.text(0)), args::block(call.bigint_range(1)));
    blocks::give_back(tag, unused)
}

/// Takes back the unused ends of blocks of several tags, each as [`leaf_segment_return`]. One that
/// cannot be taken back hinders no other.
fn leaf_segment_return_all(call: Call<'_>) -> Datum {
    call.each(|| {
        let unused = args::unused(call.texts(0), call.bigints(1), call.bigints(2));
        blocks::give_back_all(&unused).into_iter()
    })
}

/// Numbers for tags of another cluster that are fed from this one: a row for each, with its numbers
/// or with an error.
fn leaf_segment_feed(call: Call<'_>) -> Datum {
    call.each(|| {
        args::require_from_clause(call, "leaf_segment_feed");
        let tags = args::fed_tags(call.texts(0));
        let asked = args::feeds(&tags, call.bigints(1), call.booleans(2));
        let feeds: Vec<_> = asked.iter().flatten().copied().collect();
        let mut fed = upstream::feed(&feeds).into_iter();
        let outcomes = asked.into_iter().filter_map(|asked| match asked {
            Ok(_) => fed.next(),
            Err(error) => Some(Err(error)),
        });
        let tags = tags.iter().map(|tag| tag.map(<[u8]>::to_vec));
        let rows: Vec<_> = tags.zip(outcomes).collect();
        rows.into_iter()
            .map(|(tag, outcome)| feed_row(tag, outcome))
    })
}

fn feed_row(tag: Option<Vec<u8>>, outcome: Result<Fed, Report>) -> Record {
    let (fed, error) = (outcome.as_ref().ok(), outcome.as_ref().err());
    let last = |run: &Run| run.first.saturating_add_unsigned(run.len).saturating_sub(1);
    Record::new()
        .with("tag", tag)
        .with("first", fed.map(|(run, _)| run.first))
        .with("last", fed.map(|(run, _)| last(run)))
        .with("incarnation", fed.map(|(_, incarnation)| *incarnation))
        .with("error_code", error.map(Report::sqlstate))
        .with("message", error.map(|it| it.message.clone()))
        .with("detail", error.and_then(|it| it.detail.clone()))
        .with("hint", error.map(|it| it.hint.clone()))
}

/// The identity of a tag's row.
fn leaf_tag_incarnation(call: Call<'_>) -> [u8; 16] {
    blocks::incarnation(args::tag(call.text(0)))
}
