//! Why a request gets no ids: what the caller is told. No text names a host, a role or a secret;
//! the log has the rest.

use std::borrow::Cow;

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use leaf_sdk::Error;
use serde::Serialize;
use tokio_postgres::error::SqlState;
use utoipa::ToSchema;

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

#[derive(Serialize, ToSchema)]
#[schema(as = Problem, example = json!(UNKNOWN_TAG.told()))]
pub struct Body {
    /// Stable.
    code: &'static str,
    message: &'static str,
    hint: Cow<'static, str>,
}

impl Problem {
    /// A line of JSON.
    pub fn body(&self) -> String {
        serde_json::to_string(&self.told()).unwrap_or_default() + "\n"
    }

    fn told(&self) -> Body {
        Body {
            code: self.code,
            message: self.message,
            hint: match self.most {
                Some(most) => format!("Ask for 1 to {most} ids.").into(),
                None => self.hint.into(),
            },
        }
    }
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident = $status:literal $(after $seconds:literal s)?: $code:literal, $message:literal, $hint:literal;)*) => {
    $(
        $(#[$doc])*
        pub const $name: Problem = Problem {
            status: $status,
            code: $code,
            message: $message,
            hint: $hint,
            most: None,
            retry_after: [$($seconds)?].first().copied(),
        };
    )*
        /// All of them.
        pub const ALL: &[Problem] = &[$($name),*];
    };
}

problems! {
    UNKNOWN_TAG = 404: "unknown_tag", "there is no such tag",
        "Check the spelling, or create it with leaf_tag_create.";
    NOT_SERVED = 404: "unknown_tag", "this tag is not served here",
        "Check the spelling, or name it with --tag at the start.";
    BAD_TAG = 400: "bad_tag", "this cannot be the name of a tag",
        "A name has 1 to 128 characters, percent-encoded as UTF-8.";
    BAD_COUNT = 400: "bad_count", "count is not a number that is allowed here",
        "Ask for a whole number of ids.";
    BAD_FORMAT = 400: "bad_format", "the format is unknown",
        "Use format=json or format=text.";
    BAD_ID = 400: "bad_id", "this is not a snowflake id of the database",
        "An id is a decimal number from 0 to 9223372036854775807.";
    BODY = 413: "body_refused", "a request must not have a body here",
        "Send the parameters in the address.";
    BAD_HOST = 400: "bad_host", "the request has no header \"Host\", or several",
        "Send one.";
    MISDIRECTED = 421: "misdirected", "this server does not have the name in the header \"Host\"",
        "Send the name \"localhost\", or allow this one with --allow-host at the start.";
    FOREIGN_PAGE = 403: "foreign_page", "a page of another site must not draw ids here",
        "Ask from a page of this address, or with a token. A name that a proxy has is allowed with --allow-host at the start.";
    TOKEN_MISSING = 401: "token_missing", "a token is needed",
        "Send the header \"Authorization: Bearer TOKEN\", with a token of the file of --tokens.";
    TOKEN_UNKNOWN = 401: "token_unknown", "the token is unknown",
        "Who runs this service adds it to the file of tokens, and sends SIGHUP to leafctl serve.";
    TOKEN_FORBIDS = 403: "token_forbids", "the token does not allow this",
        "Who runs this service gives it the right in the file of tokens, and sends SIGHUP to leafctl serve.";
    PERMISSION = 403: "permission_denied", "the server may not draw these ids from the database",
        "The owner of the tag grants it to the role of the server with leaf_tag_grant; in the plain edition, the owner of leaf grants EXECUTE.";
    EXHAUSTED = 409: "exhausted", "no ids are left",
        "Raise max_value with leaf_tag_alter.";
    NO_IDS = 503 after 1 s: "no_ids", "no ids are at hand, and the database gives none",
        "Ask again.";
    CLOCK = 503 after 1 s: "clock", "the clock is behind the last id, or not credible",
        "Ask again; look at the clock of the server if that lasts.";
    TOO_MANY_NEW_TAGS = 429 after 1 s: "too_many_new_tags", "too many tags were asked for that are not known yet",
        "Ask again; name the tags with --tag at the start to avoid this.";
    CLOSING = 503 after 1 s: "closing", "the server is being stopped",
        "Ask another one.";
    DATABASE = 502: "database", "the database has refused",
        "The log of leafctl serve says why.";
    NOT_FOUND = 404: "not_found", "there is nothing at this address",
        "The addresses are described at /openapi.json.";
    METHOD = 405: "method_not_allowed", "the address does not have this method",
        "The addresses are described at /openapi.json.";
    INTERNAL = 500: "internal", "the server has failed",
        "The log of leafctl serve says why.";
    /// To a connection above the limit.
    TOO_MANY_CONNECTIONS = 503 after 1 s: "too_many_connections", "there are too many connections",
        "Close unused ones, or raise --max-connections.";
}

/// The same, for snowflake ids.
pub const LEASE_PERMISSION: Problem = Problem {
    hint: "Grant the role of the server EXECUTE on leaf_worker_register, leaf_worker_renew and leaf_worker_release.",
    ..PERMISSION
};
/// The same, for snowflake ids.
pub const TIME_USED_UP: Problem = Problem {
    hint: "The time field of snowflake ids is used up: another layout or epoch is needed.",
    ..EXHAUSTED
};

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
