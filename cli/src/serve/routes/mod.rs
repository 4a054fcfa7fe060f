//! The addresses.
//!
//! - [`route`]: an address, what answers there, and what the description says of it.
//! - [`description`]: what `/openapi.json` says, made of the table of routes.
//! - [`guard`]: what is refused at once, and what is counted.
//! - [`ids`]: `/v1/segment`, `/v1/snowflake` and `/v1/decode`.
//! - [`meituan`]: those of Meituan Leaf.
//! - [`tinyid`]: those of TinyID.
//! - [`status`]: `/healthz`, `/readyz`, `/metrics` and `/v1/status`.
//! - [`page`]: the page for people.

mod description;
mod guard;
mod ids;
mod meituan;
mod page;
mod route;
mod status;
mod tinyid;

use std::any::Any;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use description::{IDS, MEITUAN, STATE, TINYID};
use guard::Guard;
use route::{Route, html, json, object, text};

use super::answer::{self, Ids};
use super::app::App;
use super::hosts::Hosts;
use super::measures::OfRoute;
use super::problem;
use super::query::{Wanted, in_path};

/// Requests to other addresses are counted together, as this one.
const OTHER: &str = "other";

/// The addresses as OpenAPI describes them.
static DESCRIPTION: LazyLock<String> = LazyLock::new(|| description::of(table()));

/// Every address, what answers there, and its description. Where GET draws, HEAD is refused: it
/// would draw ids that nobody sees.
fn table() -> Vec<Route> {
    vec![
        Route::get("/v1/segment/{tag}", ids::segment)
            .no_head()
            .is("segment", IDS, "Ids of a tag")
            .takes([in_path(
                "tag",
                "Name of the tag, percent-encoded.",
                "orders",
            )])
            .takes(Wanted::described())
            .answers(
                200,
                "The ids, ascending.",
                [json::<Ids>(), text("1001\n1002\n")],
            ),
        Route::get("/v1/snowflake", ids::snowflake)
            .no_head()
            .is("snowflake", IDS, "Snowflake ids")
            .takes(Wanted::described())
            .answers(
                200,
                "The ids, ascending.",
                [json::<Ids>(), text("1001\n1002\n")],
            ),
        Route::get("/v1/decode/{id}", ids::decode)
            .is("decode", IDS, "The fields of a snowflake id")
            .takes([in_path("id", "The id.", "2123778173958094896")])
            .answers(200, "The fields.", [json::<ids::Fields>()]),
        Route::get("/v1/status", status::status)
            .is("status", STATE, "What is at hand")
            .answers(
                200,
                "Tags, buffers and the worker id.",
                [json::<status::Status>()],
            ),
        Route::post("/v1/forget", status::forget)
            .is(
                "forget",
                STATE,
                "Drops the ids and the worker id that are in memory, before a snapshot of the process",
            )
            .answers(200, "They are dropped.", [text(status::FORGOTTEN)]),
        Route::get("/healthz", status::healthz)
            .is("healthz", STATE, "Whether the process answers")
            .open()
            .answers(200, "It does.", [text("ok\n")]),
        Route::get("/readyz", status::readyz)
            .is("readyz", STATE, "Whether ids are at hand")
            .open()
            .answers(200, "They are.", [text("ready\n")])
            .answers(503, "They are not.", [text(status::NOT_READY)]),
        Route::get("/metrics", status::metrics)
            .is("metrics", STATE, "Metrics for Prometheus")
            .takes_pages()
            .answers(200, "The metrics.", [text("leafctl_connections 1\n")]),
        Route::get("/openapi.json", || async {
            answer::json(DESCRIPTION.as_str())
        })
        .is("openapi", STATE, "This description")
        .open()
        .answers(200, "The description.", [object()]),
        Route::get("/", page::page)
            .is("page", STATE, "A page that shows the state, for people")
            .open()
            .answers(200, "The page.", [html()]),
        Route::get_or_post("/api/segment/get/{key}", meituan::segment)
            .no_head()
            .is("leafSegment", MEITUAN, "An id of a tag")
            .takes([in_path("key", "Name of the tag.", "orders")])
            .answers(200, "The id.", [text("1001")])
            .answers(500, meituan::FAILED, [json::<meituan::Failed>()]),
        Route::get_or_post("/api/snowflake/get/{key}", meituan::snowflake)
            .no_head()
            .is("leafSnowflake", MEITUAN, "A snowflake id")
            .takes([in_path("key", "Of no importance.", "test")])
            .answers(200, "The id.", [text("2123778173958094896")])
            .answers(500, meituan::FAILED, [json::<meituan::Failed>()]),
        Route::get("/decodeSnowflakeId", meituan::decode)
            .is("leafDecode", MEITUAN, "The fields of a snowflake id")
            .takes([meituan::id()])
            .answers(
                200,
                "The fields as texts, or errorMsg.",
                [json::<meituan::Fields>()],
            ),
        Route::get_or_post("/tinyid/id/nextId", tinyid::next_id)
            .no_head()
            .is("tinyidNextId", TINYID, "Ids of a tag")
            .takes(tinyid::of_ids())
            .answers(200, "The ids, or an error.", [json::<tinyid::Ids>()]),
        Route::get_or_post("/tinyid/id/nextIdSimple", tinyid::next_id_simple)
            .no_head()
            .is("tinyidNextIdSimple", TINYID, "Ids of a tag as text")
            .takes(tinyid::of_ids())
            .answers(
                200,
                "The ids with commas between them; empty after an error.",
                [text("1001,1002")],
            ),
        Route::get_or_post("/tinyid/id/nextSegmentId", tinyid::next_segment_id)
            .no_head()
            .is("tinyidNextSegmentId", TINYID, "A block of ids")
            .takes(tinyid::of_block())
            .answers(200, "The block, or an error.", [json::<tinyid::Block>()]),
        Route::get_or_post(
            "/tinyid/id/nextSegmentIdSimple",
            tinyid::next_segment_id_simple,
        )
        .no_head()
        .is(
            "tinyidNextSegmentIdSimple",
            TINYID,
            "A block of ids as text",
        )
        .takes(tinyid::of_block())
        .answers(
            200,
            "currentId,loadingId,maxId,delta,remainder; empty after an error.",
            [text("1000,1200,2000,1,0")],
        ),
    ]
}

/// The addresses.
pub fn router(app: Arc<App>, hosts: Hosts) -> Router {
    let guarded = |path: &'static str, takes_body: bool, takes_pages: bool| {
        let guard = Guard {
            app: app.clone(),
            hosts: hosts.clone(),
            takes_body,
            takes_pages,
            counted: OfRoute::new(path),
        };
        from_fn_with_state(Arc::new(guard), guard::guard)
    };
    let router = table().into_iter().fold(Router::new(), |router, route| {
        let methods = route.methods.fallback(|| async { problem::METHOD });
        let guard = guarded(route.path, route.takes_form, route.takes_pages);
        router.route(route.path, methods.layer(guard))
    });
    let other: MethodRouter = get(|| async { problem::NOT_FOUND });
    let other = other.fallback(|| async { problem::NOT_FOUND });
    router
        .fallback_service(other.layer(guarded(OTHER, true, true)).with_state(()))
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
