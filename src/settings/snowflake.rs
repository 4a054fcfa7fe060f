//! The settings of snowflake ids.
//!
//! Those that concern the lease are read by whoever leases for the database:
//! its loader, which takes them from the configuration file and from
//! `ALTER DATABASE`. What a session sets for itself changes no lease.

use std::ffi::{CStr, CString};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use leaf_core::snowflake::generator::{ClockPolicy, ClockRules};
use leaf_core::snowflake::{Layout, Scheme};
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum};

use crate::pg::guc::{self, Check};

/// Systems that read ids elsewhere expect a certain layout.
static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"leaf"));

/// A recent epoch gives the time field the longest life.
static EPOCH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

/// Where worker ids are planned by hand, one id per node.
static WORKER_ID: GucSetting<i32> = GucSetting::<i32>::new(-1);

/// Restarted containers would use up the worker ids if none came back.
static WORKER_LEASE: GucSetting<i32> = GucSetting::<i32>::new(600);

/// A worker of another history may be alive where that history goes on.
static WORKER_REUSE_AFTER: GucSetting<i32> = GucSetting::<i32>::new(30 * 24 * 3600);

/// What a clock that went back means is for the application to say.
static CLOCK_POLICY: GucSetting<Policy> = GucSetting::<Policy>::new(Policy::Error);

/// Time services step clocks by a few milliseconds now and then.
static CLOCK_TOLERANCE: GucSetting<i32> = GucSetting::<i32>::new(5);

/// Ids that run far ahead of the clock say a wrong time.
static MAX_CLOCK_LEAD: GucSetting<i32> = GucSetting::<i32>::new(60_000);

/// How long ids can be drawn while the ceiling cannot be raised.
static CEILING_AHEAD: GucSetting<i32> = GucSetting::<i32>::new(5_000);

/// A node whose clock is far off the others' issues ids of a wrong time.
static MAX_CLOCK_OFFSET: GucSetting<i32> = GucSetting::<i32>::new(5_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
enum Policy {
    #[name = c"error"]
    Error,
    #[name = c"wait"]
    Wait,
    #[name = c"borrow"]
    Borrow,
}

struct LayoutText;

impl Check for LayoutText {
    fn check(value: &str) -> Result<(), String> {
        let layout = value.parse::<Layout>();
        layout.map(|_| ()).map_err(|error| error.to_string())
    }
}

struct EpochText;

impl Check for EpochText {
    fn check(value: &str) -> Result<(), String> {
        parse_epoch(value).map(|_| ())
    }
}

/// The layout and epoch that a first registration fixes.
pub fn scheme() -> Scheme {
    let text = |setting: &GucSetting<Option<CString>>| {
        let value = setting.get().unwrap_or_default();
        value.to_string_lossy().into_owned()
    };
    // Both were checked when they were set.
    let mut scheme = Scheme::of(text(&LAYOUT).parse().unwrap_or(Layout::LEAF));
    if let Ok(Some(epoch_us)) = parse_epoch(&text(&EPOCH)) {
        scheme.epoch_us = epoch_us;
    }
    scheme
}

/// The worker id to insist on.
pub fn worker_id() -> Option<u64> {
    u64::try_from(WORKER_ID.get()).ok()
}

/// How long a worker that does not renew its lease keeps its worker id.
pub fn worker_lease() -> Duration {
    Duration::from_secs(WORKER_LEASE.get().max(1) as u64)
}

/// How long after that a worker of another history keeps it.
pub fn worker_reuse_after() -> Duration {
    Duration::from_secs(WORKER_REUSE_AFTER.get().max(0) as u64)
}

/// What to do when the clock is behind the last id.
pub fn clock_rules() -> ClockRules {
    ClockRules {
        policy: match CLOCK_POLICY.get() {
            Policy::Error => ClockPolicy::Error,
            Policy::Wait => ClockPolicy::Wait,
            Policy::Borrow => ClockPolicy::Borrow,
        },
        tolerance_us: CLOCK_TOLERANCE.get().max(0) as u64 * 1_000,
        max_lead_us: max_clock_lead().as_micros() as u64,
    }
}

/// How far ahead of the clock ids may be.
pub fn max_clock_lead() -> Duration {
    Duration::from_millis(MAX_CLOCK_LEAD.get().max(0) as u64)
}

/// How far ahead of its use the ceiling is made durable.
pub fn ceiling_ahead() -> Duration {
    Duration::from_millis(CEILING_AHEAD.get().max(1) as u64)
}

/// How far off a node's clock may be at its registration.
pub fn max_clock_offset() -> Duration {
    Duration::from_millis(MAX_CLOCK_OFFSET.get().max(0) as u64)
}

/// Defines the settings.
pub(super) fn init() {
    define_scheme();
    define_lease();
    define_clock();
}

fn define_scheme() {
    guc::define_string::<LayoutText>(
        c"leaf.snowflake_layout",
        c"How snowflake ids are divided into time, worker id and sequence.",
        c"leaf, uid, sonyflake, js53, decimal, or custom:TIME,WORKER,SEQUENCE[,TICK] in bits, with a tick such as 1ms. \
          Fixed by the first registration in a database; another value is an error from then on.",
        &LAYOUT,
    );
    guc::define_string::<EpochText>(
        c"leaf.snowflake_epoch",
        c"The instant that the time in snowflake ids counts from.",
        c"A time in UTC such as 2024-01-01T00:00:00Z; empty for the layout's own. \
          Fixed by the first registration in a database; another value is an error from then on.",
        &EPOCH,
    );
}

fn define_lease() {
    int(
        c"leaf.worker_id",
        c"The worker id in this server's snowflake ids.",
        c"-1 leases one. Another value is checked against the registry: one that another node holds is refused.",
        &WORKER_ID,
        -1,
        i32::MAX,
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"leaf.worker_lease",
        c"How long a worker that does not renew its lease keeps its worker id.",
        c"Too short, and a node that was idle gets another worker id each time; too long, and nodes that are gone \
          keep theirs. An id that changes hands goes on above its ceiling in any case.",
        &WORKER_LEASE,
        1,
        365 * 24 * 3600,
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    int(
        c"leaf.worker_reuse_after",
        c"How long after its lease a worker id of another history of the database is given away.",
        c"Its holder may be alive: the old primary after a promotion, the original of a copy. Too short, and both issue the same ids.",
        &WORKER_REUSE_AFTER,
        0,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_S,
    );
    int(
        c"leaf.ceiling_ahead",
        c"How far ahead of its use the ceiling of snowflake ids is made durable.",
        c"Too short, and callers wait for the ceiling while the disk is slow; too long, and after a crash ids run that far ahead of the clock.",
        &CEILING_AHEAD,
        100,
        600_000,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    int(
        c"leaf.max_clock_offset",
        c"How far the clock of a node may be off the registry's and the other nodes' at its registration.",
        c"Too small, and nodes with slightly different clocks are refused; too large, and ids of different nodes are not ordered by time.",
        &MAX_CLOCK_OFFSET,
        0,
        i32::MAX,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
}

fn define_clock() {
    GucRegistry::define_enum_guc(
        c"leaf.clock_policy",
        c"What to do when the clock is behind the last snowflake id by more than leaf.clock_tolerance.",
        c"error refuses ids until the clock has caught up, wait waits for it up to leaf.wait_timeout, \
          borrow goes on from the last id's time, up to leaf.max_clock_lead ahead of the clock.",
        &CLOCK_POLICY,
        GucContext::Suset,
        GucFlags::default(),
    );
    int(
        c"leaf.clock_tolerance",
        c"How far the clock may be behind the last snowflake id and is just waited for.",
        c"Too small, and small corrections of the clock become errors; too large, and callers wait that long.",
        &CLOCK_TOLERANCE,
        0,
        600_000,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
    int(
        c"leaf.max_clock_lead",
        c"How far ahead of the clock snowflake ids may run.",
        c"After a restart with a clock that is behind the ceiling, and with clock_policy = borrow. Too small, and a crash \
          followed by a small step of the clock stops ids for a while; too large, and ids say a time that is not yet.",
        &MAX_CLOCK_LEAD,
        0,
        24 * 3600 * 1_000,
        GucContext::Suset,
        GucFlags::UNIT_MS,
    );
}

#[allow(clippy::too_many_arguments)]
fn int(
    name: &'static CStr,
    short: &'static CStr,
    long: &'static CStr,
    setting: &'static GucSetting<i32>,
    min: i32,
    max: i32,
    context: GucContext,
    unit: GucFlags,
) {
    GucRegistry::define_int_guc(name, short, long, setting, min, max, context, unit);
}

/// An instant in microseconds since 1970; `None` for the layout's own.
fn parse_epoch(text: &str) -> Result<Option<i64>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let instant = text.parse::<Timestamp>().or_else(|_| {
        let in_utc = text.parse::<DateTime>()?.to_zoned(TimeZone::UTC)?;
        Ok::<_, jiff::Error>(in_utc.timestamp())
    });
    match instant {
        Ok(instant) => Ok(Some(instant.as_microsecond())),
        Err(error) => Err(format!("\"{text}\" is not a time in UTC: {error}")),
    }
}
