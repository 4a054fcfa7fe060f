//! Under which names the server may be called.
//!
//! A page in a browser of this machine can reach a loopback address by a name of its own site that
//! points there, and then read the answers. Its requests have that name in the header `Host`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;

use super::args::Args;
use super::problem::{self, Problem};

/// The names beside those of the machine itself; `None` if any will do.
#[derive(Clone)]
pub struct Hosts(Option<Arc<[String]>>);

impl Hosts {
    /// Names matter where an address is open to the programs of this machine only, and nothing
    /// else tells a page from them.
    pub fn of(args: &Args, addresses: &[SocketAddr]) -> Hosts {
        let is_local = addresses.iter().all(|address| address.ip().is_loopback());
        let is_guarded = is_local && args.tokens.is_none();
        Hosts(is_guarded.then(|| args.allow_host.as_slice().into()))
    }

    /// # Errors
    /// [`BAD_HOST`](problem::BAD_HOST) if the request does not say whom it asks,
    /// [`MISDIRECTED`](problem::MISDIRECTED) if it asks somebody else.
    pub fn check(&self, request: &Request) -> Result<(), Problem> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return Err(problem::BAD_HOST);
        };
        let Some(names) = &self.0 else {
            return Ok(());
        };
        let of_header = Authority::try_from(host.as_bytes());
        // An address with a name comes before the header.
        let name = match (request.uri().host(), &of_header) {
            (Some(name), _) => name,
            (None, Ok(authority)) => authority.host(),
            (None, Err(_)) => return Err(problem::MISDIRECTED),
        };
        match is_of_this_machine(name) || names.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            true => Ok(()),
            false => Err(problem::MISDIRECTED),
        }
    }
}

fn is_of_this_machine(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_loopback = address
        .parse()
        .is_ok_and(|address: IpAddr| address.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn check(hosts: &Hosts, uri: &str, given: &[&str]) -> Result<(), Problem> {
        let mut request = Request::builder().uri(uri);
        for host in given {
            request = request.header(HOST, *host);
        }
        hosts.check(&request.body(Body::empty()).expect("a request"))
    }

    #[test]
    fn only_names_of_this_machine_and_allowed_ones_are_answered_where_pages_could_ask() {
        let guarded = Hosts(Some(Arc::new(["ids.example.com".to_owned()])));
        for own in [
            "localhost",
            "LOCALHOST:8080",
            "127.0.0.1:8080",
            "127.1.2.3",
            "[::1]:8080",
            "ids.example.com",
            "IDS.example.com:80",
        ] {
            assert_eq!(check(&guarded, "/", &[own]), Ok(()), "{own}");
        }
        for foreign in [
            "",
            "evil.example.com",
            "evil.example.com:8080",
            "localhost.evil.example.com",
            "evil.ids.example.com",
            "127.0.0.1.evil.example.com",
            "10.0.0.1",
            "a b",
        ] {
            let refused = check(&guarded, "/", &[foreign]);
            assert_eq!(refused, Err(problem::MISDIRECTED), "{foreign}");
        }
        let named = check(&guarded, "http://evil.example.com/", &["localhost"]);
        assert_eq!(named, Err(problem::MISDIRECTED));
        assert_eq!(check(&Hosts(None), "/", &["evil.example.com"]), Ok(()));
    }

    #[test]
    fn request_says_once_whom_it_asks() {
        for hosts in [Hosts(None), Hosts(Some(Arc::new([])))] {
            assert_eq!(check(&hosts, "/", &[]), Err(problem::BAD_HOST));
            let twice = ["localhost", "localhost"];
            assert_eq!(check(&hosts, "/", &twice), Err(problem::BAD_HOST));
        }
    }
}
