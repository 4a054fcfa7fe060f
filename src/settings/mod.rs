//! Every setting of leaf: a private static with the reason it exists, and one
//! accessor. Nobody else touches the statics.

pub mod snowflake;

use std::time::Duration;

use leaf_core::StepPolicy;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting};

/// Shared memory is sized once, at server start. More tags than this work:
/// idle ones give up their place.
static MAX_TAGS: GucSetting<i32> = GucSetting::<i32>::new(1024);

/// A caller that must wait is told why instead of waiting for ever.
static WAIT_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(5_000);

/// Bounds what a crash can lose: two segments per tag.
static MAX_STEP: GucSetting<i32> = GucSetting::<i32>::new(1_000_000);

/// How long the catalog may be out of reach without anybody noticing.
static SEGMENT_DURATION: GucSetting<i32> = GucSetting::<i32>::new(15 * 60);

/// Meituan Leaf fetches the next segment once a tenth of the current is gone.
static PREFETCH_THRESHOLD: GucSetting<i32> = GucSetting::<i32>::new(10);

/// Each database that issues snowflake ids has its worker in shared memory.
static MAX_DATABASES: GucSetting<i32> = GucSetting::<i32>::new(128);

/// A loader occupies a background worker slot: it leaves when nobody draws.
static LOADER_IDLE_TIMEOUT: GucSetting<i32> = GucSetting::<i32>::new(60_000);

/// A standby that is promoted may have missed this many of the last grants.
static HISTORY_SKIP: GucSetting<i32> = GucSetting::<i32>::new(10);

/// How many tags shared memory holds at once.
pub fn max_tags() -> usize {
    MAX_TAGS.get().max(1) as usize
}

/// How many databases can issue snowflake ids at once.
pub fn max_databases() -> usize {
    MAX_DATABASES.get().max(1) as usize
}

/// How long a caller waits for ids before it gets an error.
pub fn wait_timeout() -> Duration {
    Duration::from_millis(WAIT_TIMEOUT.get().max(1) as u64)
}

/// How large the next segment of a tag shall be.
pub fn step_policy() -> StepPolicy {
    StepPolicy {
        segment_duration: Duration::from_secs(SEGMENT_DURATION.get().max(1) as u64),
        max_step: MAX_STEP.get().max(1) as u64,
    }
}

/// After how many ids of a segment of `len` the next one is fetched.
pub fn prefetch_after(len: u64) -> u64 {
    let percent = PREFETCH_THRESHOLD.get().clamp(0, 100) as u64;
    // Split to stay clear of overflow; exact enough for a threshold.
    len / 100 * percent + len % 100 * percent / 100
}

/// How long a loader lives without work.
pub fn loader_idle_timeout() -> Duration {
    Duration::from_millis(LOADER_IDLE_TIMEOUT.get().max(1) as u64)
}

/// How many of the last grants a new history of the cluster skips.
pub fn history_skip() -> u64 {
    HISTORY_SKIP.get().max(0) as u64
}

/// Defines the settings. Called once, while the server preloads leaf.
pub fn init() {
    snowflake::init();
    let int = |name, short, long, setting, min, max, context, unit| {
        GucRegistry::define_int_guc(name, short, long, setting, min, max, context, unit);
    };
    int(
        c"leaf.max_tags",
        c"Number of tags that shared memory holds at once.",
        c"More tags than this work, but one that has not been used for a while gives up its place and its unused ids; \
          when this is too low, active tags evict each other and waste ids. About 1.3 kB of shared memory each.",
        &MAX_TAGS,
        16,
        1_000_000,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    int(
        c"leaf.max_databases",
        c"Number of databases that can issue snowflake ids at once.",
        c"When it is too low, further databases get an error. About 2 kB of shared memory each.",
        &MAX_DATABASES,
        1,
        100_000,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    int(
        c"leaf.wait_timeout",
        c"How long a caller waits for ids before it gets an error.",
        c"Too short, and callers fail while a grant takes its time; too long, and they hang while the catalog is locked.",
        &WAIT_TIMEOUT,
        1,
        i32::MAX,
        GucContext::Userset,
        GucFlags::UNIT_MS,
    );
    int(
        c"leaf.max_step",
        c"Largest segment that leaf fetches on its own account, in ids.",
        c"A tag whose row asks for a larger step gets that step. Too low, and busy tags load often; \
          too high, and a crash leaves wider gaps (at most two segments per tag).",
        &MAX_STEP,
        1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"leaf.segment_duration",
        c"How long one segment should last.",
        c"A segment that lasted less doubles the next one; one that lasted more than twice this halves it. \
          Too short, and a slow or locked catalog is noticed by callers.",
        &SEGMENT_DURATION,
        1,
        7 * 24 * 3600,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    int(
        c"leaf.prefetch_threshold",
        c"Percentage of a segment after which the next one is fetched.",
        c"100 fetches only once nothing is left, so that callers wait at every segment boundary.",
        &PREFETCH_THRESHOLD,
        0,
        100,
        GucContext::Sighup,
        GucFlags::default(),
    );
    int(
        c"leaf.loader_idle_timeout",
        c"How long a loader stays without work.",
        c"Too short, and the first caller after a pause waits for a new loader to start; \
          too long, and idle databases keep background worker slots.",
        &LOADER_IDLE_TIMEOUT,
        100,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    int(
        c"leaf.history_skip",
        c"How many grants are skipped at the first grant after a promotion or a restore.",
        c"Counted in the tag's last segment and its largest reserved block. Too low, and a promoted asynchronous standby \
          that had missed more grants than this repeats ids; too high only leaves a wider gap.",
        &HISTORY_SKIP,
        0,
        1_000_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
}
