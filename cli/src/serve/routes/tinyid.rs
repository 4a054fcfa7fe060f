//! The addresses of TinyID, answered as its `IdContronller` does: always with status 200, and
//! with an error as a code in the JSON, or as an empty text.
//!
//! A segment is a block of consecutive ids from the buffers, `first` to `last`. TinyID's client
//! hands out what lies above `currentId` up to `maxId`, in steps of `delta`, of which the
//! remainder by `delta` is `remainder`. With `currentId = first - 1`, `maxId = last`, `delta = 1`
//! and `remainder = 0`, that is the block.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{self, Body, Bytes};
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use leaf_sdk::SegmentId;
use serde::Serialize;
use utoipa::openapi::path::Parameter;
use utoipa::openapi::{ObjectBuilder, Required, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::serve::answer::{self, Drawn};
use crate::serve::app::App;
use crate::serve::problem::{self, Problem};
use crate::serve::query;
use crate::serve::tokens::Right;

/// The largest form that is read, in bytes.
const LARGEST_FORM: usize = 4_096;

/// After how many percent of a segment the client fetches the next one.
const LOADING_PERCENT: i64 = 20;

#[derive(Serialize, ToSchema)]
#[schema(as = TinyIds)]
pub struct Ids {
    #[schema(required)]
    data: Option<Vec<i64>>,
    /// 200, 5 for the token, 6 for other errors.
    code: u16,
    message: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = TinySegment)]
pub struct Block {
    #[schema(inline, required)]
    data: Option<Fields>,
    /// 200, 5 for the token, 6 for other errors.
    code: u16,
    message: String,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Fields {
    max_id: i64,
    loading_id: i64,
    current_id: i64,
    delta: i64,
    remainder: i64,
}

/// The parameters of a request for ids.
pub fn of_ids() -> Vec<Parameter> {
    let integer = ObjectBuilder::new().schema_type(Type::Integer);
    let about = "How many ids; 1 if it is missing.";
    let mut parameters = of_block();
    parameters.insert(
        1,
        query::in_query("batchSize", Required::False, about, integer),
    );
    parameters
}

/// The parameters of a request for a block.
pub fn of_block() -> Vec<Parameter> {
    let about = "The token; the header Authorization works, too.";
    vec![
        query::in_query("bizType", Required::True, "The tag.", String::schema()),
        query::in_query("token", Required::False, about, String::schema()),
    ]
}

/// The parameters of a request: those of the address precede those of a form.
struct Parameters {
    query: String,
    form: Bytes,
    headers: HeaderMap,
}

impl Parameters {
    async fn of(request: Request) -> Result<Parameters, Problem> {
        let (parts, body) = request.into_parts();
        let form = body::to_bytes(body, LARGEST_FORM).await;
        Ok(Parameters {
            query: parts.uri.query().unwrap_or_default().to_owned(),
            form: form.map_err(|_| problem::BODY)?,
            headers: parts.headers,
        })
    }

    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let form = || std::str::from_utf8(&self.form).ok();
        query::parameter(&self.query, name).or_else(|| query::parameter(form()?, name))
    }

    /// The tag, if the token allows to draw from it.
    fn tag(&self, app: &App) -> Result<Cow<'_, str>, Problem> {
        let tag = query::checked_tag(self.get("bizType").unwrap_or_default())?;
        let token = self.get("token");
        app.allow_parameter(token.as_deref(), &self.headers, Right::Tag(&tag))?;
        Ok(tag)
    }

    /// How many ids, at most `--max-count`; TinyID's own limit works in the same way.
    fn batch_size(&self, app: &App) -> Result<usize, Problem> {
        let size = match self.get("batchSize").as_deref() {
            None | Some("") => 1,
            Some(size) => size.parse::<i32>().map_err(|_| problem::BAD_COUNT)?,
        };
        Ok((size.max(0) as usize).min(app.max_count as usize))
    }
}

async fn ids(app: &App, request: Request) -> Result<Drawn<SegmentId>, Problem> {
    let parameters = Parameters::of(request).await?;
    let count = parameters.batch_size(app)?;
    let tag = parameters.tag(app)?;
    match count {
        0 => Ok(Drawn::Many(Vec::new())),
        count => app.tags.draw(&tag, count).await,
    }
}

pub async fn next_id(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    match ids(&app, request).await {
        Ok(drawn) => Ok(answer::json(answer::tinyid(drawn.ids()))),
        Err(problem) => failed(problem),
    }
}

pub async fn next_id_simple(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Problem> {
    match ids(&app, request).await {
        Ok(drawn) => Ok(answer::text(answer::list(drawn.ids()))),
        Err(problem) => failed_simple(problem),
    }
}

pub async fn next_segment_id(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Problem> {
    let segment = match segment(&app, request).await {
        Ok(segment) => segment,
        Err(problem) => return failed(problem),
    };
    let Segment {
        current,
        loading,
        max,
    } = segment;
    answer::object(&Block {
        data: Some(Fields {
            max_id: max,
            loading_id: loading,
            current_id: current,
            delta: 1,
            remainder: 0,
        }),
        code: 200,
        message: String::new(),
    })
}

pub async fn next_segment_id_simple(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, Problem> {
    match segment(&app, request).await {
        Ok(Segment {
            current,
            loading,
            max,
        }) => Ok(answer::text(format!("{current},{loading},{max},1,0"))),
        Err(problem) => failed_simple(problem),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Segment {
    current: i64,
    loading: i64,
    max: i64,
}

async fn segment(app: &App, request: Request) -> Result<Segment, Problem> {
    let parameters = Parameters::of(request).await?;
    let tag = parameters.tag(app)?;
    let drawn = app.tags.draw(&tag, app.tinyid_segment as usize).await?;
    longest_run(drawn.ids()).ok_or(problem::INTERNAL)
}

/// The longest block of consecutive ids. The ids of one draw are such a block, except where the
/// buffer was changed or others drew meanwhile; the others are then lost.
fn longest_run<T: Copy + Into<i64>>(ids: &[T]) -> Option<Segment> {
    let runs = ids.chunk_by(|&a, &b| a.into().checked_add(1) == Some(b.into()));
    let run = runs.max_by_key(|run| run.len())?;
    let (first, len) = ((*run.first()?).into(), run.len() as i64);
    let current = first.checked_sub(1)?;
    Some(Segment {
        current,
        loading: current + len * LOADING_PERCENT / 100,
        max: current + len,
    })
}

fn failed(problem: Problem) -> Result<Response, Problem> {
    let (code, message) = match kind(problem)? {
        Kind::Token => (5, "token is error".to_owned()),
        Kind::System => (6, format!("{}: {}", problem.code, problem.message)),
    };
    answer::object(&Ids {
        data: None,
        code,
        message,
    })
}

fn failed_simple(problem: Problem) -> Result<Response, Problem> {
    kind(problem)?;
    Ok(answer::text(Body::empty()))
}

enum Kind {
    Token,
    System,
}

/// What TinyID would say; it answers a malformed request with status 400, too.
fn kind(problem: Problem) -> Result<Kind, Problem> {
    match problem {
        problem::TOKEN_MISSING | problem::TOKEN_UNKNOWN | problem::TOKEN_FORBIDS => Ok(Kind::Token),
        problem::BAD_COUNT | problem::BODY => Err(problem),
        _ => Ok(Kind::System),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_is_the_longest_block_of_consecutive_ids() {
        let segment = |ids: &[i64]| longest_run(ids).map(|segment| (segment.current, segment.max));
        assert_eq!(segment(&[1, 2, 3]), Some((0, 3)));
        assert_eq!(segment(&[5, 7, 8, 9, 11, 12]), Some((6, 9)));
        assert_eq!(segment(&[i64::MAX]), Some((i64::MAX - 1, i64::MAX)));
        assert_eq!(segment(&[]), None);
        let ids: Vec<i64> = (101..=200).collect();
        assert_eq!(
            longest_run(&ids),
            Some(Segment {
                current: 100,
                loading: 120,
                max: 200
            })
        );
    }
}
