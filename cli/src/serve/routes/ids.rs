//! `/v1/segment/{tag}`, `/v1/snowflake` and `/v1/decode/{id}`.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::serve::answer;
use crate::serve::app::App;
use crate::serve::problem::{self, Problem};
use crate::serve::query::{self, InPath, Wanted};
use crate::serve::tokens::Right;

pub async fn segment(
    State(app): State<Arc<App>>,
    tag: InPath,
    request: Request,
) -> Result<Response, Problem> {
    let tag = query::tag(tag)?;
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

#[derive(Serialize, ToSchema)]
pub struct Fields {
    id: String,
    #[schema(format = DateTime)]
    created_at: String,
    worker_id: i32,
    sequence: i32,
}

pub async fn decode(
    State(app): State<Arc<App>>,
    id: InPath,
    request: Request,
) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Snowflake)?;
    let Path(id) = id.map_err(|_| problem::BAD_ID)?;
    let id: i64 = id.parse().map_err(|_| problem::BAD_ID)?;
    let fields = app.decode(id).await?;
    let fields = Fields {
        id: id.to_string(),
        created_at: written(fields.created_at)?,
        worker_id: fields.worker_id,
        sequence: fields.sequence,
    };
    answer::object(&fields)
}

/// An instant as RFC 3339 writes it.
fn written(instant: SystemTime) -> Result<String, Problem> {
    let instant = Timestamp::try_from(instant).map_err(|_| problem::BAD_ID)?;
    Ok(instant.to_string())
}
