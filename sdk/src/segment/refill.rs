//! The background tasks of a tag: fetching blocks and returning unused ids.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;

use super::tag::{Published, Rest, Tag};
use super::tags::Tags;
use crate::Error;
use crate::background::caught;
use crate::calls::internal;
use crate::events::TARGET;
use crate::gate::Attempt;
use crate::link::{Link, Session};

/// The longest pause after a refusal: callers wait for the next attempt, because the
/// reason may be gone.
const LONGEST_REFUSAL: Duration = Duration::from_secs(1);

/// Fetches buffers until there is no room, until that fails permanently, or until nobody wants
/// the ids of a tag that has had none yet.
pub(super) async fn refill(link: Arc<Link>, tag: Arc<Tag>, tags: Weak<Tags>) {
    // A tag without another user is idle.
    let weak = Arc::downgrade(&tag);
    let refilled = caught(refill_all(&link, tag, tags)).await;
    if let (Err(error), Some(tag)) = (refilled, weak.upgrade()) {
        tag.pause(link.pauses().next().unwrap_or_default()).await;
        tag.end_refill();
        tag.gate.lock().failed(&error);
        tag.gate.wake();
    }
}

/// An error is that of a panic.
async fn refill_all(link: &Link, tag: Arc<Tag>, tags: Weak<Tags>) -> Result<(), Error> {
    loop {
        let filled = refill_until_full(link, &tag, &tags).await;
        if let Err((attempt, error)) = filled {
            tag.end_wants();
            tag.gate.failed_permanently(attempt, &error);
            // Callers ask again as soon as this ends.
            let pause = link.pauses().nth(tag.refused()).unwrap_or_default();
            tag.pause(pause.min(LONGEST_REFUSAL)).await;
            tag.end_refill();
            tag.gate.wake();
            return Ok(());
        }
        tag.end_refill();
        // A caller that has crossed the threshold meanwhile relies on this refill.
        if !tag.needs_ids() || Arc::strong_count(&tag) == 1 || !tag.begin_refill() {
            return Ok(());
        }
    }
}

/// An error is that of an attempt that failed permanently.
async fn refill_until_full(
    link: &Link,
    tag: &Arc<Tag>,
    tags: &Weak<Tags>,
) -> Result<(), (Attempt, Error)> {
    let mut pauses = link.pauses();
    let mut is_repeated = false;
    loop {
        tag.use_spare();
        if !tag.needs_ids() {
            break;
        }
        let attempt = tag.gate.begin_attempt();
        match reserve(link, tag, is_repeated).await {
            Ok(()) => {
                if let Some(tags) = tags.upgrade() {
                    tags.register(tag);
                }
                (pauses, is_repeated) = (link.pauses(), false);
            }
            Err(error) => {
                is_repeated = true;
                let is_retryable = error.is_retryable();
                // Not under the lock: a subscriber may ask for the health.
                let is_news = tag.gate.lock().is_news(&error);
                match is_news {
                    true => {
                        tracing::warn!(target: TARGET, tag = tag.name, %error, is_retryable, "refill failed")
                    }
                    false => {
                        tracing::debug!(target: TARGET, tag = tag.name, %error, "refill failed again")
                    }
                }
                if !is_retryable {
                    return Err((attempt, error));
                }
                tag.gate.lock().failed(&error);
                if let Some(pause) = pauses.next() {
                    tag.pause(pause).await;
                }
                // It is not registered, and has no source.
                if Arc::strong_count(tag) == 1 {
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn reserve(link: &Link, tag: &Tag, is_repeated: bool) -> Result<(), Error> {
    let name = tag.name.as_str();
    let forgotten = tag.forgotten();
    let mut count = tag.next_step(&link.config);
    let mut was_another = false;
    let (reserved, session) = loop {
        let statement = internal::segment_fetch(name, count as i64);
        match link.query_in_session(statement, is_repeated).await {
            // The tag ends soon; a smaller block may still fit.
            Err(Error::Exhausted(_)) if count > 1 => count /= 2,
            // It may have been dropped and created again at this very moment.
            Err(error) if is_another(&error) && !was_another => was_another = true,
            answer => break answer?,
        }
    };
    let (incarnation, block) = reserved.parts();
    let (first, last) = (block.first, block.last);
    match tag.publish(&block, incarnation, session, forgotten)? {
        Published::Drawable => {
            tracing::debug!(target: TARGET, tag = name, %first, %last, "refilled");
        }
        Published::NewLife => {
            tracing::warn!(target: TARGET, tag = name, %first, %last,
                "the tag was created again; ids of the earlier one are discarded");
        }
        Published::Forgotten => {
            tracing::info!(target: TARGET, tag = name, %first, %last, "not used, because ids were forgotten");
        }
        Published::Closed(rest) => {
            hand_back_rests(link, vec![(name.to_owned(), rest)]).await?;
        }
    }
    Ok(())
}

/// Whether the tag may have been created again while a block of it was reserved.
fn is_another(error: &Error) -> bool {
    error.sqlstate() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
}

/// Closes tags and returns their unused ids to the server, unless it has granted ids above them
/// since.
pub(crate) async fn hand_back(link: Arc<Link>, tags: Vec<Arc<Tag>>) -> Result<(), Error> {
    let (mut rests, mut refilling) = (Vec::new(), JoinSet::new());
    for tag in tags {
        let of_tag = tag.close().into_iter();
        let of_tag: Vec<_> = of_tag.map(|rest| (tag.name.clone(), rest)).collect();
        if !tag.is_refilling() {
            rests.extend(of_tag);
            continue;
        }
        let link = link.clone();
        refilling.spawn(async move {
            // A block on its way is returned before the others, because it is above them.
            tag.refill_ended().await;
            hand_back_rests(&link, of_tag).await
        });
    }
    let mut result = hand_back_rests(&link, rests).await;
    while let Some(done) = refilling.join_next().await {
        result = done.unwrap_or(Err(Error::Closed)).and(result);
    }
    result
}

/// Returns unused ids to the server, unless it has granted ids above them since: those of each
/// session in one statement. Only the session that has reserved ids can return them, if the
/// edition takes any back.
pub(super) async fn hand_back_rests(link: &Link, rests: Vec<(String, Rest)>) -> Result<(), Error> {
    let mut sessions: Vec<Arc<Session>> = Vec::new();
    for (_, rest) in &rests {
        if !sessions
            .iter()
            .any(|session| Arc::ptr_eq(session, &rest.session))
        {
            sessions.push(rest.session.clone());
        }
    }
    let mut result = Ok(());
    for session in sessions {
        let of_session = rests
            .iter()
            .filter(|(_, rest)| Arc::ptr_eq(&rest.session, &session));
        let of_session: Vec<_> = of_session.collect();
        let taken = match session.is_closed() || session.is_plain() {
            true => Ok(Vec::new()),
            false => {
                let each = of_session.iter();
                let tags = each.clone().map(|(tag, _)| tag.clone()).collect();
                let firsts = each.clone().map(|(_, rest)| rest.first.get()).collect();
                let lasts = each.map(|(_, rest)| rest.last.get()).collect();
                let statement = internal::segment_return("", tags, firsts, lasts);
                link.query_in(&session, statement).await
            }
        };
        let taken = taken.unwrap_or_else(|error| {
            result = Err(error);
            Vec::new()
        });
        let taken = taken.into_iter().chain(std::iter::repeat(false));
        for ((tag, Rest { first, last, .. }), is_taken) in of_session.into_iter().zip(taken) {
            match is_taken {
                true => tracing::debug!(target: TARGET, tag, %first, %last, "handed back"),
                false => tracing::info!(target: TARGET, tag, %first, %last, "not handed back"),
            }
        }
    }
    result
}
