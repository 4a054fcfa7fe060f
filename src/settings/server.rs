//! The settings that concern both kinds of ids.

use std::time::Duration;

use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

use super::integer::{ChangedBy, Integer, Unit};

pub(super) const ALL: &[&Integer] = &[&MAX_TAGS, &WAIT_TIMEOUT, &LOADER_IDLE_TIMEOUT];

/// Shared memory is sized once, at server start.
static MAX_TAGS: Integer = Integer {
    name: c"leaf.max_tags",
    short: c"Number of tags that shared memory holds at once.",
    long: c"More tags are allowed; idle ones are evicted, and their unused ids are given back or are a gap. \
        If the value is too low, active tags evict each other and waste ids. \
        Each tag takes about 630 bytes of shared memory. \
        Choose twice the number of tags that are drawn from within an hour.",
    default: GucSetting::<i32>::new(8192),
    min: 16,
    max: 1_000_000,
    changed_by: ChangedBy::Restart,
    unit: Unit::None,
};

/// How many tags shared memory holds at once.
pub fn max_tags() -> usize {
    MAX_TAGS.get_unsigned() as usize
}

/// A caller gets an error that names the cause instead of waiting without a limit.
static WAIT_TIMEOUT: Integer = Integer {
    name: c"leaf.wait_timeout",
    short: c"How long a caller waits for ids before it gets an error.",
    long: c"If the value is too low, callers fail while a grant is under way; \
        if it is too high, they wait for a long time while the catalog is locked. \
        Lower it for callers that would rather have an error soon than wait.",
    default: GucSetting::<i32>::new(5_000),
    min: 1,
    max: i32::MAX,
    changed_by: ChangedBy::Anybody,
    unit: Unit::Milliseconds,
};

/// How long a caller waits for ids before it gets an error.
pub fn wait_timeout() -> Duration {
    Duration::from_millis(WAIT_TIMEOUT.get_unsigned())
}

/// A loader occupies a background worker slot, so it ends when no session draws.
static LOADER_IDLE_TIMEOUT: Integer = Integer {
    name: c"leaf.loader_idle_timeout",
    short: c"How long a loader without work keeps running.",
    long:
        c"If the value is too low, the first caller after a pause waits for a new loader to start; \
        if it is too high, idle databases occupy background worker slots. \
        Lower it where many databases take turns and background workers are few.",
    default: GucSetting::<i32>::new(60_000),
    min: 100,
    max: i32::MAX,
    changed_by: ChangedBy::Reload,
    unit: Unit::Milliseconds,
};

/// Defines the settings that are not integers.
pub(super) fn define_others() {
    GucRegistry::define_bool_guc(
        c"leaf.lossless_failover",
        c"Whether a standby is promoted only if it has every confirmed commit, and its predecessor then issues nothing any more.",
        c"With on, a promoted server goes on feeding tags of other clusters, and with the worker id of its predecessor; \
          if that is not true, numbers and ids come twice. \
          With off, it leases another worker id, and feeds nothing until leaf_tag_vouch is called. \
          A promotion goes by the value with which the standby was started.",
        &LOSSLESS_FAILOVER,
        GucContext::Postmaster,
        GucFlags::default(),
    );
}

/// Cannot be concluded from what a promoted server has.
static LOSSLESS_FAILOVER: GucSetting<bool> = GucSetting::<bool>::new(false);

/// Whether failovers lose nothing that was confirmed.
pub fn lossless_failover() -> bool {
    LOSSLESS_FAILOVER.get()
}

/// How long a loader without work keeps running.
pub fn loader_idle_timeout() -> Duration {
    Duration::from_millis(LOADER_IDLE_TIMEOUT.get_unsigned())
}
