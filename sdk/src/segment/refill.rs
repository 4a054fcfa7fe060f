//! The background tasks of a tag: fetching blocks and returning unused ids.

use std::sync::Arc;

use super::tag::{Rest, Tag};
use crate::Error;
use crate::calls::statement;
use crate::events::TARGET;
use crate::gate::Attempt;
use crate::link::Link;

/// Fetches buffers until there is no room, or until that fails permanently.
pub(super) async fn refill(link: Arc<Link>, tag: Arc<Tag>) {
    loop {
        let filled = refill_until_full(&link, &tag).await;
        tag.end_refill();
        if let Err((attempt, error)) = filled {
            tag.gate.failed_permanently(attempt, &error);
            return;
        }
        // A caller that has crossed the threshold meanwhile relies on this refill.
        if !tag.needs_ids() || !tag.begin_refill() {
            return;
        }
    }
}

/// An error is that of an attempt that failed permanently.
async fn refill_until_full(link: &Link, tag: &Tag) -> Result<(), (Attempt, Error)> {
    let mut pauses = link.pauses();
    let mut is_repeated = false;
    while tag.needs_ids() {
        let count = tag.next_step(&link.config);
        let attempt = tag.gate.begin_attempt();
        match reserve(link, tag, count, is_repeated).await {
            Ok(()) => (pauses, is_repeated) = (link.pauses(), false),
            Err(error) => {
                is_repeated = true;
                let is_retryable = error.is_retryable();
                tracing::warn!(target: TARGET, tag = tag.name, %error, is_retryable, "refill failed");
                if !is_retryable {
                    return Err((attempt, error));
                }
                tag.gate.lock().failed(&error);
                if let Some(pause) = pauses.next() {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
    Ok(())
}

async fn reserve(link: &Link, tag: &Tag, mut count: u64, is_repeated: bool) -> Result<(), Error> {
    let name = tag.name.as_str();
    let (block, session) = loop {
        let wanted = count as i64;
        let statement = statement::segment_reserve(&name, &wanted);
        match link.query_in_session(statement, is_repeated).await {
            // The tag ends soon; a smaller block may still fit.
            Err(Error::Exhausted(_)) if count > 1 => count /= 2,
            answer => break answer?,
        }
    };
    tag.publish(&block, session, &link.config)?;
    tracing::debug!(target: TARGET, tag = name, first = %block.first, last = %block.last, "refilled");
    Ok(())
}

/// Closes the tag and returns its unused ids to the server, unless it has granted
/// ids above them since.
pub(crate) async fn hand_back(link: &Link, tag: &Tag) -> Result<(), Error> {
    let name = tag.name.as_str();
    let mut result = Ok(());
    for rest in tag.close() {
        let Rest {
            first,
            last,
            session,
        } = rest;
        if session.is_closed() {
            // Only that session could have returned the ids: they are lost.
            continue;
        }
        let statement = statement::segment_return(&name, &first, &last);
        match link.query_in(&session, statement).await {
            Ok(true) => tracing::debug!(target: TARGET, tag = name, %first, %last, "handed back"),
            // Ids above these have been granted.
            Ok(false) => break,
            Err(error) => result = Err(error),
        }
    }
    result
}
