//! The page for people.

use std::sync::LazyLock;

use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::Response;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

/// One file, which fetches nothing from elsewhere.
const PAGE: &str = include_str!("../assets/page.html");

/// Only the style and the script of the page itself, and questions to this server.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let hash = |element| BASE64_STANDARD.encode(Sha256::digest(inside(PAGE, element)));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("style"),
        hash("script")
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
});

pub async fn page() -> Response {
    let mut response = Response::new(PAGE.into());
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

/// The text of the only element of this name.
fn inside(page: &'static str, element: &str) -> &'static str {
    let after = page
        .split_once(&format!("<{element}>"))
        .map_or("", |(_, after)| after);
    after
        .split_once(&format!("</{element}>"))
        .map_or("", |(text, _)| text)
}
