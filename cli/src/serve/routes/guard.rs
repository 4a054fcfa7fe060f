//! Around every request: what is refused before anything else is done for it, and what is
//! counted of it.

use std::sync::Arc;
use std::time::Instant;

use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::serve::app::App;
use crate::serve::hosts::Hosts;
use crate::serve::measures::OfRoute;
use crate::serve::problem::{self, Problem};

/// What is refused and counted at a route.
pub struct Guard {
    pub app: Arc<App>,
    pub hosts: Hosts,
    /// Whether a request with GET may have a body.
    pub takes_body: bool,
    /// Whether pages of other sites may make a browser ask.
    pub takes_pages: bool,
    pub counted: OfRoute,
}

/// Answers a request, unless it is refused.
pub async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let response = match guard.check(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => refusal(problem),
    };
    guard.counted.count(began, &response);
    response
}

impl Guard {
    fn check(&self, request: &Request) -> Result<(), Problem> {
        let needs_tokens = self.app.tokens.load().is_some();
        let serves_anybody = self.app.serves_anybody() && !(needs_tokens && self.takes_pages);
        self.hosts.check(request, serves_anybody)?;
        if !self.takes_pages {
            self.hosts.check_page(request)?;
        }
        let has_none = matches!(*request.method(), Method::GET | Method::HEAD);
        match !has_none || self.takes_body || request.body().is_end_stream() {
            true => Ok(()),
            false => Err(problem::BODY),
        }
    }
}

/// A body is not read, so nothing else can follow on the connection.
fn refusal(problem: Problem) -> Response {
    let mut response = problem.into_response();
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}
