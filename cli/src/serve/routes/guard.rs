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

use crate::serve::app::{App, bearer};
use crate::serve::hosts::{Hosts, host_of};
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
        let host = host_of(request)?;
        let has_tokens = self.app.tokens.load().is_some();
        // A page of another site has no token; what a browser adds for a proxy is none.
        if !(has_tokens && bearer(request.headers()).is_some()) {
            if !has_tokens || (self.app.serves_anybody() && !self.takes_pages) {
                self.hosts.check(request, host)?;
            }
            if !self.takes_pages {
                self.hosts.check_page(request, host)?;
            }
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
