//! Issuing ids with a lease: it is put into force, and its own ceiling, which the cache has, is
//! raised below that of the registry.

use std::sync::atomic::Ordering;
use std::time::Duration;

use leaf_core::snowflake::generator::Span;
use leaf_core::snowflake::{Scheme, ceiling};
use leaf_core::time::WallTime;

use super::lease::{Holding, Lease};
use super::node::Node;
use crate::Error;
use crate::time;

/// How far ahead of its use the ceiling is written to the cache.
const CACHE_AHEAD: Duration = Duration::from_secs(5);

/// How often draws ask for a renewal that has not come, before the ceiling is reached.
const ASK_EVERY: Duration = Duration::from_secs(1);

impl Node {
    /// Loads what the cache has. Returns whether there is a lease or a registration that the
    /// registry has to be asked for.
    pub(super) fn load_cache(&self) -> bool {
        let Some(cache) = &self.cache else {
            return false;
        };
        let mut found = cache.load(&self.config.node);
        let wanted = self.config.worker_id;
        found.cached = found
            .cached
            .filter(|lease| wanted.is_none_or(|wanted| wanted == lease.held.terms.worker_id));
        let has_any = found.cached.is_some() || found.nonce.is_some();
        self.gate.lock().guarded = found;
        has_any
    }

    /// Whether ids of a lease may begin at an instant: at most as far ahead of the clock as
    /// ids may be, or in the next tick, for which draws wait.
    pub(super) fn may_begin(&self, scheme: &Scheme, from: WallTime) -> bool {
        let clock = time::now();
        from <= clock + Duration::from_micros(self.config.rules.max_lead_us)
            || scheme.tick_from(from) <= scheme.tick_at(clock) + 1
    }

    /// How often the lease was forgotten: one is of the time when it was asked for.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Drops the lease, and one that is on its way.
    ///
    /// # Errors
    /// [`Error::Cache`]: the cache still has the lease.
    pub(super) fn forget(&self) -> Result<(), Error> {
        let mut state = self.gate.lock();
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        let held = std::mem::take(&mut state.guarded);
        if let Some(lease) = held.lease {
            self.generator.end(&lease.held.terms.scheme.layout);
        }
        match &self.cache {
            Some(cache) => cache.begin_generation().map_err(Error::cache),
            None => Ok(()),
        }
    }

    /// Issues ids of a lease from an instant on, unless the lease was forgotten since it was asked
    /// for.
    ///
    /// # Errors
    /// [`Error::Cache`], [`Error::Closed`], [`Error::LeaseLost`] if it was forgotten, or
    /// [`Error::Protocol`] if the ids would have another layout than before. The lease is then not
    /// used.
    pub(super) fn begin(
        &self,
        mut lease: Lease,
        from: WallTime,
        forgotten: u64,
    ) -> Result<(), Error> {
        let scheme = lease.held.terms.scheme;
        if *self.scheme.get_or_init(|| scheme) != scheme {
            let changed = "the registry's layout or epoch has changed".into();
            return Err(Error::Protocol(changed));
        }
        let mut state = self.gate.lock();
        if state.is_closed() {
            return Err(Error::Closed);
        }
        if self.forgotten() != forgotten {
            return Err(Error::LeaseLost("it was forgotten".into()));
        }
        let clock = time::now();
        let from = from.max(scheme.instant_of(scheme.tick_at(clock)));
        self.set_ceiling(&mut lease, clock, from)?;
        let (from, until) = (scheme.tick_from(from), scheme.tick_at(lease.ceiling));
        let span = Span {
            worker_id: lease.held.terms.worker_id as u64,
            from,
            ceiling: until,
            renew_at: renew_at(&scheme, from, until),
        };
        let now = scheme.since_epoch(time::now());
        self.generator.install_above(&scheme.layout, span, now);
        state.guarded = Holding {
            lease: Some(lease),
            ..Holding::default()
        };
        state.succeeded();
        drop(state);
        self.gate.wake();
        Ok(())
    }

    /// Raises the ceiling of the current lease, at most to the registry's. Returns
    /// whether that one should be raised, too.
    pub(super) fn raise_ceiling(&self) -> bool {
        let mut state = self.gate.lock();
        let Some(lease) = &state.guarded.lease else {
            return true;
        };
        let mut lease = lease.clone();
        let scheme = lease.held.terms.scheme;
        let clock = time::now();
        let last = scheme.instant_of(self.generator.last_tick(&scheme.layout));
        let used = last.max(clock);
        if lease.ceiling < lease.held.terms.ceiling {
            match self.set_ceiling(&mut lease, clock, last) {
                Ok(()) => {
                    let until = scheme.tick_at(lease.ceiling);
                    let renew_at = renew_at(&scheme, scheme.tick_at(used), until);
                    self.generator.extend(&scheme.layout, until, renew_at);
                    state.guarded.lease = Some(lease.clone());
                }
                Err(error) => state.failed(&error),
            }
        } else {
            // Only the registry can help, which a task asks: draws need not ask for it.
            let ask_at = scheme.tick_at(used + ASK_EVERY);
            let until = scheme.tick_at(lease.ceiling);
            self.generator.extend(&scheme.layout, until, ask_at);
        }
        drop(state);
        self.gate.wake();
        lease.held.terms.ceiling < used + self.config.lease / 2
    }

    /// Moves the ceiling ahead of the clock and of the last id, in the cache first.
    fn set_ceiling(&self, lease: &mut Lease, clock: WallTime, last: WallTime) -> Result<(), Error> {
        let Some(cache) = &self.cache else {
            lease.ceiling = lease.held.terms.ceiling;
            return Ok(());
        };
        let next = ceiling::next(&lease.held.terms.scheme, clock, last, CACHE_AHEAD);
        // Never lower, even if the clock has gone back: a concurrent draw may still
        // take an id below the earlier ceiling.
        let next = next.max(lease.ceiling);
        lease.ceiling = next.min(lease.held.terms.ceiling);
        cache.store(&self.config.node, lease).map_err(Error::cache)
    }
}

/// The tick from which a ceiling is due to be raised. If ticks are long, always: the ceiling
/// can be the end of the tick, and no id of the tick shows that it comes near.
fn renew_at(scheme: &Scheme, from: u64, until: u64) -> u64 {
    match ceiling::is_long(scheme) {
        true => from,
        false => ceiling::renew_at(from, until),
    }
}

#[cfg(test)]
mod tests {
    use leaf_core::snowflake::generator::Stop;
    use leaf_core::snowflake::lease::{HeldLease, Identity};
    use leaf_core::snowflake::{Layout, Scheme, Terms};

    use super::*;
    use crate::SnowflakeConfig;

    /// Each request costs more than a draw.
    #[test]
    fn draws_do_not_go_on_asking_for_a_renewal_that_does_not_come() {
        let config = crate::Config::new("host=db").expect("a string");
        let place = crate::snowflake::cache::Place::of(&config);
        let node = Node::new(SnowflakeConfig::new("node"), place).expect("a node");
        let now = time::now();
        let terms = Terms {
            scheme: Scheme::of(Layout::LEAF),
            worker_id: 1,
            start: now,
            ceiling: now + Duration::from_millis(100),
        };
        let registry = Identity {
            incarnation: [0; 16],
            history: String::new(),
        };
        let lease = Lease {
            held: HeldLease::granted(terms, [0; 16], 0, registry),
            ceiling: now,
        };
        node.begin(lease, now, 0).expect("a lease");
        let mut requests = 0;
        loop {
            match node.take(1) {
                Ok(taken) if taken.due => {
                    requests += 1;
                    assert!(node.raise_ceiling(), "the registry has to be asked");
                }
                Ok(_) | Err(Stop::Wait { .. }) => {}
                Err(Stop::Ceiling) => break,
                Err(stop) => panic!("{stop:?}"),
            }
        }
        assert_eq!(requests, 1);
    }
}
