//! Refuses requests before anything else is done for them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::{IntoResponse, Response};
use tower::{Layer, Service};

use crate::serve::problem::{self, Problem};

/// Refuses requests for which the function has a problem.
#[derive(Clone)]
pub struct Check<C>(pub C);

/// A request must not have a body.
pub fn has_no_body(request: &Request) -> Result<(), Problem> {
    match request.body().is_end_stream() {
        true => Ok(()),
        false => Err(problem::BODY),
    }
}

impl<S, C: Clone> Layer<S> for Check<C> {
    type Service = Checked<S, C>;

    fn layer(&self, inner: S) -> Checked<S, C> {
        Checked {
            inner,
            check: self.0.clone(),
        }
    }
}

#[derive(Clone)]
pub struct Checked<S, C> {
    inner: S,
    check: C,
}

pin_project_lite::pin_project! {
    #[project = AnswerProjected]
    pub enum Answer<F> {
        Asked { #[pin] inner: F },
        Refused { problem: Problem },
    }
}

impl<S, C> Service<Request> for Checked<S, C>
where
    S: Service<Request, Response = Response>,
    C: Fn(&Request) -> Result<(), Problem>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match (self.check)(&request) {
            Ok(()) => Answer::Asked {
                inner: self.inner.call(request),
            },
            Err(problem) => Answer::Refused { problem },
        }
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for Answer<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project() {
            AnswerProjected::Asked { inner } => ready!(inner.poll(context)),
            AnswerProjected::Refused { problem } => Ok(refusal(*problem)),
        })
    }
}

/// A body is not read, so nothing else can follow on the connection.
fn refusal(problem: Problem) -> Response {
    let mut response = problem.into_response();
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
