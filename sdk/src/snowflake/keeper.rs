//! Keeping a lease: it comes from the cache or from the registry, is renewed, and is
//! released.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use leaf_core::snowflake::ceiling;
use leaf_core::snowflake::generator::Span;
use tokio_postgres::error::SqlState;

use super::clock::unix_us;
use super::lease::Lease;
use super::node::Node;
use crate::Error;
use crate::calls::statement::{self, Granted, LeaseRequest};
use crate::events::TARGET;
use crate::gate::Attempt;
use crate::link::Link;
use crate::time::from_unix_us;

/// How far ahead of its use the ceiling is written to the cache.
const CACHE_AHEAD_US: i64 = 5_000_000;

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
        let from_us = lease.ceiling_us;
        let lead_us = from_us.saturating_sub(unix_us());
        if lead_us > self.config.rules.max_lead_us as i64 {
            tracing::warn!(target: TARGET, lead_us, "the clock is behind the cached lease");
            return;
        }
        tracing::info!(target: TARGET, worker_id = lease.worker_id, "lease from the cache");
        if let Err(error) = self.begin(lease, from_us) {
            self.gate.lock().failed(&error);
        }
    }

    /// Issues ids of a lease from an instant on.
    ///
    /// # Errors
    /// [`Error::Cache`], [`Error::Closed`], or [`Error::Protocol`] if the ids would
    /// have another layout than before. The lease is then not used.
    fn begin(&self, mut lease: Lease, from_us: i64) -> Result<(), Error> {
        let scheme = lease.scheme;
        if *self.scheme.get_or_init(|| scheme) != scheme {
            let changed = "the registry's layout or epoch has changed".into();
            return Err(Error::Protocol(changed));
        }
        let mut state = self.gate.lock();
        if state.is_closed() {
            return Err(Error::Closed);
        }
        let clock_us = unix_us();
        let from_us = from_us.max(scheme.instant_of(scheme.tick_at(clock_us)));
        self.set_ceiling(&mut lease, clock_us, from_us)?;
        let (from, until) = (scheme.tick_from(from_us), scheme.tick_at(lease.ceiling_us));
        let span = Span {
            worker: lease.worker_id as u64,
            from,
            ceiling: until,
            renew_at: ceiling::renew_at(from, until),
        };
        let now = scheme.since_epoch(unix_us());
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
        let clock_us = unix_us();
        let last_us = scheme.instant_of(self.generator.last_tick(&scheme.layout));
        let used_us = last_us.max(clock_us);
        if lease.ceiling_us < lease.registry_ceiling_us {
            match self.set_ceiling(&mut lease, clock_us, last_us) {
                Ok(()) => {
                    let until = scheme.tick_at(lease.ceiling_us);
                    let renew_at = ceiling::renew_at(scheme.tick_at(used_us), until);
                    self.generator.extend(&scheme.layout, until, renew_at);
                    state.guarded = Some(lease.clone());
                }
                Err(error) => state.failed(&error),
            }
        }
        drop(state);
        self.gate.wake();
        let half = (self.config.lease.as_micros() / 2) as i64;
        lease.registry_ceiling_us < used_us.saturating_add(half)
    }

    /// Moves the ceiling ahead of the clock and of the last id, in the cache first.
    fn set_ceiling(&self, lease: &mut Lease, clock_us: i64, last_us: i64) -> Result<(), Error> {
        let Some(cache) = &self.cache else {
            lease.ceiling_us = lease.registry_ceiling_us;
            return Ok(());
        };
        let next_us = ceiling::next(&lease.scheme, clock_us, last_us, CACHE_AHEAD_US);
        // Never lower, even if the clock has gone back: a concurrent draw may still
        // take an id below the earlier ceiling.
        let next_us = next_us.max(lease.ceiling_us);
        lease.ceiling_us = next_us.min(lease.registry_ceiling_us);
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
    let ahead = node.config.lease.as_secs_f64();
    if let Some(lease) = lease {
        let request = LeaseRequest {
            clock: SystemTime::now(),
            ahead,
        };
        let renewed = link
            .query(statement::worker_renew(
                &lease.worker_id,
                &lease.nonce,
                &lease.token,
                &request,
            ))
            .await;
        match renewed {
            Ok((token, registry_ceiling_us)) => {
                let mut state = node.gate.lock();
                state.succeeded();
                if let Some(kept) = state
                    .guarded
                    .as_mut()
                    .filter(|kept| kept.nonce == lease.nonce)
                {
                    kept.token = token;
                    kept.registry_ceiling_us = registry_ceiling_us;
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
    register(link, node, ahead).await
}

/// Whether the registry no longer has the lease.
fn is_lost(error: &Error) -> bool {
    error.sqlstate() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
}

async fn register(link: &Link, node: &Node, ahead: f64) -> Result<(), Error> {
    let request = LeaseRequest {
        clock: SystemTime::now(),
        ahead,
    };
    let config = &node.config;
    let Granted {
        worker_id,
        nonce,
        token,
        start_us,
        ceiling_us,
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
        registry_ceiling_us: ceiling_us,
        ceiling_us: start_us,
    };
    let unused = lease.clone();
    match node.begin(lease, start_us) {
        Ok(()) => Ok(()),
        Err(error) => {
            // Otherwise each attempt would keep another worker id.
            end_lease(link, &unused, start_us).await?;
            Err(error)
        }
    }
}

/// Releases a lease whose ids end at an instant.
async fn end_lease(link: &Link, lease: &Lease, end_us: i64) -> Result<(), Error> {
    let used_until = from_unix_us(end_us);
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
        node.generator.fence();
        state.guarded.take()
    };
    node.gate.wake();
    let Some(lease) = lease else {
        return Ok(());
    };
    // A concurrent draw may still take an id of the last tick or of the current one.
    let last = node.generator.last_tick(&lease.scheme.layout);
    let now = lease.scheme.tick_at(unix_us());
    let end_us = lease.scheme.instant_of(last.max(now) + 2);
    if let Some(cache) = &node.cache {
        cache.remove().map_err(Error::cache)?;
    }
    end_lease(&link, &lease, end_us).await
}
