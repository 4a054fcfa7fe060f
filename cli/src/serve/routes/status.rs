//! `/healthz`, `/readyz`, `/metrics`, `/v1/status` and `/v1/forget`.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::serve::answer;
use crate::serve::app::App;
use crate::serve::measures;
use crate::serve::problem::Problem;
use crate::serve::tokens::Right;

pub const NOT_READY: &str = "not ready: no ids are at hand\n";

/// The process answers.
pub async fn healthz() -> Response {
    answer::text("ok\n")
}

/// Ids are at hand.
pub async fn readyz(State(app): State<Arc<App>>) -> Response {
    match app.is_ready() {
        true => answer::text("ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, NOT_READY).into_response(),
    }
}

pub const FORGOTTEN: &str = "forgotten\n";

/// Snapshots of this process have the same memory.
pub async fn forget(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Forget)?;
    app.leaf.forget().map_err(|error| Problem::from(&error))?;
    Ok(answer::text(FORGOTTEN))
}

pub async fn metrics(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Status)?;
    let tags = app.tags.all();
    for (name, tag) in &tags {
        measures::show_tag(name, &tag.source.stats());
    }
    measures::show_reachable(app.leaf.health().is_reachable == Some(true));
    let is_served = |tag: &str| {
        tags.binary_search_by(|(name, _)| name.as_str().cmp(tag))
            .is_ok()
    };
    let mut response = answer::text(measures::of_served(&app.recorded.render(), is_served));
    let format = axum::http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response
        .headers_mut()
        .insert(axum::http::header::CONTENT_TYPE, format);
    Ok(response)
}

// What the page shows. Why something has failed is in the log: such texts name hosts and roles.
// What rustdoc is told of a field, the description tells callers.
#[derive(Serialize, ToSchema)]
pub struct Status {
    version: &'static str,
    uptime_seconds: u64,
    is_ready: bool,
    /// null if it was not asked yet.
    #[schema(required)]
    is_database_reachable: Option<bool>,
    #[schema(inline)]
    tags: Vec<TagStatus>,
    #[schema(inline)]
    snowflake: SnowflakeStatus,
}

#[derive(Serialize, ToSchema)]
struct TagStatus {
    name: String,
    /// Ids at hand.
    buffered: u64,
    /// Buffers fetched.
    refills: u64,
    waiting: u64,
    waits: u64,
    longest_wait_ms: f64,
    /// Whether a refill has failed since the start; the log says why.
    has_failed: bool,
    /// Grows with every id that is handed out.
    issued: String,
}

#[derive(Serialize, ToSchema)]
struct SnowflakeStatus {
    #[schema(required)]
    worker_id: Option<i32>,
    #[schema(required, format = DateTime)]
    ceiling: Option<String>,
    renewals: u64,
    rollbacks: u64,
    waits: u64,
    longest_wait_ms: f64,
    has_failed: bool,
    issued: String,
}

pub async fn status(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Status)?;
    let tags = app.tags.all().into_iter().map(|(name, tag)| {
        let stats = tag.source.stats();
        TagStatus {
            name,
            buffered: stats.buffered,
            refills: stats.refills,
            waiting: stats.waiting,
            waits: stats.waits,
            longest_wait_ms: stats.longest_wait.as_secs_f64() * 1_000.0,
            has_failed: stats.last_error.is_some(),
            issued: tag.issued.total().to_string(),
        }
    });
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: app.began.elapsed().as_secs(),
        is_ready: app.is_ready(),
        is_database_reachable: app.leaf.health().is_reachable,
        tags: tags.collect(),
        snowflake: of_snowflakes(&app),
    };
    answer::object(&status)
}

fn of_snowflakes(app: &App) -> SnowflakeStatus {
    let stats = app.snowflake.stats();
    let written = |ceiling| {
        Timestamp::try_from(ceiling)
            .ok()
            .map(|ceiling| ceiling.to_string())
    };
    SnowflakeStatus {
        worker_id: stats.worker_id,
        ceiling: stats.ceiling.and_then(written),
        renewals: stats.renewals,
        rollbacks: stats.rollbacks,
        waits: stats.waits,
        longest_wait_ms: stats.longest_wait.as_secs_f64() * 1_000.0,
        has_failed: stats.last_error.is_some(),
        issued: app.snowflakes_issued.total().to_string(),
    }
}
