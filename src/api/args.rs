//! The arguments of SQL functions: what is checked before anything is done, and the
//! errors if it is wrong.

use std::ffi::{CStr, CString};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use leaf_core::Run;
use leaf_core::grant::Stripe;
use leaf_core::mask::{KEY_LENGTH, Key, Width};
use leaf_core::snowflake::Layout;
use leaf_core::snowflake::lease::PROPOSED;
use leaf_core::tag::MAX_CHARS;
use leaf_core::time::WallTime;
use pgrx::PgSqlErrorCode as Code;

use crate::catalog::permissions::PUBLIC;
use crate::error::{Report, bad_argument};
use crate::lease::{self, Proof};
use crate::pg::call::{Call, Interval};
use crate::pg::{clock, datum, display, role};
use crate::session::error;
use crate::session::upstream::Feed;
use crate::settings::{segment, snowflake as settings};

/// How far ahead of the clock the ceiling of a node may be.
const AHEAD: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_hours(24);

/// Of how many tags a shard can ask for numbers in one call.
const MOST_FED: usize = 1_000;

/// The longest name of a node, in characters.
const MAX_NODE: usize = 256;

/// The longest description of a tag, in characters.
const MAX_DESCRIPTION: usize = 256;

/// Raises the error for an argument out of its range.
pub fn raise_bad(message: impl Into<String>, hint: &'static str) -> ! {
    bad_argument(message, hint).raise()
}

/// Raises an error unless the function is called in FROM. In a select list, `(f()).*` calls
/// it once for each column of the result.
pub fn require_from_clause(call: Call<'_>, function: &'static str) {
    if !call.is_in_from_clause() {
        // When: functions that return a record and change something: in a select list,
        // `(function(...)).*` would call them once for each column
        Report::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("{function} must be called in FROM"),
            format!("Use SELECT * FROM {function}(...)."),
        )
        .detail(
            "In a select list, (function(...)).* would call it once for each column of the result.",
        )
        .raise();
    }
}

/// An argument that has a default and must not be NULL.
pub fn given<T>(argument: Option<T>, name: &str) -> T {
    argument.unwrap_or_else(|| {
        // When: an argument that has a default or must be given is NULL
        raise_bad(
            format!("{name} must not be null"),
            "Leave the argument out to get its default.",
        )
    })
}

/// A tag that is neither empty nor too long.
pub fn tag(tag: Option<&[u8]>) -> &[u8] {
    check_tag(tag).unwrap_or_else(|error| error.raise())
}

fn check_tag(tag: Option<&[u8]>) -> Result<&[u8], Report> {
    let hint = "Specify a tag, such as 'orders'.";
    match tag {
        // When: functions that take a tag
        None => Err(bad_argument("tag must not be null", hint)),
        // When: functions that take a tag
        Some([]) => Err(bad_argument("tag must not be empty", hint)),
        // Only a text with more bytes than a tag has characters can be too long.
        Some(tag) if tag.len() > MAX_CHARS && datum::characters(tag) > MAX_CHARS => {
            let hint = "A tag has at most 128 characters.";
            // When: functions that take a tag
            Err(bad_argument("tag is too long", hint))
        }
        Some(tag) => Ok(tag),
    }
}

/// A number of ids.
pub fn count(count: Option<impl Into<i64>>) -> u64 {
    let count = given(count, "count").into();
    check_count(count).unwrap_or_else(|error| error.raise())
}

fn check_count(count: i64) -> Result<u64, Report> {
    match u64::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        // When: `leaf_segment_batch`, `leaf_snowflake_batch`, `leaf_segment_reserve`
        _ => Err(bad_argument(
            format!("count must be at least 1, not {count}"),
            "Ask for one id or more.",
        )),
    }
}

/// A number of ids in a segment.
pub fn step(step: i32) -> i32 {
    if step < 1 {
        // When: `leaf_tag_create`, `leaf_tag_alter`
        raise_bad(
            format!("step must be at least 1, not {step}"),
            "A step is the number of ids fetched at once; 1000 is a good value to start with.",
        );
    }
    step
}

/// The largest number of ids in a segment; 0 if the setting applies.
pub fn max_step(max_step: Option<i32>) -> Option<i32> {
    if let Some(most) = max_step
        && most < 0
    {
        // When: `leaf_tag_create`, `leaf_tag_alter`
        raise_bad(
            format!("max_step must not be negative: {most}"),
            "Specify the largest number of ids to fetch at once, or 0 for leaf.max_step.",
        );
    }
    max_step
}

/// How many ids a session takes at once.
pub fn cache(cache: i32) -> i32 {
    if !(1..=1024).contains(&cache) {
        // When: `leaf_tag_create`, `leaf_tag_alter`
        raise_bad(
            format!("cache must be from 1 to 1024, not {cache}"),
            "A cache is the number of ids that a session takes at once; 1 keeps the ids of all sessions in order.",
        );
    }
    cache
}

/// A stripe of the numbers, with the width of its blocks or the default one; `None` if it is
/// not given.
pub fn stripe(stripes: Option<i32>, stripe: Option<i32>, width: Option<i64>) -> Option<Stripe> {
    let hint = "Give both, such as stripes => 64, stripe => 3 for the fourth of 64 stripes, which are numbered from 0.";
    let (stripes, stripe) = match (stripes, stripe) {
        (Some(stripes), Some(stripe)) => (stripes, stripe),
        (None, None) if width.is_none() => return None,
        // When: `leaf_tag_create`
        (None, None) => raise_bad("stripe_width is given without stripes and stripe", hint),
        // When: `leaf_tag_create`
        (Some(_), None) => raise_bad("stripes is given without stripe", hint),
        // When: `leaf_tag_create`
        (None, Some(_)) => raise_bad("stripe is given without stripes", hint),
    };
    if stripes < 1 {
        // When: `leaf_tag_create`
        raise_bad(
            format!("stripes must be at least 1, not {stripes}"),
            "Choose the largest number of nodes that there may ever be, such as 64.",
        );
    }
    if !(0..stripes).contains(&stripe) {
        // When: `leaf_tag_create`
        raise_bad(
            format!("stripe must be from 0 to {}, not {stripe}", stripes - 1),
            "Stripes are numbered from 0; no two nodes may have the same one.",
        );
    }
    let width = width.unwrap_or(Stripe::WIDTH);
    if width < 1 {
        // When: `leaf_tag_create`
        raise_bad(
            format!("stripe_width must be at least 1, not {width}"),
            "It is the number of ids in a block of a stripe; 1000000 is a good value.",
        );
    }
    let found = Stripe::new(stripes, stripe, width);
    found.or_else(|| {
        // When: `leaf_tag_create`
        raise_bad(
            format!("{stripes} blocks of stripe_width {width} are longer than bigint"),
            "Choose a smaller stripe_width or fewer stripes: their product can be at most 9223372036854775807.",
        )
    })
}

/// The description of a tag.
pub fn description(description: Option<&[u8]>) -> Option<&[u8]> {
    if description.is_some_and(|text| datum::characters(text) > MAX_DESCRIPTION) {
        // When: `leaf_tag_create`, `leaf_tag_alter`
        raise_bad(
            "description is too long",
            "A description has at most 256 characters.",
        );
    }
    description
}

/// The name to store for an owner: the current role, or one whose privileges it has.
pub fn owner(name: Option<&CStr>) -> CString {
    let Some(name) = name else {
        return role::name_of(role::current());
    };
    let Some(owner) = role::by_name(name) else {
        let role = display(name.to_bytes());
        error::no_such_role(&role).raise()
    };
    if !role::has_privileges_of(role::current(), owner) {
        // When: `leaf_tag_create` with `owner`
        Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("must be a member of role \"{}\"", display(name.to_bytes())),
            "Name a role of which the current one is a member, or leave the owner out.",
        )
        .raise();
    }
    name.to_owned()
}

/// The name to store for a grantee: that of a role, or `public`.
pub fn grantee(role: Option<&CStr>) -> CString {
    let name = role.unwrap_or_else(|| {
        // When: `leaf_tag_grant`, `leaf_tag_revoke`
        raise_bad(
            "role must not be null",
            "Specify a role, or use PUBLIC for all roles.",
        )
    });
    if role::by_name(name).is_some() {
        return name.to_owned();
    }
    if is_public(name) {
        return PUBLIC.to_owned();
    }
    let role = display(name.to_bytes());
    error::no_such_role(&role).raise()
}

/// Whether a name stands for all roles, unless a role has it.
pub fn is_public(name: &CStr) -> bool {
    name.to_bytes().eq_ignore_ascii_case(PUBLIC.to_bytes())
}

/// The number of ids in a block.
pub fn block_length(count: i64) -> u64 {
    check_block_length(count).unwrap_or_else(|error| error.raise())
}

fn check_block_length(count: i64) -> Result<u64, Report> {
    let (length, most) = (check_count(count)?, segment::max_reserve());
    match length > most {
        // When: `leaf_segment_reserve`, `leaf_segment_feed`
        true => Err(bad_argument(
            format!("count must be at most {most}, not {length}"),
            "Reserve several blocks; leaf.max_reserve sets how many ids one block can have.",
        )),
        false => Ok(length),
    }
}

/// The tags of which a shard asks for numbers.
pub fn fed_tags(tags: Option<Vec<Option<&[u8]>>>) -> Vec<Option<&[u8]>> {
    let hint = "Specify tags, such as '{orders,parcels}'.";
    // When: `leaf_segment_feed`
    let tags = tags.unwrap_or_else(|| raise_bad("tags must not be null", hint));
    if tags.len() > MOST_FED {
        // When: `leaf_segment_feed`
        raise_bad(
            format!("there can be at most {MOST_FED} tags, not {}", tags.len()),
            "Ask for the others in another call.",
        );
    }
    tags
}

/// The request of a shard for each tag: a number of ids, which may be 0, and whether fewer are of no use.
pub fn feeds<'t>(
    tags: &[Option<&'t [u8]>],
    counts: Option<Vec<Option<i64>>>,
    exact: Option<Vec<Option<bool>>>,
) -> Vec<Result<Feed<'t>, Report>> {
    let hint = "Give the arrays an element for each tag.";
    // When: `leaf_segment_feed`
    let counts = counts.unwrap_or_else(|| raise_bad("counts must not be null", hint));
    let exact = exact.unwrap_or_else(|| vec![Some(false); tags.len()]);
    if counts.len() != tags.len() || exact.len() != tags.len() {
        // When: `leaf_segment_feed`
        raise_bad(
            "tags, counts and exact must have the same number of elements",
            hint,
        );
    }
    let each = tags.iter().zip(counts).zip(exact);
    each.map(|((tag, count), exact)| feed(*tag, count, exact))
        .collect()
}

fn feed<'t>(
    tag: Option<&'t [u8]>,
    count: Option<i64>,
    exact: Option<bool>,
) -> Result<Feed<'t>, Report> {
    let missing = |name| bad_argument(format!("{name} must not be null"), "Give one for each tag.");
    Ok(Feed {
        tag: check_tag(tag)?,
        count: match count.ok_or_else(|| missing("count"))? {
            0 => 0,
            count => check_block_length(count)?,
        },
        exact: exact.ok_or_else(|| missing("exact"))?,
    })
}

/// The ids of the end of a block.
pub fn block(block: Option<Range<Option<i64>>>) -> Run {
    let hint = "Give the unused end of a block that leaf_segment_reserve has returned, such as '[201,301)'.";
    let block = given(block, "block");
    let (Some(first), Some(end)) = (block.start, block.end) else {
        // When: `leaf_segment_return`
        raise_bad("block must have a lower and an upper bound", hint);
    };
    if end <= first {
        // When: `leaf_segment_return`
        raise_bad("block must not be empty", hint);
    }
    Run {
        first,
        len: end.abs_diff(first),
    }
}

/// The unused ends of blocks of tags, in the order of the arrays; `None` for one that cannot be.
pub fn unused(
    tags: Option<Vec<Option<&[u8]>>>,
    firsts: Option<Vec<Option<i64>>>,
    lasts: Option<Vec<Option<i64>>>,
) -> Vec<Option<(&[u8], Run)>> {
    let tags = given(tags, "tags");
    let (firsts, lasts) = (given(firsts, "first"), given(lasts, "last"));
    if firsts.len() != tags.len() || lasts.len() != tags.len() {
        // When: `leaf_segment_return` of several blocks
        raise_bad(
            "tags, first and last must have the same number of elements",
            "Give the arrays an element for each block.",
        );
    }
    let each = tags.into_iter().zip(firsts).zip(lasts);
    each.map(|((tag, first), last)| {
        let (first, last) = (first?, last.filter(|&last| Some(last) >= first)?);
        let len = last.abs_diff(first) + 1;
        Some((check_tag(tag).ok()?, Run { first, len }))
    })
    .collect()
}

/// A layout by its name.
pub fn layout(name: Option<&[u8]>) -> Layout {
    let name = display(given(name, "layout"));
    name.parse().unwrap_or_else(|error| {
        // When: `leaf_snowflake_decode` and others, with a layout
        raise_bad(
            format!("unknown layout: {error}"),
            "Use one of the layouts that leaf.snowflake_layout accepts.",
        )
    })
}

/// The name of a node that is not a server.
pub fn node(node: Option<&[u8]>) -> String {
    let node = node.unwrap_or_default();
    if node.is_empty() || datum::characters(node) > MAX_NODE {
        // When: `leaf_worker_register`
        raise_bad(
            "the name of a node must have 1 to 256 characters",
            "Choose a name that identifies the node to a reader of leaf.worker.",
        );
    }
    if node.starts_with(lease::SERVER.as_bytes()) {
        // When: `leaf_worker_register`
        raise_bad(
            format!(
                "names of nodes that begin with \"{}\" are reserved",
                lease::SERVER
            ),
            "Choose another name; these are used for servers.",
        );
    }
    display(node)
}

/// The worker id that a node requires, if any.
pub fn wanted_worker_id(worker_id: Option<i32>) -> Option<u64> {
    worker_id.map(|worker_id| {
        u64::try_from(worker_id).unwrap_or_else(|_| {
            // When: `leaf_worker_register`
            raise_bad(
                format!("worker id {worker_id} is negative"),
                "Leave it out to lease any worker id, or specify one of the layout.",
            )
        })
    })
}

/// An instant, if it is given.
pub fn instant(at: Option<WallTime>, name: &str) -> Option<WallTime> {
    if at.is_some_and(|at| !clock::is_finite(at)) {
        // When: a time given to a `leaf_worker_` function
        raise_bad(
            format!("{name} must not be infinite"),
            "Give an instant, such as clock_timestamp().",
        );
    }
    at
}

/// How far ahead of the clock a ceiling should be.
pub fn ahead(ahead: Option<Interval>) -> Duration {
    let Some(ahead) = ahead else {
        return settings::ceiling_ahead();
    };
    match ahead.length() {
        Some(length) if AHEAD.contains(&length) => length,
        // When: `leaf_worker_register`, `leaf_worker_renew`
        _ => raise_bad(
            "ahead is out of range",
            "A ceiling can be from 100 milliseconds to one day ahead.",
        ),
    }
}

/// The next token of a lease, which must be another one than `token`; a random one if it is
/// not given.
pub fn next_token(next: Option<i64>, token: i64) -> i64 {
    let next = next.unwrap_or_else(lease::random_token);
    if next == token || !PROPOSED.contains(&next) {
        // When: `leaf_worker_renew`
        raise_bad(
            "next_token must be from 2 to 9223372036854775806 and differ from token",
            "Propose a random number that was not used for this lease before.",
        );
    }
    next
}

/// How many bits masked ids have.
pub fn mask_width(bits: i32) -> Width {
    Width::of(bits).unwrap_or_else(|| {
        // When: `leaf_mask`, `leaf_unmask`
        raise_bad(
            format!("bits must be 64, 63 or 53, not {bits}"),
            "Use 64 for all ids, 63 for ids and masked ids from 0 on, or 53 for masked ids that JavaScript represents exactly.",
        )
    })
}

/// The key of a mask, of which no error quotes a part.
pub fn mask_key(key: &[u8]) -> &Key {
    key.try_into().unwrap_or_else(|_| {
        // When: `leaf_mask`, `leaf_unmask`
        raise_bad(
            format!("key must have {KEY_LENGTH} bytes, not {}", key.len()),
            "Make it of random bytes and keep it secret, such as openssl rand -hex 32 prints them.",
        )
    })
}

/// The proof that a lease is the caller's.
pub fn proof(worker_id: Option<i32>, nonce: Option<[u8; 16]>, token: Option<i64>) -> Proof {
    let (Some(worker_id), Some(nonce), Some(token)) = (worker_id, nonce, token) else {
        // When: `leaf_worker_renew`, `leaf_worker_release`
        raise_bad(
            "worker id, nonce and token must not be null",
            "Give what leaf_worker_register and the last leaf_worker_renew returned.",
        );
    };
    Proof {
        worker_id: i64::from(worker_id),
        nonce,
        token,
    }
}
