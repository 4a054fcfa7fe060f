//! Keeping a lease: it comes from the cache or from the registry, is renewed, and is
//! released.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leaf_core::snowflake::ceiling;
use leaf_core::snowflake::generator::Span;
use leaf_core::time::WallTime;
use tokio_postgres::error::SqlState;

use super::lease::Lease;
use super::node::Node;
use crate::Error;
use crate::calls::statement::{self, Granted, LeaseRequest};
use crate::events::TARGET;
use crate::gate::Attempt;
use crate::link::Link;
use crate::time::{self, system_time};

/// How far ahead of its use the ceiling is written to the cache.
const CACHE_AHEAD: Duration = Duration::from_secs(5);

impl Node {
    /// Continues with the lease in the cache, above the ids that an earlier process
    /// may have issued with it.
    pub(super) fn start_from_cache(&self) {
        let Some(cache) = &self.cache else {
            return;
        };
        let Some(lease) = cache.load(&self.config.node) else {
            return;
        };
        let wanted = self.config.worker_id;
        if wanted.is_some_and(|wanted| wanted != lease.worker_id) {
            return;
        }
        let (from, clock) = (lease.ceiling, time::now());
        if from > clock + Duration::from_micros(self.config.rules.max_lead_us) {
            let lead_us = from.us_after(clock);
            tracing::warn!(target: TARGET, lead_us, "the clock is behind the cached lease");
            return;
        }
        tracing::info!(target: TARGET, worker_id = lease.worker_id, "lease from the cache");
        if let Err(error) = self.begin(lease, from) {
            self.gate.lock().failed(&error);
        }
    }

    /// Issues ids of a lease from an instant on.
    ///
    /// # Errors
    /// [`Error::Cache`], [`Error::Closed`], or [`Error::Protocol`] if the ids would
    /// have another layout than before. The lease is then not used.
    fn begin(&self, mut lease: Lease, from: WallTime) -> Result<(), Error> {
        let scheme = lease.scheme;
        if *self.scheme.get_or_init(|| scheme) != scheme {
            let changed = "the registry's layout or epoch has changed".into();
            return Err(Error::Protocol(changed));
        }
        let mut state = self.gate.lock();
        if state.is_closed() {
            return Err(Error::Closed);
        }
        let clock = time::now();
        let from = from.max(scheme.instant_of(scheme.tick_at(clock)));
        self.set_ceiling(&mut lease, clock, from)?;
        let (from, until) = (scheme.tick_from(from), scheme.tick_at(lease.ceiling));
        let span = Span {
            worker_id: lease.worker_id as u64,
            from,
            ceiling: until,
            renew_at: ceiling::renew_at(from, until),
        };
        let now = scheme.since_epoch(time::now());
        self.generator.install_above(&scheme.layout, span, now);
        state.guarded = Some(lease);
        state.succeeded();
        drop(state);
        self.gate.wake();
        Ok(())
    }

    /// Raises the ceiling of the current lease, at most to the registry's. Returns
    /// whether that one should be raised, too.
    fn raise_ceiling(&self) -> bool {
        let mut state = self.gate.lock();
        let Some(lease) = &state.guarded else {
            return true;
        };
        let mut lease = lease.clone();
        let scheme = lease.scheme;
        let clock = time::now();
        let last = scheme.instant_of(self.generator.last_tick(&scheme.layout));
        let used = last.max(clock);
        if lease.ceiling < lease.registry_ceiling {
            match self.set_ceiling(&mut lease, clock, last) {
                Ok(()) => {
                    let until = scheme.tick_at(lease.ceiling);
                    let renew_at = ceiling::renew_at(scheme.tick_at(used), until);
                    self.generator.extend(&scheme.layout, until, renew_at);
                    state.guarded = Some(lease.clone());
                }
                Err(error) => state.failed(&error),
            }
        }
        drop(state);
        self.gate.wake();
        lease.registry_ceiling < used + self.config.lease / 2
    }

    /// Moves the ceiling ahead of the clock and of the last id, in the cache first.
    fn set_ceiling(&self, lease: &mut Lease, clock: WallTime, last: WallTime) -> Result<(), Error> {
        let Some(cache) = &self.cache else {
            lease.ceiling = lease.registry_ceiling;
            return Ok(());
        };
        let next = ceiling::next(&lease.scheme, clock, last, CACHE_AHEAD);
        // Never lower, even if the clock has gone back: a concurrent draw may still
        // take an id below the earlier ceiling.
        let next = next.max(lease.ceiling);
        lease.ceiling = next.min(lease.registry_ceiling);
        cache.store(&self.config.node, lease).map_err(Error::cache)
    }
}

/// Raises the ceiling, at most to the registry's, and that one once it comes near.
pub(super) async fn keep_ahead(link: Arc<Link>, node: Arc<Node>) {
    let is_near = node.raise_ceiling();
    node.is_raising.store(false, Ordering::Release);
    if is_near && !node.is_renewing.swap(true, Ordering::AcqRel) {
        renew(&link, &node).await;
    }
}

/// Renews the lease, or registers, until that has succeeded or failed permanently.
async fn renew(link: &Link, node: &Node) {
    let renewed = renew_with_patience(link, node).await;
    node.is_renewing.store(false, Ordering::Release);
    if let Err((attempt, error)) = renewed {
        node.gate.failed_permanently(attempt, &error);
    }
}

/// An error is that of an attempt that failed permanently.
async fn renew_with_patience(link: &Link, node: &Node) -> Result<(), (Attempt, Error)> {
    let mut pauses = link.pauses();
    while !node.gate.lock().is_closed() {
        let attempt = node.gate.begin_attempt();
        let Err(error) = try_to_renew(link, node).await else {
            break;
        };
        let is_retryable = error.is_retryable();
        tracing::warn!(target: TARGET, node = node.config.node, %error, is_retryable, "no lease");
        if !is_retryable {
            return Err((attempt, error));
        }
        node.gate.lock().failed(&error);
        if let Some(pause) = pauses.next() {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

async fn try_to_renew(link: &Link, node: &Node) -> Result<(), Error> {
    let lease = node.gate.lock().guarded.clone();
    if let Some(lease) = lease {
        let request = LeaseRequest::new(node.config.lease);
        let renewed = link
            .query(statement::worker_renew(
                &lease.worker_id,
                &lease.nonce,
                &lease.token,
                &request,
            ))
            .await;
        match renewed {
            Ok((token, registry_ceiling)) => {
                let mut state = node.gate.lock();
                state.succeeded();
                if let Some(kept) = state
                    .guarded
                    .as_mut()
                    .filter(|kept| kept.nonce == lease.nonce)
                {
                    kept.token = token;
                    kept.registry_ceiling = registry_ceiling;
                }
                drop(state);
                node.raise_ceiling();
                tracing::debug!(target: TARGET, worker_id = lease.worker_id, "lease renewed");
                return Ok(());
            }
            Err(error) if is_lost(&error) => {
                tracing::warn!(target: TARGET, worker_id = lease.worker_id, %error, "lease lost");
            }
            Err(error) => return Err(error),
        }
    }
    register(link, node).await
}

/// Whether the registry no longer has the lease.
fn is_lost(error: &Error) -> bool {
    error.sqlstate() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
}

async fn register(link: &Link, node: &Node) -> Result<(), Error> {
    let config = &node.config;
    let request = LeaseRequest::new(config.lease);
    let Granted {
        worker_id,
        nonce,
        token,
        start,
        ceiling,
        scheme,
    } = link
        .query(statement::worker_register(
            &config.node,
            &config.worker_id,
            &request,
        ))
        .await?;
    tracing::info!(target: TARGET, node = config.node, worker_id, "registered");
    let lease = Lease {
        worker_id,
        nonce,
        token,
        scheme,
        registry_ceiling: ceiling,
        ceiling: start,
    };
    let unused = lease.clone();
    match node.begin(lease, start) {
        Ok(()) => Ok(()),
        Err(error) => {
            // Otherwise each attempt would keep another worker id.
            end_lease(link, &unused, start).await?;
            Err(error)
        }
    }
}

/// Releases a lease whose ids end at an instant.
async fn end_lease(link: &Link, lease: &Lease, end: WallTime) -> Result<(), Error> {
    let used_until = system_time(end);
    let Lease {
        worker_id,
        nonce,
        token,
        ..
    } = lease;
    let statement = statement::worker_release(worker_id, nonce, token, &used_until);
    link.query(statement).await?;
    tracing::info!(target: TARGET, worker_id, "released");
    Ok(())
}

/// Closes the node and releases its lease; the worker id is free from the time of
/// the last id on.
pub(super) async fn release(link: Arc<Link>, node: Arc<Node>) -> Result<(), Error> {
    let lease = {
        let mut state = node.gate.lock();
        state.close();
        state.guarded.take()
    };
    node.gate.wake();
    let Some(lease) = lease else {
        return Ok(());
    };
    let end = node.generator.end(&lease.scheme.layout);
    let end = lease.scheme.instant_of(end);
    if let Some(cache) = &node.cache {
        cache.remove().map_err(Error::cache)?;
    }
    end_lease(&link, &lease, end).await
}
