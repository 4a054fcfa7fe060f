//! The requests of a node to a registry, to [lease](super::lease) a worker id and to keep it, and
//! the answers.
//!
//! Parameters and columns are texts. Times are microseconds since 1970, which neither the time zone
//! nor the style of dates of a session concerns.

use std::fmt::Display;
use std::time::Duration;

use uuid::Uuid;

use super::lease::{HeldLease, Identity, Nonce};
use super::terms::{BadTerms, Terms};
use crate::time::WallTime;

/// A statement and its parameters, which are texts, or become texts when they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<P> {
    /// With the types of its parameters.
    pub sql: &'static str,
    /// In the order of their numbers.
    pub parameters: Vec<P>,
}

/// The answer of a registry to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The next token that was sent.
    pub token: i64,
    /// The new ceiling of the lease.
    pub ceiling: WallTime,
    /// Who has answered.
    pub registry: Identity,
}

/// Registers a node. Repeated with the same nonce, it returns the same lease. The `clock`
/// is this machine's, best read when the statement is sent: otherwise it is late by the time that a
/// connection takes.
pub fn register<P: From<String>>(
    node: &str,
    worker_id: Option<impl Display>,
    nonce: Nonce,
    clock: P,
    ahead: Duration,
) -> Request<P> {
    let worker_id = worker_id.map_or_else(String::new, |id| id.to_string());
    Request {
        sql: "SELECT nonce::text, token::text, registry::text, history, worker_id::text, layout, \
                  (extract(epoch FROM epoch) OPERATOR(pg_catalog.*) 1000000)::bigint::text AS epoch, \
                  (extract(epoch FROM start_at) OPERATOR(pg_catalog.*) 1000000)::bigint::text AS start_at, \
                  (extract(epoch FROM ceiling) OPERATOR(pg_catalog.*) 1000000)::bigint::text AS ceiling \
              FROM leaf_worker_register($1::text, nullif($2::text, '')::integer, \
                  'epoch'::timestamptz OPERATOR(pg_catalog.+) ($3::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'), \
                  $4::bigint OPERATOR(pg_catalog.*) interval '1 microsecond', $5::uuid)",
        parameters: vec![
            node.to_owned().into(),
            worker_id.into(),
            clock,
            ahead.as_micros().to_string().into(),
            Uuid::from_bytes(nonce).to_string().into(),
        ],
    }
}

/// Renews a lease. Repeated with the same `next_token`, it returns the same. The `clock` is as in
/// [`register`].
pub fn renew<P: From<String>>(
    worker_id: impl Display,
    nonce: Nonce,
    token: i64,
    clock: P,
    ahead: Duration,
    next_token: i64,
) -> Request<P> {
    Request {
        sql: "SELECT token::text, registry::text, history, \
                  (extract(epoch FROM ceiling) OPERATOR(pg_catalog.*) 1000000)::bigint::text AS ceiling \
              FROM leaf_worker_renew($1::integer, $2::uuid, $3::bigint, \
                  'epoch'::timestamptz OPERATOR(pg_catalog.+) ($4::bigint OPERATOR(pg_catalog.*) interval '1 microsecond'), \
                  $5::bigint OPERATOR(pg_catalog.*) interval '1 microsecond', $6::bigint)",
        parameters: vec![
            worker_id.to_string().into(),
            Uuid::from_bytes(nonce).to_string().into(),
            token.to_string().into(),
            clock,
            ahead.as_micros().to_string().into(),
            next_token.to_string().into(),
        ],
    }
}

/// The lease in the answer to [`register`].
///
/// # Errors
/// That there is none, or an impossible one.
pub fn leased(row: &[String]) -> Result<HeldLease, BadTerms> {
    let read = || {
        let [
            nonce,
            token,
            registry,
            history,
            worker_id,
            layout,
            epoch,
            start,
            ceiling,
        ] = row
        else {
            return None;
        };
        let (worker_id, epoch) = (worker_id.parse().ok()?, instant(epoch)?);
        let terms = Terms::read(worker_id, layout, epoch, instant(start)?, instant(ceiling)?);
        let (nonce, token) = (uuid(nonce)?, token.parse().ok()?);
        let registry = identity(registry, history)?;
        Some(terms.map(|terms| HeldLease::granted(terms, nonce, token, registry)))
    };
    read().unwrap_or_else(|| Err(BadTerms(format!("{row:?}"))))
}

/// Reads the answer to [`renew`].
///
/// # Errors
/// The answer is another one.
pub fn renewed(row: &[String]) -> Result<Renewal, BadTerms> {
    let read = || {
        let [token, registry, history, ceiling] = row else {
            return None;
        };
        Some(Renewal {
            token: token.parse().ok()?,
            ceiling: instant(ceiling)?,
            registry: identity(registry, history)?,
        })
    };
    read().ok_or_else(|| BadTerms(format!("{row:?}")))
}

fn identity(incarnation: &str, history: &str) -> Option<Identity> {
    Some(Identity {
        incarnation: uuid(incarnation)?,
        history: history.to_owned(),
    })
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    Uuid::try_parse(text).ok().map(Uuid::into_bytes)
}

fn instant(us_since_1970: &str) -> Option<WallTime> {
    us_since_1970.parse().ok().map(WallTime::from_unix_us)
}
