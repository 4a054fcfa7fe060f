//! The upkeep of tags: confirming that buffered ids are
//! still those of the tag, and forgetting tags that are not used.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::refill::{hand_back, hand_back_rests};
use super::tag::Tag;
use super::tags::Tags;
use crate::Error;
use crate::background::caught;
use crate::calls::internal;
use crate::events::TARGET;
use crate::link::Link;

/// How often to look after the tags, if the configuration does not require more.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// After how long a tag is forgotten that nobody has drawn from, and that has no source any more.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Looks after the tags as long as they exist.
pub(crate) async fn look_after(link: Arc<Link>, tags: Weak<Tags>) {
    let config = &link.config;
    let pause = (config.max_buffer_age / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        tokio::time::sleep(pause).await;
        let Some(tags) = tags.upgrade() else {
            return;
        };
        // A panic ends this look, not those to come.
        let _ = caught(async { look(&link, &tags) }).await;
    }
}

fn look(link: &Arc<Link>, tags: &Tags) -> Result<(), Error> {
    link.close_surplus();
    for tag in tags.remove_idle(FORGOTTEN_AFTER) {
        tracing::debug!(target: TARGET, tag = tag.name, "forgotten");
        let link = link.clone();
        // Ids that cannot be returned are lost.
        tokio::spawn(async move { hand_back(link, vec![tag]).await });
    }
    for tag in tags.all() {
        let link = link.clone();
        if needs_confirmation(&link, &tag) {
            tokio::spawn(async move { confirm(&link, &tag).await });
        }
    }
    Ok(())
}

/// Whether half of the time has passed for which ids may be held without asking.
fn needs_confirmation(link: &Link, tag: &Tag) -> bool {
    tag.held()
        .is_some_and(|(_, at)| at.elapsed() > link.config.max_buffer_age / 2)
}

/// Asks whether the tag still is the one whose ids are buffered. If it is not, or if
/// that could not be found out for too long, the ids are discarded.
async fn confirm(link: &Link, tag: &Tag) {
    let Some((incarnation, confirmed_at)) = tag.held() else {
        return;
    };
    let asked_at = Instant::now();
    let name = tag.name.as_str();
    let asked = internal::tag_incarnation(name);
    let reason = match link.query(asked).await {
        Ok(current) if current.as_ref() == Some(&incarnation.0) => {
            return tag.confirm(&incarnation, asked_at);
        }
        Ok(_) => "the tag was created again".into(),
        Err(Error::Closed) => return,
        Err(error)
            if error.is_retryable() && confirmed_at.elapsed() <= link.config.max_buffer_age =>
        {
            return;
        }
        Err(error) => error.to_string(),
    };
    // Meanwhile, a block of the new life may have come.
    if tag
        .held()
        .is_some_and(|(current, _)| current != incarnation)
    {
        return;
    }
    tracing::warn!(target: TARGET, tag = name, reason, "ids are discarded");
    let rests = tag.discard().into_iter();
    let rests = rests.map(|rest| (tag.name.clone(), rest)).collect();
    let _ = hand_back_rests(link, rests).await;
}
