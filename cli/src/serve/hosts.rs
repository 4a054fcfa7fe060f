//! Under which names the server may be called, and from which pages.
//!
//! A page in a browser of this machine can reach a loopback address by a name of its own site that
//! points there, and then read the answers. Its requests have that name in the header `Host`. By
//! the right name, it cannot read the answers, but it can have the browser ask, and ids are drawn.
//! Browsers say so in `Sec-Fetch-Site`, over TLS and to loopback addresses, or in `Origin`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;

use super::args::Args;
use super::problem::{self, Problem};

/// The names beside those of the machine itself.
#[derive(Clone)]
pub struct Hosts(Arc<[String]>);

/// The header `Host`.
///
/// # Errors
/// [`BAD_HOST`](problem::BAD_HOST) if the request does not say whom it asks.
pub fn host_of(request: &Request) -> Result<&HeaderValue, Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(host),
        _ => Err(problem::BAD_HOST),
    }
}

impl Hosts {
    pub fn of(args: &Args) -> Hosts {
        Hosts(args.allow_host.as_slice().into())
    }

    /// # Errors
    /// [`MISDIRECTED`](problem::MISDIRECTED) if the request asks somebody else.
    pub fn check(&self, request: &Request, host: &HeaderValue) -> Result<(), Problem> {
        let of_header = Authority::try_from(host.as_bytes());
        // An address with a name comes before the header.
        let name = match (request.uri().host(), &of_header) {
            (Some(name), _) => name,
            (None, Ok(authority)) => authority.host(),
            (None, Err(_)) => return Err(problem::MISDIRECTED),
        };
        match is_of_any_machine(name) || self.has(name) {
            true => Ok(()),
            false => Err(problem::MISDIRECTED),
        }
    }

    /// # Errors
    /// [`FOREIGN_PAGE`](problem::FOREIGN_PAGE) if a page of another site has made a browser ask.
    pub fn check_page(&self, request: &Request, host: &HeaderValue) -> Result<(), Problem> {
        let headers = request.headers();
        let mut sites = headers.get_all("sec-fetch-site").iter();
        let mut pages = headers.get_all(ORIGIN).iter();
        let is_own = sites.all(|site| site == "same-origin" || site == "none")
            && pages.all(|page| self.is_own_page(page, host));
        match is_own {
            true => Ok(()),
            false => Err(problem::FOREIGN_PAGE),
        }
    }

    /// Whether a page with this origin is of the host that is asked, or of a name that a proxy has.
    fn is_own_page(&self, origin: &HeaderValue, host: &HeaderValue) -> bool {
        let origin = origin.to_str().ok().and_then(|it| it.split_once("://"));
        let Some(origin) = origin.and_then(|(_, it)| Authority::try_from(it).ok()) else {
            return false;
        };
        let is_asked = host
            .as_bytes()
            .eq_ignore_ascii_case(origin.as_str().as_bytes());
        is_asked || self.has(origin.host())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Whether no other site can have the name: it is an address.
fn is_of_any_machine(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}
