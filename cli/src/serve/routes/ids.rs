//! `/v1/segment/{tag}`, `/v1/snowflake` and `/v1/decode/{id}`.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::Response;
use jiff::Timestamp;
use serde::Serialize;

use crate::serve::answer;
use crate::serve::app::App;
use crate::serve::problem::{self, Problem};
use crate::serve::query::{self, Wanted};
use crate::serve::tokens::Right;

pub async fn segment(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    let tag = query::tag(query::last_segment(request.uri().path()))?;
    app.allow(request.headers(), Right::Tag(&tag))?;
    let wanted = Wanted::of(request.uri(), request.headers(), app.max_count)?;
    let drawn = app.tags.draw(&tag, wanted.count).await?;
    Ok(wanted.format.answer(drawn.ids()))
}

pub async fn snowflake(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Snowflake)?;
    let wanted = Wanted::of(request.uri(), request.headers(), app.max_count)?;
    let drawn = app.draw_snowflakes(wanted.count).await?;
    Ok(wanted.format.answer(drawn.ids()))
}

#[derive(Serialize)]
struct Fields {
    id: String,
    created_at: String,
    worker_id: i32,
    sequence: i32,
}

pub async fn decode(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Snowflake)?;
    let id: i64 = query::last_segment(request.uri().path())
        .parse()
        .map_err(|_| problem::BAD_ID)?;
    let fields = app.decode(id).await?;
    let fields = Fields {
        id: id.to_string(),
        created_at: written(fields.created_at)?,
        worker_id: fields.worker_id,
        sequence: fields.sequence,
    };
    Ok(answer::json(
        serde_json::to_vec(&fields).map_err(|_| problem::INTERNAL)?,
    ))
}

/// An instant as RFC 3339 writes it.
fn written(instant: SystemTime) -> Result<String, Problem> {
    let instant = Timestamp::try_from(instant).map_err(|_| problem::BAD_ID)?;
    Ok(instant.to_string())
}

/// What the benchmark compares with: the same work but for the ids, which are always the same.
pub async fn constant(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    /// As long as the ids of a tag that has been used for a while.
    const ONE: &[u8] = b"{\"ids\":[\"123456789\"]}\n";
    static HUNDRED: std::sync::LazyLock<Bytes> = std::sync::LazyLock::new(|| {
        let ids = vec!["\"123456789\""; 100].join(",");
        Bytes::from(format!("{{\"ids\":[{ids}]}}\n"))
    });
    let tag = query::tag(query::last_segment(request.uri().path()))?;
    app.allow(request.headers(), Right::Tag(&tag))?;
    let wanted = Wanted::of(request.uri(), request.headers(), app.max_count)?;
    Ok(answer::json(match wanted.count {
        1 => Bytes::from_static(ONE),
        _ => HUNDRED.clone(),
    }))
}
