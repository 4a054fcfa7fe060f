//! Keeping the lease: from the cache, from the registry, and back to it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use leaf_core::snowflake::generator::Span;
use tokio_postgres::error::SqlState;

use super::{Inner, Lease, unix_us};
use crate::Error;
use crate::calls::statement::{self, Granted, Wish, from_unix_us};
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
        self.begin(lease, from_us);
    }

    /// Issues ids of a lease from an instant on.
    fn begin(&self, mut lease: Lease, from_us: i64) {
        if *self.scheme.get_or_init(|| lease.scheme) != lease.scheme {
            let changed = "the registry's layout or epoch has changed".into();
            return self.failed(&Error::Protocol(changed), true);
        }
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let scheme = lease.scheme;
        let from_us = from_us.max(scheme.instant_of(scheme.tick_at(unix_us())));
        if let Err(error) = self.set_ceiling(&mut lease, from_us) {
            state.last_error = Some(error.to_string());
            return;
        }
        let (from, ceiling) = (scheme.tick_from(from_us), scheme.tick_at(lease.ceiling_us));
        let span = Span {
            worker: lease.worker as u64,
            from,
            ceiling,
            renew_at: midway(from, ceiling),
        };
        let now = scheme.since_epoch(unix_us());
        self.generator.install_above(&scheme.layout, span, now);
        state.lease = Some(lease);
        state.failure = None;
        drop(state);
        self.wake();
    }

    /// Raises the ceiling of the present lease as far as the registry's allows.
    /// Whether that one should be raised, too.
    pub(super) fn raise_ceiling(&self) -> bool {
        let mut state = self.state.lock();
        let Some(lease) = &state.lease else {
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
                    state.lease = Some(lease.clone());
                }
                Err(error) => state.last_error = Some(error.to_string()),
            }
        }
        drop(state);
        self.wake();
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

    /// Records a failed try; one `for_good` ends the wait of who waits now.
    fn failed(&self, error: &Error, for_good: bool) {
        let mut state = self.state.lock();
        state.last_error = Some(error.to_string());
        if for_good {
            state.failures += 1;
            state.failure = Some(error.clone());
        }
        drop(state);
        self.wake();
    }
}

fn midway(from: u64, to: u64) -> u64 {
    from + to.saturating_sub(from) / 2
}

/// Renews the lease, or registers, until that has succeeded or is hopeless.
pub(super) async fn renew(shared: Arc<Shared>, inner: Arc<Inner>) {
    let mut pauses = shared.link.pauses();
    while !inner.state.lock().is_closed {
        let Err(error) = try_to_renew(&shared, &inner).await else {
            break;
        };
        let is_retryable = error.is_retryable();
        tracing::warn!(target: TARGET, node = inner.config.node, %error, is_retryable, "no lease");
        inner.failed(&error, !is_retryable);
        if !is_retryable {
            break;
        }
        if let Some(pause) = pauses.next() {
            tokio::time::sleep(pause).await;
        }
    }
    inner.is_renewing.store(false, Ordering::Release);
}

async fn try_to_renew(shared: &Shared, inner: &Inner) -> Result<(), Error> {
    let lease = inner.state.lock().lease.clone();
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
                let mut state = inner.state.lock();
                if let Some(kept) = state
                    .lease
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
    inner.begin(lease, start_us);
    Ok(())
}

/// Ends the lease; the worker id is free from the last id on.
pub(super) async fn release(shared: &Shared, inner: &Inner) -> Result<(), Error> {
    let lease = {
        let mut state = inner.state.lock();
        state.is_closed = true;
        inner.generator.fence();
        state.lease.take()
    };
    inner.wake();
    let Some(lease) = lease else {
        return Ok(());
    };
    // A caller under way may still take an id of the last tick or of now.
    let last = inner.generator.last_tick(&lease.scheme.layout);
    let now = lease.scheme.tick_at(unix_us());
    let used_until = from_unix_us(lease.scheme.instant_of(last.max(now) + 2));
    if let Some(cache) = &inner.cache {
        cache.remove().map_err(Error::cache)?;
    }
    let statement =
        statement::worker_release(&lease.worker, &lease.nonce, &lease.token, &used_until);
    shared.link.run(statement).await?;
    tracing::info!(target: TARGET, worker_id = lease.worker, "released");
    Ok(())
}
