//! Refuses requests with a body, where none is read.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::{IntoResponse, Response};
use tower::{Layer, Service};

use crate::serve::problem;

/// Refuses requests with a body.
#[derive(Clone)]
pub struct NoBody;

impl<S> Layer<S> for NoBody {
    type Service = NoBodyService<S>;

    fn layer(&self, inner: S) -> NoBodyService<S> {
        NoBodyService(inner)
    }
}

#[derive(Clone)]
pub struct NoBodyService<S>(S);

pin_project_lite::pin_project! {
    #[project = AnswerProjected]
    pub enum Answer<F> {
        Asked { #[pin] inner: F },
        Refused,
    }
}

impl<S: Service<Request, Response = Response>> Service<Request> for NoBodyService<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = Answer<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match request.body().is_end_stream() {
            true => Answer::Asked {
                inner: self.0.call(request),
            },
            false => Answer::Refused,
        }
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for Answer<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.project() {
            AnswerProjected::Asked { inner } => ready!(inner.poll(context)),
            AnswerProjected::Refused => Ok(refusal()),
        })
    }
}

/// The body is not read, so nothing else can follow on the connection.
fn refusal() -> Response {
    let mut response = problem::BODY.into_response();
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
