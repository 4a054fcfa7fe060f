//! Ids as the body of an answer.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{self, Problem};

/// The most digits of an id, and its sign.
const WIDEST: usize = 20;

/// One id, or more: one takes no memory of its own.
pub enum Drawn<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> Drawn<T> {
    pub fn ids(&self) -> &[T] {
        match self {
            Drawn::One(id) => std::slice::from_ref(id),
            Drawn::Many(ids) => ids,
        }
    }
}

/// What a caller of `/v1` wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `{"ids":["1","2"]}`
    Json,
    /// A line per id.
    Text,
}

// What `Format::Json` writes. A comment for rustdoc would be said to callers.
#[derive(ToSchema)]
#[schema(example = json!({ "ids": ["1001", "1002"] }))]
#[expect(dead_code, reason = "a frame writes it")]
pub struct Ids {
    #[schema(inline)]
    ids: Vec<Digits>,
}

#[derive(ToSchema)]
#[schema(pattern = "^-?[0-9]+$")]
#[expect(dead_code, reason = "a frame writes it")]
struct Digits(String);

/// Ids between texts.
struct Frame {
    before: &'static str,
    between: &'static str,
    after: &'static str,
}

impl Frame {
    fn write<T: Copy + Into<i64>>(&self, ids: &[T]) -> Bytes {
        let room = self.before.len() + self.after.len() + ids.len() * (WIDEST + self.between.len());
        let mut text = Vec::with_capacity(room);
        text.extend_from_slice(self.before.as_bytes());
        let mut digits = itoa::Buffer::new();
        for (place, &id) in ids.iter().enumerate() {
            if place > 0 {
                text.extend_from_slice(self.between.as_bytes());
            }
            text.extend_from_slice(digits.format(id.into()).as_bytes());
        }
        text.extend_from_slice(self.after.as_bytes());
        Bytes::from(text)
    }
}

impl Format {
    pub fn answer<T: Copy + Into<i64>>(self, ids: &[T]) -> Response<Body> {
        let frame = match self {
            Format::Json if ids.is_empty() => Frame {
                before: "{\"ids\":[",
                between: "",
                after: "]}\n",
            },
            Format::Json => Frame {
                before: "{\"ids\":[\"",
                between: "\",\"",
                after: "\"]}\n",
            },
            Format::Text => Frame {
                before: "",
                between: "\n",
                after: "\n",
            },
        };
        match self {
            Format::Json => json(frame.write(ids)),
            Format::Text => text(frame.write(ids)),
        }
    }
}

/// Ids with commas between them.
pub fn list<T: Copy + Into<i64>>(ids: &[T]) -> Bytes {
    Frame {
        before: "",
        between: ",",
        after: "",
    }
    .write(ids)
}

/// Ids as TinyID's `nextId` answers them: as numbers.
pub fn tinyid<T: Copy + Into<i64>>(ids: &[T]) -> Bytes {
    Frame {
        before: "{\"data\":[",
        between: ",",
        after: "],\"code\":200,\"message\":\"\"}",
    }
    .write(ids)
}

pub fn json(body: impl Into<Body>) -> Response<Body> {
    with_type(body, HeaderValue::from_static("application/json"))
}

/// # Errors
/// [`INTERNAL`](problem::INTERNAL) if JSON cannot say it.
pub fn object(body: &impl Serialize) -> Result<Response<Body>, Problem> {
    let text = serde_json::to_vec(body).map_err(|_| problem::INTERNAL)?;
    Ok(json(text))
}

pub fn text(body: impl Into<Body>) -> Response<Body> {
    with_type(body, HeaderValue::from_static("text/plain;charset=UTF-8"))
}

fn with_type(body: impl Into<Body>, content_type: HeaderValue) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_strings_in_json_and_numbers_where_others_answer_numbers() {
        let json = |ids: &[i64]| {
            Frame {
                before: "[\"",
                between: "\",\"",
                after: "\"]",
            }
            .write(ids)
        };
        assert_eq!(json(&[1, i64::MIN]), "[\"1\",\"-9223372036854775808\"]");
        assert_eq!(list(&[1, 2, 3]), "1,2,3");
        assert_eq!(tinyid(&[7]), r#"{"data":[7],"code":200,"message":""}"#);
        assert_eq!(tinyid::<i64>(&[]), r#"{"data":[],"code":200,"message":""}"#);
    }
}
