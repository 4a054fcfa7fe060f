//! The addresses.
//!
//! - [`guard`]: what is refused at once, and what is counted.
//! - [`ids`]: `/v1/segment`, `/v1/snowflake` and `/v1/decode`.
//! - [`meituan`]: those of Meituan Leaf.
//! - [`tinyid`]: those of TinyID.
//! - [`status`]: `/healthz`, `/readyz`, `/metrics` and `/v1/status`.
//! - [`page`]: the page for people, and the description of the addresses.

mod guard;
mod ids;
mod meituan;
mod page;
mod status;
mod tinyid;

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{ALLOW, CACHE_CONTROL};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use guard::Guard;

use super::app::App;
use super::hosts::Hosts;
use super::measures::OfRoute;
use super::problem;

/// Requests to other addresses are counted together, as this one.
const OTHER: &str = "other";

/// Every address and what answers there. Where GET draws, HEAD is refused: it would draw ids that
/// nobody sees.
fn table() -> Vec<(&'static str, MethodRouter<Arc<App>>)> {
    vec![
        ("/", get(page::page)),
        ("/openapi.json", get(page::openapi)),
        ("/healthz", get(status::healthz)),
        ("/readyz", get(status::readyz)),
        ("/metrics", get(status::metrics)),
        ("/v1/status", get(status::status)),
        ("/v1/segment/{tag}", no_head(get(ids::segment))),
        ("/v1/snowflake", no_head(get(ids::snowflake))),
        ("/v1/decode/{id}", get(ids::decode)),
        ("/api/segment/get/{key}", no_head(get(meituan::segment))),
        ("/api/snowflake/get/{key}", no_head(get(meituan::snowflake))),
        ("/decodeSnowflakeId", get(meituan::decode)),
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

fn no_head(methods: MethodRouter<Arc<App>>) -> MethodRouter<Arc<App>> {
    methods.head(|| async { ([(ALLOW, "GET")], problem::METHOD) })
}

/// The addresses.
pub fn router(app: Arc<App>, hosts: Hosts) -> Router {
    let guarded = |path: &'static str| {
        let guard = Guard {
            hosts: hosts.clone(),
            takes_body: path == OTHER || path.starts_with("/tinyid/"),
            counted: OfRoute::new(path),
        };
        from_fn_with_state(Arc::new(guard), guard::guard)
    };
    let router = table()
        .into_iter()
        .fold(Router::new(), |router, (path, methods)| {
            let methods = methods.fallback(|| async { problem::METHOD });
            router.route(path, methods.layer(guarded(path)))
        });
    let other: MethodRouter = get(|| async { problem::NOT_FOUND });
    let other = other.fallback(|| async { problem::NOT_FOUND });
    router
        .fallback_service(other.layer(guarded(OTHER)).with_state(()))
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
