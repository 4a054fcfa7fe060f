//! Keeping a lease: it comes from the cache or from the registry, is renewed, and is
//! released.
//!
//! Whatever the registry answers says which registry it is. A lease of another one is not used any
//! more, not even until its ceiling, which that one does not know; nor is one that the registry
//! does not have. In another history, after a failover, the registry is still the same, and the
//! lease goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leaf_core::snowflake::lease::{Nonce, Renewed, UNRENEWED};
use leaf_core::snowflake::request;
use leaf_core::time::WallTime;
use tokio_postgres::error::SqlState;

use super::lease::{Holding, Lease, new_nonce, new_token};
use super::node::Node;
use crate::Error;
use crate::background::caught;
use crate::calls::internal::{self, Parameter};
use crate::calls::statement::Statement;
use crate::events::TARGET;
use crate::gate::{Attempt, State};
use crate::link::Link;
use crate::time::{self, system_time};

/// Within which time the nodes renew their leases once more after a failover.
const AFTER_FAILOVER: Duration = Duration::from_secs(10);

/// How long after its registration a lease is renewed, which gives it its full length.
const FIRST_RENEWAL: Duration = Duration::from_secs(5);

/// After how long a request no longer says what the node's clock is; less than the offset that a
/// registry allows.
const OLD: Duration = Duration::from_secs(1);

/// Raises the ceiling, at most to the registry's, and that one once it comes near.
pub(super) async fn keep_ahead(link: Arc<Link>, node: Arc<Node>) {
    let raised = caught(async { Ok(node.raise_ceiling()) }).await;
    node.is_raising.store(false, Ordering::Release);
    let is_near = raised.unwrap_or_else(|error| {
        node.gate.lock().failed(&error);
        false
    });
    if is_near && !node.is_renewing.swap(true, Ordering::AcqRel) {
        renew(&link, &node).await;
    }
}

/// Asks the registry whether it still has the lease, if there is one.
pub(super) async fn confirm(link: Arc<Link>, node: Arc<Node>) {
    if node.gate.lock().guarded.lease.is_none() {
        return;
    }
    node.must_ask.store(true, Ordering::Release);
    if !node.is_renewing.swap(true, Ordering::AcqRel) {
        renew(&link, &node).await;
    }
}

/// Renews the lease, or registers, until that has succeeded or failed permanently.
async fn renew(link: &Arc<Link>, node: &Arc<Node>) {
    loop {
        node.must_ask.store(false, Ordering::Release);
        let renewed = caught(async { Ok(renew_with_patience(link, node).await) }).await;
        if renewed.is_err() {
            tokio::time::sleep(link.pauses().next().unwrap_or_default()).await;
        }
        node.is_renewing.store(false, Ordering::Release);
        match renewed {
            Ok(Ok(())) => {}
            Ok(Err((attempt, error))) => node.gate.failed_permanently(attempt, &error),
            Err(error) => {
                node.gate.lock().failed(&error);
                node.gate.wake();
            }
        }
        let must_ask = node.must_ask.load(Ordering::Acquire);
        if !must_ask || node.is_renewing.swap(true, Ordering::AcqRel) {
            return;
        }
    }
}

/// An error is that of an attempt that failed permanently.
async fn renew_with_patience(link: &Arc<Link>, node: &Arc<Node>) -> Result<(), (Attempt, Error)> {
    let mut pauses = link.pauses();
    while !node.gate.lock().is_closed() {
        let attempt = node.gate.begin_attempt();
        let Err(error) = try_to_renew(link, node).await else {
            break;
        };
        let is_retryable = error.is_retryable();
        let is_news = node.gate.lock().is_news(&error);
        match is_news {
            true => {
                tracing::warn!(target: TARGET, node = node.config.node, %error, is_retryable, "lease not granted")
            }
            false => {
                tracing::debug!(target: TARGET, node = node.config.node, %error, "lease still not granted")
            }
        }
        // As long as there are ids, nobody waits, and a refusal says nothing about the lease.
        if !is_retryable && !node.has_room() {
            return Err((attempt, error));
        }
        node.gate.lock().failed(&error);
        if let Some(pause) = pauses.next() {
            tokio::time::sleep(pause).await;
        }
    }
    Ok(())
}

async fn try_to_renew(link: &Arc<Link>, node: &Arc<Node>) -> Result<(), Error> {
    let forgotten = node.forgotten();
    let (lease, cached) = {
        let state = node.gate.lock();
        (state.guarded.lease.clone(), state.guarded.cached.clone())
    };
    let has_lease = match (lease, cached) {
        (Some(lease), _) => renew_in_use(link, node, lease).await?,
        (None, Some(cached)) => take_from_cache(link, node, cached, forgotten).await?,
        (None, None) => false,
    };
    match has_lease {
        true => Ok(()),
        false => register(link, node).await,
    }
}

/// Renews the lease in use; `false` if it is lost, and then no id of it is issued any more.
async fn renew_in_use(link: &Arc<Link>, node: &Arc<Node>, mut lease: Lease) -> Result<bool, Error> {
    if lease.held.next_token.is_none() {
        let mut state = node.gate.lock();
        let Some(kept) = state.guarded.lease.as_mut() else {
            return gone(&state);
        };
        kept.held.propose(new_token);
        lease = kept.clone();
        // Before the renewal is sent: after a restart, it is repeated.
        if let Some(cache) = &node.cache {
            cache
                .store(&node.config.node, &lease)
                .map_err(Error::cache)?;
        }
    }
    let is_renewed = ask_to_renew(link, node, &mut lease).await?;
    let mut state = node.gate.lock();
    let Some(kept) = state.guarded.lease.as_mut() else {
        return gone(&state);
    };
    if !is_renewed {
        state.guarded.lease = None;
        node.generator.end(&lease.held.terms.scheme.layout);
        return Ok(false);
    }
    // Meanwhile, its own ceiling may have been raised.
    lease.ceiling = kept.ceiling;
    tracing::debug!(target: TARGET, worker_id = lease.held.terms.worker_id, "lease renewed");
    *kept = lease;
    state.succeeded();
    drop(state);
    node.raise_ceiling();
    Ok(true)
}

/// The lease was released or forgotten meanwhile.
fn gone(state: &State<Holding>) -> Result<bool, Error> {
    match state.is_closed() {
        true => Err(Error::Closed),
        false => Ok(false),
    }
}

/// Renews the lease once more, after this time.
fn confirm_after(link: &Arc<Link>, node: &Arc<Node>, pause: Duration) {
    let (link, node) = (link.clone(), Arc::downgrade(node));
    tokio::spawn(async move {
        tokio::time::sleep(pause).await;
        if let Some(node) = node.upgrade() {
            confirm(link, node).await;
        }
    });
}

/// Begins with the lease in the cache, above the ids that an earlier process may have issued
/// with it, if the registry still has it; `false` if not. While the registry gives no answer,
/// the cache decides, and the registry goes on being asked.
async fn take_from_cache(
    link: &Arc<Link>,
    node: &Arc<Node>,
    mut lease: Lease,
    forgotten: u64,
) -> Result<bool, Error> {
    let from = lease.ceiling;
    if !node.may_begin(&lease.held.terms.scheme, from) {
        let lead_us = from.us_after(time::now());
        tracing::warn!(target: TARGET, lead_us, "the clock is behind the cached lease");
        node.gate.lock().guarded.cached = None;
        return Ok(false);
    }
    lease.held.propose(new_token);
    if let Some(cache) = &node.cache {
        cache
            .store(&node.config.node, &lease)
            .map_err(Error::cache)?;
    }
    let asked = ask_to_renew(link, node, &mut lease).await;
    match &asked {
        Ok(true) => {}
        Ok(false) => {
            node.gate.lock().guarded.cached = None;
            return Ok(false);
        }
        Err(error) if is_outage(error) && !lease.held.is_doubtful => {}
        Err(_) => return asked,
    }
    let (worker_id, is_confirmed) = (lease.held.terms.worker_id, asked.is_ok());
    tracing::info!(target: TARGET, worker_id, is_confirmed, "lease from the cache");
    node.begin(lease, from, forgotten)?;
    asked
}

/// Sends a renewal, and enters into the lease what is answered; `false` if the lease is lost.
async fn ask_to_renew(
    link: &Arc<Link>,
    node: &Arc<Node>,
    lease: &mut Lease,
) -> Result<bool, Error> {
    let held = &mut lease.held;
    let (worker_id, next_token) = (held.terms.worker_id, held.propose(new_token));
    let (clock, ahead) = (Parameter::Clock, node.config.lease);
    let asked = request::renew(worker_id, held.nonce, held.token, clock, ahead, next_token);
    let answer = match answer_in_time(link, internal::renew(asked)).await {
        Err(error) if is_lost(&error) => {
            tracing::warn!(target: TARGET, worker_id, %error, "lease lost");
            return Ok(false);
        }
        answer => answer?,
    };
    let renewed = held.renewed(answer.token, answer.ceiling, answer.registry);
    match renewed.map_err(|error| Error::Protocol(error.to_string()))? {
        Renewed::Confirmed => {}
        Renewed::FailedOver => {
            tracing::info!(target: TARGET, node = node.config.node, "the registry has failed over");
            // At another moment than the other nodes.
            confirm_after(link, node, AFTER_FAILOVER.mul_f64(fastrand::f64()));
        }
        Renewed::OtherRegistry => {
            let error = "this is another registry";
            tracing::warn!(target: TARGET, worker_id, error, "lease lost");
            return Ok(false);
        }
    }
    Ok(true)
}

/// The registry's answer. A request that was long under way says what the clock was, not what it
/// is: if the registry refuses it for that, it has not decided.
async fn answer_in_time<T>(link: &Link, statement: Statement<T>) -> Result<T, Error> {
    let asked_at = Instant::now();
    let answer = link.query(statement).await;
    let after = asked_at.elapsed();
    match answer {
        Err(Error::Clock(_)) if after > OLD => Err(Error::Timeout { after, last: None }),
        answer => answer,
    }
}

/// Whether the registry has not decided.
fn is_outage(error: &Error) -> bool {
    error.is_retryable() && !matches!(error, Error::Clock(_))
}

/// Whether the registry no longer has the lease.
fn is_lost(error: &Error) -> bool {
    error.sqlstate() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)
}

/// The nonce of the registration under way, or of a new one.
fn registration_nonce(node: &Node) -> Result<Nonce, Error> {
    let mut state = node.gate.lock();
    if let Some(nonce) = state.guarded.nonce {
        return Ok(nonce);
    }
    let nonce = new_nonce();
    // Before the registration is sent: after a restart, it is repeated.
    if let Some(cache) = &node.cache {
        cache
            .begin(&node.config.node, nonce)
            .map_err(Error::cache)?;
    }
    state.guarded.nonce = Some(nonce);
    Ok(nonce)
}

async fn register(link: &Arc<Link>, node: &Arc<Node>) -> Result<(), Error> {
    let (config, forgotten) = (&node.config, node.forgotten());
    let nonce = registration_nonce(node)?;
    let (clock, ahead) = (Parameter::Clock, config.lease);
    let asked = request::register(&config.node, config.worker_id, nonce, clock, ahead);
    let answer = answer_in_time(link, internal::register(asked)).await;
    let granted = answer.inspect_err(|error| {
        if error.sqlstate().is_some() && !matches!(error, Error::Connection(_)) {
            // It was refused, so there is nothing to repeat.
            node.gate.lock().guarded.nonce = None;
        }
    })?;
    let start = granted.terms.start;
    let worker_id = granted.terms.worker_id;
    tracing::info!(target: TARGET, node = config.node, worker_id, "registered");
    let lease = Lease {
        held: granted,
        ceiling: start,
    };
    let unused = lease.clone();
    match node.begin(lease, start, forgotten) {
        Ok(()) => {
            if config.lease > UNRENEWED {
                confirm_after(link, node, FIRST_RENEWAL);
            }
            Ok(())
        }
        Err(error) => {
            // The registration repeated, also after a restart, would give the same lease, which the release
            // may still reach.
            if let Some(cache) = &node.cache {
                cache.begin_generation().map_err(Error::cache)?;
            }
            node.gate.lock().guarded.nonce = None;
            // Otherwise each attempt would keep another worker id.
            end_lease(link, &unused, start).await?;
            Err(error)
        }
    }
}

/// Learns the current token of a lease of which a renewal is under way, or was not answered. Repeated, it
/// returns the same. Whether the lease is lost, its release says.
async fn settle_renewal(
    link: &Arc<Link>,
    node: &Arc<Node>,
    lease: &mut Lease,
) -> Result<(), Error> {
    if lease.held.next_token.is_some() {
        ask_to_renew(link, node, lease).await?;
    }
    Ok(())
}

/// Releases a lease whose ids end at an instant.
async fn end_lease(link: &Link, lease: &Lease, end: WallTime) -> Result<(), Error> {
    let used_until = system_time(end);
    let worker_id = lease.held.terms.worker_id;
    let statement = internal::worker_release(
        "",
        worker_id,
        lease.held.nonce,
        lease.held.token,
        used_until,
    );
    link.query(statement).await?;
    tracing::info!(target: TARGET, worker_id, "released");
    Ok(())
}

/// Closes the node and releases its lease; the worker id is free from the time of
/// the last id on. If the server cannot be reached, the cache keeps the lease; if the
/// release ends with an error, only for a start with the server.
pub(super) async fn release(link: Arc<Link>, node: Arc<Node>) -> Result<(), Error> {
    let lease = {
        let mut state = node.gate.lock();
        state.close();
        state.guarded.lease.take()
    };
    node.gate.wake();
    // Who closes a generator that is being released already waits for that.
    let _alone = node.releasing.lock().await;
    let Some(mut lease) = lease else {
        return Ok(());
    };
    let end = node.generator.end(&lease.held.terms.scheme.layout);
    let end = lease.held.terms.scheme.instant_of(end);
    let Some(cache) = &node.cache else {
        settle_renewal(&link, &node, &mut lease).await?;
        return end_lease(&link, &lease, end).await;
    };
    let store = |lease: &Lease| {
        let stored = cache.store_last(&node.config.node, lease);
        stored.map_err(Error::cache)
    };
    lease.ceiling = end.min(lease.held.terms.ceiling);
    let reached = match link.reach().await {
        Ok(()) => settle_renewal(&link, &node, &mut lease).await,
        away => away,
    };
    if let Err(error) = reached {
        store(&lease)?;
        return Err(error);
    }
    // From now on, only the registry can tell whether the lease exists, and an earlier file is
    // not used.
    lease.held.is_doubtful = true;
    cache.begin_generation().map_err(Error::cache)?;
    store(&lease)?;
    // An error may be that of a pooler, after the lease has ended.
    end_lease(&link, &lease, end).await?;
    cache.remove().map_err(Error::cache)
}
