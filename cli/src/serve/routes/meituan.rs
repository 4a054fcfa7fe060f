//! The addresses of Meituan Leaf, answered as its `LeafController` and
//! `LeafMonitorController` do: a bare number, or status 500 with what Spring says of an exception.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::Response;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::Parameter;
use utoipa::{PartialSchema, ToSchema};

use crate::serve::answer::{self, Drawn};
use crate::serve::app::App;
use crate::serve::problem::{self, Problem};
use crate::serve::query::{self, InPath};
use crate::serve::tokens::Right;

pub async fn segment(
    State(app): State<Arc<App>>,
    tag: InPath,
    request: Request,
) -> Result<Response, Problem> {
    let tag = query::tag(tag)?;
    app.allow(request.headers(), Right::Tag(&tag))?;
    answer(request.uri().path(), app.tags.draw(&tag, 1).await)
}

/// The key is of no importance, as in Leaf.
pub async fn snowflake(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Snowflake)?;
    answer(request.uri().path(), app.draw_snowflakes(1).await)
}

fn answer<T: Copy + Into<i64>>(
    path: &str,
    drawn: Result<Drawn<T>, Problem>,
) -> Result<Response, Problem> {
    match drawn {
        Ok(drawn) => Ok(answer::text(answer::list(drawn.ids()))),
        Err(problem) => failed(path, &problem),
    }
}

/// When Leaf answers [`Failed`].
pub const FAILED: &str = "What Leaf answers instead of an id.";

#[derive(Serialize, ToSchema)]
#[schema(as = LeafError)]
pub struct Failed<'a> {
    timestamp: i64,
    status: u16,
    error: &'static str,
    #[schema(example = "Result{id=-2, status=EXCEPTION}")]
    message: String,
    path: &'a str,
    code: &'static str,
    hint: &'static str,
}

/// Status 500, as Leaf answers every exception, with what `/v1` says beside it.
fn failed(path: &str, problem: &Problem) -> Result<Response, Problem> {
    // The numbers of Leaf's exceptions: no such key, and no ids in both buffers.
    let exception = match *problem {
        problem::UNKNOWN_TAG | problem::NOT_SERVED => -2,
        _ => -3,
    };
    let mut response = answer::object(&Failed {
        timestamp: Timestamp::now().as_millisecond(),
        status: 500,
        error: "Internal Server Error",
        message: format!("Result{{id={exception}, status=EXCEPTION}}"),
        path,
        code: problem.code,
        hint: problem.hint,
    })?;
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    if let Some(seconds) = problem.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

#[derive(Serialize, ToSchema)]
#[schema(as = LeafFields)]
#[serde(untagged)]
pub enum Fields {
    #[serde(rename_all = "camelCase")]
    Decoded {
        timestamp: String,
        worker_id: String,
        sequence_id: String,
    },
    #[serde(rename_all = "camelCase")]
    Failed { error_msg: &'static str },
}

/// The parameter of `/decodeSnowflakeId`.
pub fn id() -> Parameter {
    query::in_query("snowflakeId", Required::True, "The id.", String::schema())
}

/// The time is in UTC; Leaf has that of its machine.
pub async fn decode(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    app.allow(request.headers(), Right::Snowflake)?;
    let query = request.uri().query().unwrap_or_default();
    let id = query::parameter(query, "snowflakeId").ok_or(problem::BAD_ID)?;
    let decoded = match id.parse() {
        Ok(id) => app.decode(id).await,
        Err(_) => Err(problem::BAD_ID),
    };
    let fields = match decoded {
        Ok(fields) => fields,
        Err(problem::BAD_ID) => {
            let error_msg = "snowflake Id反解析发生异常!";
            return answer::object(&Fields::Failed { error_msg });
        }
        Err(problem) => return failed(request.uri().path(), &problem),
    };
    let instant = Timestamp::try_from(fields.created_at).map_err(|_| problem::BAD_ID)?;
    let (millis, shown) = (instant.as_millisecond(), instant.to_zoned(TimeZone::UTC));
    answer::object(&Fields::Decoded {
        timestamp: format!("{millis}({})", shown.strftime("%Y-%m-%d %H:%M:%S%.3f")),
        worker_id: fields.worker_id.to_string(),
        sequence_id: fields.sequence.to_string(),
    })
}
