//! Keeping the lease: from the cache, from the registry, and back to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use leaf_core::snowflake::generator::Span;
use tokio_postgres::error::SqlState;

use super::clock::unix_us;
use super::{Inner, Lease};
use crate::Error;
use crate::calls::statement::{self, Granted, Wish, from_unix_us};
use crate::gate::Try;
use crate::leaf::Shared;
use crate::link::TARGET;

/// How far ahead of its use the ceiling is written to the cache.
const CACHE_AHEAD_US: i64 = 5_000_000;

impl Inner {
    /// Goes on with the lease that the cache holds, above what an earlier life
    /// may have issued with it.
    pub(super) fn start_from_cache(&self) {
        let Some(cache) = &self.cache else {
            return;
        };
        let Some(lease) = cache.load(&self.config.node) else {
            return;
        };
        let wanted = self.config.worker_id;
        if wanted.is_some_and(|worker| worker != lease.worker) {
            return;
        }
        let from_us = lease.ceiling_us;
        let lead_us = from_us.saturating_sub(unix_us());
        if lead_us > self.config.rules.max_lead_us as i64 {
            tracing::warn!(target: TARGET, lead_us, "the clock is behind the cached lease");
            return;
        }
        tracing::info!(target: TARGET, worker_id = lease.worker, "lease from the cache");
        if let Err(error) = self.begin(lease, from_us) {
            self.gate.lock().failed(&error);
        }
    }

    /// Issues ids of a lease from an instant on.
    ///
    /// # Errors
    /// [`Error::Cache`], [`Error::Closed`], or that the ids would be of another
    /// layout than before. The lease is not used then.
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
        let from_us = from_us.max(scheme.instant_of(scheme.tick_at(unix_us())));
        self.set_ceiling(&mut lease, from_us)?;
        let (from, ceiling) = (scheme.tick_from(from_us), scheme.tick_at(lease.ceiling_us));
        let span = Span {
            worker: lease.worker as u64,
            from,
            ceiling,
            renew_at: midway(from, ceiling),
        };
        let now = scheme.since_epoch(unix_us());
        self.generator.install_above(&scheme.layout, span, now);
        state.guarded = Some(lease);
        state.succeeded();
        drop(state);
        self.gate.wake();
        Ok(())
    }

    /// Raises the ceiling of the present lease as far as the registry's allows.
    /// Whether that one should be raised, too.
    pub(super) fn raise_ceiling(&self) -> bool {
        let mut state = self.gate.lock();
        let Some(lease) = &state.guarded else {
            return true;
        };
        let mut lease = lease.clone();
        let scheme = lease.scheme;
        let last = self.generator.last_tick(&scheme.layout);
        let last_us = scheme.instant_of(last).max(unix_us());
        if lease.ceiling_us < lease.registry_ceiling_us {
            match self.set_ceiling(&mut lease, last_us) {
                Ok(()) => {
                    let ceiling = scheme.tick_at(lease.ceiling_us);
                    let now = scheme.tick_at(last_us);
                    self.generator
                        .extend(&scheme.layout, ceiling, midway(now, ceiling));
                    state.guarded = Some(lease.clone());
                }
                Err(error) => state.failed(&error),
            }
        }
        drop(state);
        self.gate.wake();
        let half = (self.config.lease.as_micros() / 2) as i64;
        lease.registry_ceiling_us < last_us.saturating_add(half)
    }

    /// Moves the ceiling ahead of an instant, in the cache first.
    fn set_ceiling(&self, lease: &mut Lease, last_us: i64) -> Result<(), Error> {
        let Some(cache) = &self.cache else {
            lease.ceiling_us = lease.registry_ceiling_us;
            return Ok(());
        };
        let scheme = lease.scheme;
        let wanted = scheme.tick_from(last_us.saturating_add(CACHE_AHEAD_US));
        let two_ticks = scheme.tick_at(last_us) + 2;
        let wanted_us = scheme.instant_of(wanted.max(two_ticks));
        lease.ceiling_us = wanted_us.min(lease.registry_ceiling_us);
        cache.store(&self.config.node, lease).map_err(Error::cache)
    }
}

fn midway(from: u64, to: u64) -> u64 {
    from + to.saturating_sub(from) / 2
}

/// Renews the lease, or registers, until that has succeeded or is hopeless.
pub(super) async fn renew(shared: Arc<Shared>, inner: Arc<Inner>) {
    let renewed = renew_with_patience(&shared, &inner).await;
    inner.is_renewing.store(false, Ordering::Release);
    if let Err((which, error)) = renewed {
        inner.gate.failed_for_good(which, &error);
    }
}

/// An error is that of a try that failed for good.
async fn renew_with_patience(shared: &Shared, inner: &Inner) -> Result<(), (Try, Error)> {
    let mut pauses = shared.link.pauses();
    while !inner.gate.lock().is_closed() {
        let which = inner.gate.begin_try();
        let Err(error) = try_to_renew(shared, inner).await else {
            break;
        };
        let is_retryable = error.is_retryable();
        tracing::warn!(target: TARGET, node = inner.config.node, %error, is_retryable, "no lease");
        if !is_retryable {
            return Err((which, error));
        }
        inner.gate.lock().failed(&error);
        if let Some(pause) = pauses.next() {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

async fn try_to_renew(shared: &Shared, inner: &Inner) -> Result<(), Error> {
    let lease = inner.gate.lock().guarded.clone();
    let ahead = inner.config.lease.as_secs_f64();
    if let Some(lease) = lease {
        let wish = Wish {
            clock: SystemTime::now(),
            ahead,
        };
        let renewed = shared
            .link
            .run(statement::worker_renew(
                &lease.worker,
                &lease.nonce,
                &lease.token,
                &wish,
            ))
            .await;
        match renewed {
            Ok((token, registry_ceiling_us)) => {
                let mut state = inner.gate.lock();
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
                inner.raise_ceiling();
                tracing::debug!(target: TARGET, worker_id = lease.worker, "lease renewed");
                return Ok(());
            }
            Err(error) if is_lost(&error) => {
                tracing::warn!(target: TARGET, worker_id = lease.worker, %error, "lease lost");
            }
            Err(error) => return Err(error),
        }
    }
    register(shared, inner, ahead).await
}

/// Whether the registry knows the lease no more.
fn is_lost(error: &Error) -> bool {
    error.sqlstate() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
}

async fn register(shared: &Shared, inner: &Inner, ahead: f64) -> Result<(), Error> {
    let wish = Wish {
        clock: SystemTime::now(),
        ahead,
    };
    let config = &inner.config;
    let Granted {
        worker,
        nonce,
        token,
        start_us,
        ceiling_us,
        scheme,
    } = shared
        .link
        .run(statement::worker_register(
            &config.node,
            &config.worker_id,
            &wish,
        ))
        .await?;
    tracing::info!(target: TARGET, node = config.node, worker_id = worker, "registered");
    let lease = Lease {
        worker,
        nonce,
        token,
        scheme,
        registry_ceiling_us: ceiling_us,
        ceiling_us: start_us,
    };
    let unused = lease.clone();
    match inner.begin(lease, start_us) {
        Ok(()) => Ok(()),
        Err(error) => {
            // Or else every try would hold another worker id.
            end_lease(shared, &unused, start_us).await?;
            Err(error)
        }
    }
}

/// Gives a lease back whose ids end at an instant.
async fn end_lease(shared: &Shared, lease: &Lease, end_us: i64) -> Result<(), Error> {
    let used_until = from_unix_us(end_us);
    let Lease {
        worker,
        nonce,
        token,
        ..
    } = lease;
    let statement = statement::worker_release(worker, nonce, token, &used_until);
    shared.link.run(statement).await?;
    tracing::info!(target: TARGET, worker_id = worker, "released");
    Ok(())
}

/// Ends the lease; the worker id is free from the last id on.
pub(super) async fn release(shared: &Shared, inner: &Inner) -> Result<(), Error> {
    let lease = {
        let mut state = inner.gate.lock();
        state.close();
        inner.generator.fence();
        state.guarded.take()
    };
    inner.gate.wake();
    let Some(lease) = lease else {
        return Ok(());
    };
    // A caller under way may still take an id of the last tick or of now.
    let last = inner.generator.last_tick(&lease.scheme.layout);
    let now = lease.scheme.tick_at(unix_us());
    let end_us = lease.scheme.instant_of(last.max(now) + 2);
    if let Some(cache) = &inner.cache {
        cache.remove().map_err(Error::cache)?;
    }
    end_lease(shared, &lease, end_us).await
}
