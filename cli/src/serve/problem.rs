//! Why a request gets no ids: what the caller is told. No text names a host, a role or a secret;
//! the log has the rest.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leaf_sdk::Error;
use serde::Serialize;
use tokio_postgres::error::SqlState;

/// An answer other than ids. The codes are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: u16,
    pub code: &'static str,
    pub message: &'static str,
    pub hint: &'static str,
    /// Up to how many ids to ask for: what the hint says then.
    pub most: Option<u32>,
    /// After how many seconds to ask again.
    pub retry_after: Option<u16>,
}

/// A problem in JSON.
#[derive(Serialize)]
struct Body<'a> {
    code: &'static str,
    message: &'static str,
    hint: &'a str,
}

impl Problem {
    const fn new(
        status: u16,
        code: &'static str,
        message: &'static str,
        hint: &'static str,
    ) -> Problem {
        Problem {
            status,
            code,
            message,
            hint,
            most: None,
            retry_after: None,
        }
    }

    /// A line of JSON.
    pub fn body(&self) -> String {
        let body = Body {
            code: self.code,
            message: self.message,
            hint: &match self.most {
                Some(most) => format!("Ask for 1 to {most} ids."),
                None => self.hint.to_owned(),
            },
        };
        serde_json::to_string(&body).unwrap_or_default() + "\n"
    }

    const fn later(self, seconds: u16) -> Problem {
        Problem {
            retry_after: Some(seconds),
            ..self
        }
    }
}

pub const UNKNOWN_TAG: Problem = Problem::new(
    404,
    "unknown_tag",
    "there is no such tag",
    "Check the spelling, or create it with leaf_tag_create.",
);
pub const NOT_SERVED: Problem = Problem::new(
    404,
    "unknown_tag",
    "this tag is not served here",
    "Check the spelling, or name it with --tag at the start.",
);
pub const BAD_TAG: Problem = Problem::new(
    400,
    "bad_tag",
    "this cannot be the name of a tag",
    "A name has 1 to 128 characters, percent-encoded as UTF-8.",
);
pub const BAD_COUNT: Problem = Problem::new(
    400,
    "bad_count",
    "count is not a number that is allowed here",
    "Ask for a whole number of ids.",
);
pub const BAD_FORMAT: Problem = Problem::new(
    400,
    "bad_format",
    "the format is unknown",
    "Use format=json or format=text.",
);
pub const BAD_ID: Problem = Problem::new(
    400,
    "bad_id",
    "this is not a snowflake id of the database",
    "An id is a decimal number from 0 to 9223372036854775807.",
);
pub const BODY: Problem = Problem::new(
    413,
    "body_refused",
    "a request must not have a body here",
    "Send the parameters in the address.",
);
pub const BAD_HOST: Problem = Problem::new(
    400,
    "bad_host",
    "the request has no header \"Host\", or several",
    "Send one.",
);
pub const MISDIRECTED: Problem = Problem::new(
    421,
    "misdirected",
    "this server does not have the name in the header \"Host\"",
    "Send the name \"localhost\", or allow this one with --allow-host at the start.",
);
pub const TOKEN_MISSING: Problem = Problem::new(
    401,
    "token_missing",
    "a token is needed",
    "Send the header \"Authorization: Bearer TOKEN\".",
);
pub const TOKEN_UNKNOWN: Problem = Problem::new(
    401,
    "token_unknown",
    "the token is unknown",
    "Who runs this service adds it to the file of tokens, and sends SIGHUP to leafctl serve.",
);
pub const TOKEN_FORBIDS: Problem = Problem::new(
    403,
    "token_forbids",
    "the token does not allow this",
    "Who runs this service gives it the right in the file of tokens, and sends SIGHUP to leafctl serve.",
);
pub const PERMISSION: Problem = Problem::new(
    403,
    "permission_denied",
    "the server may not draw these ids from the database",
    "The owner of the tag grants it to the role of the server with leaf_tag_grant; in the plain edition, the owner of leaf grants EXECUTE.",
);
/// The same, for snowflake ids.
pub const LEASE_PERMISSION: Problem = Problem {
    hint: "Grant the role of the server EXECUTE on leaf_worker_register, leaf_worker_renew and leaf_worker_release.",
    ..PERMISSION
};
pub const EXHAUSTED: Problem = Problem::new(
    409,
    "exhausted",
    "no ids are left",
    "Raise max_value with leaf_tag_alter.",
);
/// The same, for snowflake ids.
pub const TIME_USED_UP: Problem = Problem {
    hint: "The time field of snowflake ids is used up: another layout or epoch is needed.",
    ..EXHAUSTED
};
pub const NO_IDS: Problem = Problem::new(
    503,
    "no_ids",
    "no ids are at hand, and the database gives none",
    "Ask again.",
)
.later(1);
pub const CLOCK: Problem = Problem::new(
    503,
    "clock",
    "the clock is behind the last id, or not credible",
    "Ask again; look at the clock of the server if that lasts.",
)
.later(1);
pub const TOO_MANY_NEW_TAGS: Problem = Problem::new(
    429,
    "too_many_new_tags",
    "too many tags were asked for that are not known yet",
    "Ask again; name the tags with --tag at the start to avoid this.",
)
.later(1);
pub const CLOSING: Problem = Problem::new(
    503,
    "closing",
    "the server is being stopped",
    "Ask another one.",
)
.later(1);
pub const DATABASE: Problem = Problem::new(
    502,
    "database",
    "the database has refused",
    "The log of leafctl serve says why.",
);
pub const NOT_FOUND: Problem = Problem::new(
    404,
    "not_found",
    "there is nothing at this address",
    "The addresses are described at /openapi.json.",
);
pub const METHOD: Problem = Problem::new(
    405,
    "method_not_allowed",
    "the address does not have this method",
    "The addresses are described at /openapi.json.",
);
pub const INTERNAL: Problem = Problem::new(
    500,
    "internal",
    "the server has failed",
    "The log of leafctl serve says why.",
);
/// To a connection above the limit.
pub const TOO_MANY_CONNECTIONS: Problem = Problem::new(
    503,
    "too_many_connections",
    "there are too many connections",
    "Close unused ones, or raise --max-connections.",
)
.later(1);

impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        match error {
            Error::UnknownTag(_) => UNKNOWN_TAG,
            Error::Permission(_) => PERMISSION,
            Error::Exhausted(_) => EXHAUSTED,
            Error::TimeUsedUp => TIME_USED_UP,
            Error::Clock(_) => CLOCK,
            Error::Closed => CLOSING,
            // Of the configuration, it is the password that is missing.
            Error::Timeout { .. }
            | Error::LeaseLost(_)
            | Error::Connection(_)
            | Error::Config(_) => NO_IDS,
            error => match error.sqlstate().map(SqlState::code) {
                // A name that cannot be one.
                Some("22023") => BAD_TAG,
                // A character that the database cannot store.
                Some("22P05") => UNKNOWN_TAG,
                // A role or database that does not let the server in, for now.
                Some("28000" | "28P01" | "3D000" | "42501") => NO_IDS,
                _ if error.is_retryable() => NO_IDS,
                _ => DATABASE,
            },
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.body();
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
