//! The settings of fed tags: of a shard, whose ids come from a centre, and of the centre.

use std::ffi::CString;
use std::time::Duration;

use sha2::{Digest, Sha256};

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

use super::integer::{ChangedBy, Integer, Unit};
use crate::pg::guc::{self, Check};
use crate::pg::libpq::LibPq;
use crate::pg::xact;

pub(super) const INTEGERS: &[&Integer] = &[&TIMEOUT, &LEASE, &MAX_LEASES];

/// Defines the settings that are not integers.
pub(super) fn define_others() {
    guc::define_hidden_string::<NoPassword>(
        c"leaf.upstream",
        c"How the centre is reached from which the ids of fed tags come.",
        c"A connection string of libpq, which may name several hosts, a service, a password file and certificates, \
          but must not contain a password. If it is empty, fed tags have no ids.",
        &UPSTREAM,
    );
    GucRegistry::define_bool_guc(
        c"leaf.allow_unreplicated_centre",
        c"Whether this server feeds tags of other clusters without a synchronous standby.",
        c"With off, such requests are refused unless there is a synchronous standby and leaf.lossless_failover is on, \
          because a failover could lose numbers that shards have got. \
          With on, feeding stops after a failover, unless leaf.lossless_failover is on, until somebody vouches for the tags.",
        &ALLOW_UNREPLICATED_CENTRE,
        GucContext::Sighup,
        GucFlags::default(),
    );
}

/// Only in the configuration file: database settings can be read by all, and are not copied
/// with the database.
static UPSTREAM: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

/// How the centre is reached, if there is one.
pub fn upstream() -> Option<String> {
    let text = UPSTREAM.get()?.to_string_lossy().trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// A digest of how the centre is reached; zeros if there is none.
pub type CentreDigest = [u8; 16];

/// The digest of the current setting.
pub fn digest() -> CentreDigest {
    upstream().map_or([0; 16], |setting| {
        let digest = Sha256::digest(setting.as_bytes());
        std::array::from_fn(|at| digest[at])
    })
}

/// A host that accepts connections and does not answer must not hold up the next one.
static TIMEOUT: Integer = Integer {
    name: c"leaf.upstream_timeout",
    short: c"How long a host of the centre may take to accept a connection, and to answer.",
    long: c"After this time, the next host is tried. The shortest time for connecting is two seconds. If the value is too low, \
        slow answers are lost, and the numbers in them; if it is too high, callers wait for a host that is gone. \
        Raise it for a centre that is far away.",
    default: GucSetting::<i32>::new(3_000),
    min: 100,
    max: 600_000,
    changed_by: ChangedBy::Reload,
    unit: Unit::Milliseconds,
};

/// How long a host of the centre may take to accept a connection, and to answer.
pub fn timeout() -> Duration {
    Duration::from_millis(TIMEOUT.get_unsigned())
}

/// How long a shard can issue snowflake ids while the centre is away.
static LEASE: Integer = Integer {
    name: c"leaf.upstream_lease",
    short: c"How far ahead the centre allows this server to issue snowflake ids.",
    long: c"The lease of the worker id is renewed when half of this time is left. If the value is too low, \
        snowflake ids stop when the centre is away for longer; if it is too high, the worker ids of servers that are gone \
        are not leased again for that long. \
        Raise it where the centre may be away for longer.",
    default: GucSetting::<i32>::new(3_600_000),
    min: 1_000,
    max: 24 * 3_600_000,
    changed_by: ChangedBy::Reload,
    unit: Unit::Milliseconds,
};

/// How far ahead of the clock the centre's ceiling should be.
pub fn lease() -> Duration {
    Duration::from_millis(LEASE.get_unsigned())
}

/// A role that was stolen must not be able to lease all worker ids.
static MAX_LEASES: Integer = Integer {
    name: c"leaf.max_leases",
    short: c"How many worker ids a role can hold at once.",
    long: c"For leaf_worker_register; superusers have no limit. Set it for a role with ALTER ROLE. If the value is too low, \
        nodes of the role get no worker id; if it is too high, a role can use up the worker ids of the layout. \
        Raise it for the role of a large fleet.",
    default: GucSetting::<i32>::new(1_000),
    min: 0,
    max: i32::MAX,
    changed_by: ChangedBy::Superuser,
    unit: Unit::None,
};

/// How many worker ids the current role can hold at once.
pub fn max_leases() -> u64 {
    MAX_LEASES.get_unsigned()
}

/// Shards reserve more in a moment than the skip after a failover covers.
static ALLOW_UNREPLICATED_CENTRE: GucSetting<bool> = GucSetting::<bool>::new(false);

/// Whether tags of other clusters are fed without a synchronous standby.
pub fn allow_unreplicated_centre() -> bool {
    ALLOW_UNREPLICATED_CENTRE.get()
}

struct NoPassword;

impl Check for NoPassword {
    /// The loader checks the string again, which may be that of a file.
    fn check(value: &str) -> Result<(), String> {
        if leaf_core::conninfo::may_contain_password(value) {
            return Err("It must not contain a password. Use a password file (passfile), a service file or a certificate.".into());
        }
        // ALTER SYSTEM, and hardly anything else: processes that never need libpq do not load it.
        let is_command = xact::is_in_transaction() && !xact::is_parallel_worker();
        if is_command && let Ok(pq) = LibPq::load(&guc::library_folder()) {
            pq.parse(value)
                .ok_or("It is not a valid connection string of libpq.")?;
        }
        Ok(())
    }
}
