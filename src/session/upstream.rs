//! Tags of several clusters: a tag that is fed gets its ids from a tag of the centre. Here a tag
//! becomes one, and the centre gives numbers to those of its shards.
//!
//! A tag is fed because of its row, not of a setting: without `leaf.upstream` it has no ids, and
//! in a dump or a copy it is still fed. Of its numbers, only the lower bound `max_id` is stored.
//! No file keeps them over a restart, because it would be copied along: each copy of a shard has
//! to ask the centre.

use std::time::Duration;

use leaf_core::Run;
use leaf_core::grant::{Decision, GrantRequest, Grantor};
use pgrx::PgSqlErrorCode as Code;

use super::changes::{self, RowState};
use super::key::key;
use super::patience::{Ids, Patience};
use super::{asking, error, frontier, permissions};
use crate::catalog::permissions::Readable;
use crate::catalog::{self, alloc};
use crate::error::Report;
use crate::pg::{display, process, replication, role};
use crate::settings::{server, upstream as settings};
use crate::shmem;
use crate::shmem::key::KeyRef;
use crate::shmem::mailbox::{Answer, Ask, LoaderRequest};
use crate::shmem::text::Text;
use crate::shmem::upstream::Denial;

/// Attaches a tag to a tag of the centre, whose name is in UTF-8 and in the database's
/// encoding.
pub fn attach(tag: &[u8], upstream_tag: &[u8], upstream_name: &str) {
    let patience = Patience::new(Ids::OfTag(tag));
    let found = ask(key(tag), upstream_name, &patience);
    let (position, incarnation) =
        found.unwrap_or_else(|denial| error::of_denial(tag, denial).raise());
    catalog::as_owner(|| {
        let Some(row) = frontier::lock(tag) else {
            error::no_such_tag(tag).raise();
        };
        if row.position.numbers.stripe().width().is_some() {
            // When: `leaf_tag_attach` of a tag with a stripe
            Report::not_ready(
                format!("tag \"{}\" cannot be fed and have a stripe", display(tag)),
                "Let the tag of the centre have the stripe; the centre divides its numbers among the tags that it feeds.",
            )
            .raise();
        }
        if row.incarnation == incarnation {
            // When: `leaf_tag_attach` where `leaf.upstream` leads to this database
            Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{}\" cannot be fed by itself", display(tag)),
                "Set leaf.upstream to a connection string of the centre: it leads to this database.",
            )
            .raise();
        }
        let max_id = row.position.max_id;
        if position < max_id {
            // When: `leaf_tag_attach` of a tag that has granted more than the centre
            Report::new(
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the centre's tag \"{}\" is behind tag \"{}\"", display(upstream_tag), display(tag)),
                format!("Move it with leaf_tag_alter(advance_to => {max_id}) or further at the centre, above the ids of all shards."),
            )
            .detail(format!("Ids below {max_id} have been granted here; the centre could grant them again."))
            .raise();
        }
        alloc::attach(tag, upstream_tag, incarnation);
    });
}

/// Has the loader ask the centre where its tag stands, and for the tag's identity.
fn ask(
    key: KeyRef<'_>,
    tag_of_centre: &str,
    patience: &Patience<'_>,
) -> Result<(i64, [u8; 16]), Denial> {
    let ask = Ask::of(
        key,
        [0; 16],
        LoaderRequest::Position(Text::of(tag_of_centre)),
    );
    loop {
        if settings::upstream().is_none() {
            return Err(Denial::NoUpstream);
        }
        let answer = asking::ask_loader_all(&[ask], patience, Duration::MAX).pop();
        match answer.expect("at least one was posted") {
            Ok(Answer::Position(setting, found)) if setting == settings::digest() => return found,
            Err(cause) if !patience.had_loader() => patience.give_up(cause),
            _ if patience.is_over() => return Err(Denial::Away),
            // One of the two has not read the configuration file again yet.
            _ => patience.nap(),
        }
    }
}

/// How long a shard waits for a tag that cannot be granted now, for example because its row is
/// locked. It has asked for others in the same call.
const WAIT_IF_FAILED: Duration = Duration::from_millis(100);

/// For how many tags the loader is asked at once.
const AT_ONCE: usize = 256;

/// The request of a shard to a tag.
#[derive(Clone, Copy, Debug)]
pub struct Feed<'t> {
    pub tag: &'t [u8],
    /// How many numbers; 0 to find out only where the tag stands.
    pub count: u64,
    /// Whether fewer are of no use.
    pub exact: bool,
}

/// The numbers for a tag of another cluster, and the identity of the tag here. Without numbers, the
/// run begins where the tag stands.
pub type Fed = (Run, [u8; 16]);

/// Numbers for tags of another cluster, or why there are none for a tag: that has no part in what
/// becomes of the others.
pub fn feed(feeds: &[Feed<'_>]) -> Vec<Result<Fed, Report>> {
    shmem::require();
    asking::require_grants();
    require_choice();
    let patience = Patience::new(Ids::OfTags);
    let parts = feeds.chunks(AT_ONCE);
    parts
        .flat_map(|feeds| feed_part(feeds, &patience))
        .collect()
}

/// An error unless somebody has said what a failover of this centre may lose.
fn require_choice() {
    if settings::allow_unreplicated_centre() {
        return;
    }
    if !replication::has_synchronous_standby() {
        // When: at a centre whose `synchronous_standby_names` is empty
        Report::not_ready(
            "this server feeds no tags, because it has no synchronous standby",
            "Set synchronous_standby_names; or leaf.allow_unreplicated_centre, after whose failover feeding stops until leaf_tag_vouch is called.",
        )
        .raise();
    }
    if !server::lossless_failover() {
        // When: at a centre, before its first feed
        Report::not_ready(
            "this server feeds no tags, because nothing says whether a failover loses what it has fed",
            "Set leaf.lossless_failover if no standby is promoted that lacks a confirmed commit; or leaf.allow_unreplicated_centre, after whose failover feeding stops until leaf_tag_vouch is called.",
        )
        .raise();
    }
}

fn feed_part(feeds: &[Feed<'_>], patience: &Patience<'_>) -> Vec<Result<Fed, Report>> {
    let mut outcomes: Vec<_> = feeds.iter().map(|_| None).collect();
    loop {
        // Each tag is looked up once, and again if its row has changed.
        let (mut asks, mut asked) = (Vec::new(), Vec::new());
        let readable = permissions::wait_until_readable(patience);
        for (feed, outcome) in feeds.iter().zip(&mut outcomes) {
            if outcome.is_some() {
                continue;
            }
            match check(&readable, feed) {
                Ok((incarnation, None)) => {
                    let (count, exact) = (feed.count, feed.exact);
                    let wanted = LoaderRequest::Grant(GrantRequest::Feed { count, exact });
                    asks.push(Ask::of(key(feed.tag), incarnation, wanted));
                    asked.push((feed.tag, incarnation, outcome));
                }
                Ok((incarnation, Some(first))) => {
                    *outcome = Some(Ok((Run { first, len: 0 }, incarnation)));
                }
                Err(report) => *outcome = Some(Err(report)),
            }
        }
        drop(readable);
        if asks.is_empty() {
            return outcomes.into_iter().flatten().collect();
        }
        let mut asked = asked.into_iter();
        let mut left = &asks[..];
        while !left.is_empty() {
            process::check_for_interrupts();
            let answers = match patience.is_over() {
                true => left.iter().map(|_| Err(None)).collect(),
                false => asking::ask_loader_all(left, patience, WAIT_IF_FAILED),
            };
            left = &left[answers.len()..];
            // In this order, so that no tag is taken for which there is no answer.
            for (answer, (tag, incarnation, outcome)) in answers.into_iter().zip(&mut asked) {
                *outcome = meaning(tag, incarnation, answer, patience);
            }
        }
    }
}

/// The meaning of an answer of the loader; `None` if the tag has to be looked up again.
fn meaning(
    tag: &[u8],
    incarnation: [u8; 16],
    answer: Result<Answer, Option<String>>,
    patience: &Patience<'_>,
) -> Option<Result<Fed, Report>> {
    Some(match answer {
        Ok(Answer::Decided(Decision::Granted { run, .. })) => Ok((run, incarnation)),
        Ok(Answer::Decided(Decision::Exhausted)) => Err(frontier::exhausted(tag)),
        Ok(Answer::Denied(denial)) => Err(error::of_denial(tag, denial)),
        Ok(Answer::Decided(Decision::MayLackFeeds)) => {
            // When: at a centre that was promoted, restored or copied, or whose row was, and for
            // which nobody has vouched since
            Err(Report::not_ready(
                format!("tag \"{}\" may have fed numbers that are not in its row", display(tag)),
                "Find the highest number that any shard has got (max_id in leaf.alloc there), and move the tag past it with leaf_tag_alter(advance_to => ...); or, if nothing was lost, say so with leaf_tag_vouch.",
            )
            .detail("The server was promoted, restored or copied, or the row was, and nobody has vouched for the tag since."))
        }
        Ok(_) => return None,
        Err(cause) => Err(too_late(tag, cause, patience)),
    })
}

/// Why a tag has no numbers in time, with what the loader has failed at, if it has.
fn too_late(tag: &[u8], cause: Option<String>, patience: &Patience<'_>) -> Report {
    match cause {
        // When: `leaf_segment_feed`, for a tag whose row is locked, or for another reason that
        // DETAIL has
        Some(cause) => Report::new(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            format!("tag \"{}\" cannot feed at the moment", display(tag)),
            "Remove the cause and try again.",
        )
        .detail(format!("The last attempt failed: {cause}.")),
        None => patience.too_late(Ids::OfTag(tag), None),
    }
}

/// The identity of the tag if the current role may feed from it, and, if no numbers are asked for,
/// where it stands.
fn check(readable: &Readable, feed: &Feed<'_>) -> Result<([u8; 16], Option<i64>), Report> {
    let tag = feed.tag;
    loop {
        let permissions = permissions::find_to_draw(readable, tag, role::current())?;
        if permissions.grantor == Grantor::Centre {
            return Err(error::is_fed(tag));
        }
        // The ids of a tag that is not committed die with it.
        if permissions.is_uncommitted || changes::state_of(tag) != RowState::Committed {
            return Err(error::own_change(tag));
        }
        if feed.count > 0 {
            return Ok((permissions.incarnation, None));
        }
        if let Some(position) = catalog::as_owner(|| alloc::position(tag)) {
            return Ok((permissions.incarnation, Some(position.max_id)));
        }
    }
}
