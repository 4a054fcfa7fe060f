//! The addresses.
//!
//! - [`check`]: what is refused at once.
//! - [`ids`]: `/v1/segment`, `/v1/snowflake` and `/v1/decode`.
//! - [`meituan`]: those of Meituan Leaf.
//! - [`tinyid`]: those of TinyID.
//! - [`status`]: `/healthz`, `/readyz`, `/metrics` and `/v1/status`.
//! - [`page`]: the page for people, and the description of the addresses.

mod check;
mod ids;
mod meituan;
mod page;
mod status;
mod tinyid;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{ALLOW, CACHE_CONTROL};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use check::Check;

use super::app::App;
use super::hosts::Hosts;
use super::measures::Measured;
use super::problem;

/// Requests to other addresses are counted together, as this one.
const OTHER: &str = "other";

/// Every address and what answers there.
fn table() -> Vec<(&'static str, MethodRouter<Arc<App>>)> {
    vec![
        ("/", without_body(get(page::page))),
        ("/openapi.json", without_body(get(page::openapi))),
        ("/healthz", without_body(get(status::healthz))),
        ("/readyz", without_body(get(status::readyz))),
        ("/metrics", without_body(get(status::metrics))),
        ("/v1/status", without_body(get(status::status))),
        (
            "/v1/segment/{tag}",
            without_body(no_head(get(ids::segment))),
        ),
        ("/v1/snowflake", without_body(no_head(get(ids::snowflake)))),
        ("/v1/decode/{id}", without_body(get(ids::decode))),
        (
            "/api/segment/get/{key}",
            without_body(no_head(get(meituan::segment))),
        ),
        (
            "/api/snowflake/get/{key}",
            without_body(no_head(get(meituan::snowflake))),
        ),
        ("/decodeSnowflakeId", without_body(get(meituan::decode))),
        (
            "/tinyid/id/nextId",
            no_head(get(tinyid::next_id).post(tinyid::next_id)),
        ),
        (
            "/tinyid/id/nextIdSimple",
            no_head(get(tinyid::next_id_simple).post(tinyid::next_id_simple)),
        ),
        (
            "/tinyid/id/nextSegmentId",
            no_head(get(tinyid::next_segment_id).post(tinyid::next_segment_id)),
        ),
        (
            "/tinyid/id/nextSegmentIdSimple",
            no_head(get(tinyid::next_segment_id_simple).post(tinyid::next_segment_id_simple)),
        ),
    ]
}

/// A request with a body is an error.
fn without_body(methods: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    methods.layer(Check(check::has_no_body))
}

/// Where GET draws, HEAD would draw ids that nobody sees.
fn no_head(methods: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    methods.head(|| async { ([(ALLOW, "GET")], problem::METHOD) })
}

/// The addresses; with `has_constant`, also the constant of the benchmark.
pub fn router(app: Arc<App>, hosts: Hosts, has_constant: bool) -> Router {
    let mut table = table();
    if has_constant {
        table.push(("/v1/constant/{tag}", without_body(get(ids::constant))));
    }
    let check = Check(move |request: &Request| hosts.check(request));
    let router = table
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            let methods = methods.fallback(|| async { problem::METHOD });
            let methods: MethodRouter<_> = methods.layer(check.clone());
            router.route(path, methods.layer(Measured::of(path)))
        });
    let other = get(|| async { problem::NOT_FOUND }).fallback(|| async { problem::NOT_FOUND });
    let other: MethodRouter = other.layer(check);
    router
        .fallback_service(other.layer(Measured::of(OTHER)).with_state(()))
        // An answer that a cache repeats would be an id that is handed out twice.
        .layer(SetResponseHeaderLayer::overriding(
            CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        ))
        .layer(CatchPanicLayer::custom(|_: Box<dyn Any + Send>| panicked()))
        .with_state(app)
}

fn panicked() -> Response {
    tracing::error!("a request has failed: this is a bug");
    problem::INTERNAL.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/v1/decode/{id}` and its like, as OpenAPI writes them, too.
    #[test]
    fn every_address_is_described_and_every_description_has_an_address() {
        let description: serde_json::Value = serde_json::from_str(page::OPENAPI).expect("JSON");
        let described = description["paths"].as_object().expect("paths");
        let mut described: Vec<_> = described.keys().map(String::as_str).collect();
        let mut routed: Vec<_> = table().into_iter().map(|(path, _)| path).collect();
        described.sort_unstable();
        routed.sort_unstable();
        assert_eq!(described, routed);
    }
}
