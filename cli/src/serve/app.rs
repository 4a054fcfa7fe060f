//! What all requests share.

use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwapOption;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use leaf_sdk::{Decoded, Error, IdSource, Leaf, SnowflakeGenerator, SnowflakeId};
use metrics_exporter_prometheus::PrometheusHandle;

use super::answer::Drawn;
use super::measures::Issued;
use super::problem::{self, Problem};
use super::tags::Tags;
use super::tokens::{Right, Tokens};

/// What all requests share.
pub struct App {
    pub leaf: Leaf,
    pub tags: Tags,
    pub snowflake: SnowflakeGenerator,
    pub snowflakes_issued: Issued,
    /// Whether there is to be a worker id before anybody asks for an id.
    pub needs_worker_id: bool,
    /// None if nobody needs a token.
    pub tokens: ArcSwapOption<Tokens>,
    /// Whether it listens for programs of this machine only.
    pub is_local: bool,
    pub recorded: PrometheusHandle,
    pub max_count: u32,
    pub tinyid_segment: u32,
    /// How long a request waits for ids.
    pub wait: Duration,
    pub began: Instant,
}

impl App {
    /// Whether callers without a token have rights.
    pub fn serves_anybody(&self) -> bool {
        let tokens = self.tokens.load();
        tokens.as_ref().is_none_or(|tokens| tokens.serve_anybody())
    }

    /// Whether the token in the header `Authorization` allows this.
    pub fn allow(&self, headers: &HeaderMap, right: Right<'_>) -> Result<(), Problem> {
        match &*self.tokens.load() {
            None if matches!(right, Right::Forget) && !self.is_local => Err(problem::TOKEN_MISSING),
            None => Ok(()),
            Some(tokens) => tokens.check(bearer(headers), right),
        }
    }

    /// The same, for a token that may also be a parameter, which precedes the header.
    pub fn allow_parameter(
        &self,
        token: Option<&str>,
        headers: &HeaderMap,
        right: Right<'_>,
    ) -> Result<(), Problem> {
        match (&*self.tokens.load(), token) {
            (None, _) => Ok(()),
            (Some(tokens), Some(token)) => tokens.check(Some(token.as_bytes()), right),
            (Some(tokens), None) => tokens.check(bearer(headers), right),
        }
    }

    /// Snowflake ids, ascending.
    pub async fn draw_snowflakes(&self, count: usize) -> Result<Drawn<SnowflakeId>, Problem> {
        let ids = &self.snowflake;
        let at_hand = match count {
            1 => ids.try_next().map(Drawn::One),
            _ => None,
        };
        let drawn = match at_hand {
            Some(drawn) => drawn,
            None if count == 1 => {
                self.in_time(async { ids.next_async().await.map(Drawn::One) })
                    .await?
            }
            None => {
                self.in_time(async { ids.next_n_async(count).await.map(Drawn::Many) })
                    .await?
            }
        };
        self.snowflakes_issued.add(count);
        Ok(drawn)
    }

    /// The fields of a snowflake id. The first lease tells the layout.
    pub async fn decode(&self, id: i64) -> Result<Decoded, Problem> {
        let knows_layout = || self.snowflake.decode(SnowflakeId::new(0)).is_some();
        if !knows_layout() {
            self.in_time(self.snowflake.ready_async()).await?;
        }
        self.snowflake
            .decode(SnowflakeId::new(id))
            .ok_or(problem::BAD_ID)
    }

    /// Waits for the generator of snowflake ids.
    async fn in_time<T>(
        &self,
        drawing: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Problem> {
        match tokio::time::timeout(self.wait, drawing).await {
            Ok(Ok(drawn)) => Ok(drawn),
            Ok(Err(Error::Permission(_))) => Err(problem::LEASE_PERMISSION),
            Ok(Err(error)) => Err(Problem::from(&error)),
            Err(_) => Err(problem::NO_IDS),
        }
    }

    /// Whether there is a worker id, if one is needed, and ids are at hand: of all tags that were
    /// named at the start, or, if none was, of a tag that is served; without one, whether the
    /// database answers.
    pub fn is_ready(&self) -> bool {
        let has_ids = |name: &str| {
            self.tags
                .served(name)
                .is_some_and(|tag| tag.source.stats().buffered > 0)
        };
        let may_issue = |ceiling| ceiling > SystemTime::now();
        if self.needs_worker_id && !self.snowflake.stats().ceiling.is_some_and(may_issue) {
            return false;
        }
        if self.tags.named().next().is_some() {
            return self.tags.named().all(has_ids);
        }
        let is_reachable = self.leaf.health().is_reachable == Some(true);
        is_reachable || self.tags.all().iter().any(|(name, _)| has_ids(name))
    }
}

/// The token of a request.
pub fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}
