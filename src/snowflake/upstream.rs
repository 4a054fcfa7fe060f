//! Worker ids from a centre.
//!
//! If `leaf.upstream` is set, the registry of the centre leases the worker id: to this
//! database in its present history, for as long as `leaf.upstream_lease`. The row of this
//! server keeps that lease. Below its ceiling, the server raises its own, short ceiling as it
//! would alone, so that ids go on while the centre is away.

use std::cell::{Cell, RefCell};

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::layout::Layout;
use leaf_core::time::WallTime;
use uuid::Uuid;

use super::error::Error;
use super::lease::{self, Claimant, Leased, database_history, random_token};
use super::registration;
use crate::catalog;
use crate::catalog::registry::{self, UpstreamLease};
use crate::link::call::call_link;
use crate::pg::clock;
use crate::settings::snowflake::Wanted;
use crate::settings::upstream as upstream_settings;
use crate::shmem::Shared;
use crate::shmem::generators::Registry;
use crate::shmem::text::Text;
use crate::shmem::upstream::{Answer, Demand, DemandId, Reply};

/// Whether the worker id of this database comes from a centre.
pub fn is_shard() -> bool {
    upstream_settings::upstream().is_some() || catalog::as_owner(registry::is_of_shard)
}

/// What an attempt to lease or renew has come to.
pub enum Attempt {
    /// The ceiling was raised, and the centre need not be asked.
    Leased(Leased),
    /// The centre has to be asked. With the lease, if there is one meanwhile.
    Ask(Box<Demand>, Option<Leased>),
}

/// Leases or renews, as far as the lease from the centre allows. Runs in a transaction, as the
/// owner of the registry. `current` is the lease in force, `last` the time of the last id.
pub fn attempt(wanted: &Wanted, current: Option<Leased>, last: WallTime) -> Result<Attempt, Error> {
    let server = Claimant::server(wanted);
    let own = registry::upstream_lease(&server.node).filter(|own| {
        let wanted = server.worker_id;
        wanted.is_none_or(|worker_id| worker_id == own.worker_id)
    });
    let Some(own) = own else {
        return Ok(Attempt::Ask(Box::new(register(wanted)), None));
    };
    let now = clock::now();
    if own.ceiling <= now.max(last) {
        return Ok(Attempt::Ask(Box::new(renew(&own)), None));
    }
    let leased = raise(server, &own, current, last)?;
    Ok(match own.ceiling <= now + upstream_settings::lease() / 2 {
        true => Attempt::Ask(Box::new(renew(&own)), Some(leased)),
        false => Attempt::Leased(leased),
    })
}

/// Raises the server's own ceiling, below that of the centre's lease.
fn raise(
    server: Claimant,
    own: &UpstreamLease,
    current: Option<Leased>,
    last: WallTime,
) -> Result<Leased, Error> {
    let claimant = Claimant {
        limit: Some(own.ceiling),
        worker_id: Some(own.worker_id),
        ..server
    };
    if let Some(current) = current.filter(|it| it.lease.worker_id == own.worker_id)
        && let Some(renewed) = lease::renew(&claimant, &current, last, current.lease.token + 1)?
    {
        return Ok(renewed);
    }
    begin(claimant, own)
}

/// Begins a lease of the server's own with a worker id of the centre.
fn begin(claimant: Claimant, own: &UpstreamLease) -> Result<Leased, Error> {
    let scheme = registration::scheme(&claimant.scheme)?;
    let history = database_history();
    let row = registry::row(own.worker_id as i64);
    let begun = registration::begin(&claimant, &history, scheme, own.worker_id, row.as_ref(), 0)?;
    registry::keep_upstream_lease(own);
    begun.ok_or(Error::Contended)
}

/// Stores what the centre has answered, and leases accordingly. Runs as [`attempt`] does.
pub fn store(
    wanted: &Wanted,
    demand: &Demand,
    reply: &Reply,
    current: Option<Leased>,
    last: WallTime,
) -> Result<Attempt, Error> {
    match (*reply, demand) {
        (
            Reply::Leased {
                worker_id,
                nonce,
                token,
                start_at,
                ceiling,
                layout,
                epoch,
            },
            _,
        ) => {
            check_scheme(wanted, &layout.get(), epoch)?;
            let own = UpstreamLease {
                worker_id,
                nonce,
                token,
                ceiling,
            };
            let server = Claimant::server(wanted);
            let claimant = Claimant {
                limit: Some(ceiling),
                not_before: Some(start_at),
                worker_id: Some(worker_id),
                last: current
                    .map(|_| last)
                    .filter(|&last| lease::may_begin(last, server.clock)),
                ..server
            };
            begin(claimant, &own).map(Attempt::Leased)
        }
        (
            Reply::Renewed { token, ceiling },
            Demand::Renew {
                worker_id, nonce, ..
            },
        ) => {
            registry::keep_upstream_lease(&UpstreamLease {
                worker_id: *worker_id,
                nonce: *nonce,
                token,
                ceiling,
            });
            attempt(wanted, current, last)
        }
        (Reply::Renewed { .. } | Reply::Fed { .. }, _) => Err(Error::Contended),
    }
}

/// The centre has the same layout and epoch as this server.
fn check_scheme(wanted: &Wanted, layout: &str, epoch: WallTime) -> Result<(), Error> {
    let wanted = registration::scheme(&wanted.scheme)?;
    let layout = layout.parse::<Layout>().unwrap_or(wanted.layout);
    let registered = Scheme { layout, epoch };
    match registered == wanted {
        true => Ok(()),
        false => Err(Error::OtherScheme { registered, wanted }),
    }
}

/// The leases from the centre are lost: another one is needed.
pub fn forget() {
    registry::forget_upstream_leases(&lease::server_name());
}

fn register(wanted: &Wanted) -> Demand {
    if let Some(again @ Demand::Register { .. }) = UNANSWERED.get() {
        return again;
    }
    Demand::Register {
        node: Text::of(&format!("shard {}", database_history())),
        worker_id: wanted.worker_id,
        nonce: *Uuid::new_v4().as_bytes(),
        ahead: upstream_settings::lease(),
    }
}

fn renew(own: &UpstreamLease) -> Demand {
    if let Some(again @ Demand::Renew { nonce, token, .. }) = UNANSWERED.get()
        && (nonce, token) == (own.nonce, own.token)
    {
        return again;
    }
    Demand::Renew {
        worker_id: own.worker_id,
        nonce: own.nonce,
        token: own.token,
        next_token: random_token(),
        ahead: upstream_settings::lease(),
    }
}

/// A request that waits for the centre.
struct UnderWay {
    registry: Registry,
    id: DemandId,
    demand: Demand,
}

thread_local! {
    static UNDER_WAY: RefCell<Option<UnderWay>> = const { RefCell::new(None) };
    /// A request of which it is not known whether the centre has done it. Repeated, it comes to
    /// the same.
    static UNANSWERED: Cell<Option<Demand>> = const { Cell::new(None) };
}

/// Whether the centre is being asked.
pub fn is_under_way() -> bool {
    UNDER_WAY.with_borrow(Option::is_some)
}

/// Asks the centre; `false` if that is not possible now. Raises no error.
pub fn ask(shared: &Shared, registry: Registry, demand: Demand) -> bool {
    if is_under_way() {
        return true;
    }
    let Some(id) = shared.upstream.post(&demand) else {
        return false;
    };
    if !call_link(shared) {
        shared.upstream.withdraw(id);
        return false;
    }
    UNANSWERED.set(Some(demand));
    UNDER_WAY.replace(Some(UnderWay {
        registry,
        id,
        demand,
    }));
    true
}

/// What the centre has answered, if it has.
pub fn answered(shared: &Shared) -> Option<(Registry, Demand, Answer)> {
    UNDER_WAY.with_borrow_mut(|under_way| {
        let it = under_way.as_ref()?;
        let Some(answer) = shared.upstream.collect(it.id) else {
            call_link(shared);
            return None;
        };
        let UnderWay {
            registry, demand, ..
        } = under_way.take()?;
        let is_settled = answer.is_ok_and(|_| true) || answer.is_err_and(|it| it.is_definite());
        if is_settled {
            UNANSWERED.set(None);
        }
        Some((registry, demand, answer))
    })
}

/// The loader ends. A lease that the centre grants from now on is repeated by nobody.
pub fn abandon(shared: &Shared) {
    if let Some(it) = UNDER_WAY.take() {
        shared.upstream.withdraw(it.id);
    }
}
