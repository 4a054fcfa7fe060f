//! The settings of snowflake ids.
//!
//! Those that concern the lease are read by the process that leases for the
//! database: its loader, which takes them from the configuration file and from
//! `ALTER DATABASE`. Setting them in a session does not change the server's lease; it
//! concerns only leases that the session registers or renews for other nodes.

use std::ffi::{CString, c_int, c_void};
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use leaf_core::snowflake::generator::{ClockPolicy, ClockRules};
use leaf_core::snowflake::{Layout, Scheme};
use leaf_core::time::WallTime;
use pgrx::{GucContext, GucFlags, GucRegistry, GucSetting, PostgresGucEnum, pg_sys};

use super::integer::{ChangedBy, Integer, Unit};
use super::upstream::{self, CentreDigest};
use crate::pg::guc::{self, Check, Origin};
use crate::pg::report;

pub(super) const INTEGERS: &[&Integer] = &[
    &WORKER_ID,
    &WORKER_LEASE,
    &WORKER_REUSE_AFTER,
    &CEILING_AHEAD,
    &MAX_CLOCK_OFFSET,
    &CLOCK_TOLERANCE,
    &MAX_CLOCK_LEAD,
];

/// Defines the settings that are not integers.
pub(super) fn define_others() {
    let long = format!(
        "{} in bits, with a tick such as 1ms. \
         The first registration in a database fixes it; a different value is an error from then on.",
        Layout::forms()
    );
    guc::define_string::<LayoutText>(
        c"leaf.snowflake_layout",
        c"How snowflake ids are divided into time, worker id and sequence.",
        // Settings are defined once, and keep their texts.
        Box::leak(CString::new(long).unwrap_or_default().into_boxed_c_str()),
        &LAYOUT,
    );
    guc::define_string::<EpochText>(
        c"leaf.snowflake_epoch",
        c"The instant from which the time in snowflake ids is counted.",
        c"A time in UTC such as 2024-01-01T00:00:00Z; empty for the layout's own epoch. \
          The first registration in a database fixes it; a different value is an error from then on.",
        &EPOCH,
    );
    GucRegistry::define_enum_guc(
        c"leaf.clock_policy",
        c"What to do when the clock is behind the last snowflake id by more than leaf.clock_tolerance.",
        c"With error, calls fail until the clock has caught up; with wait, they wait for it up to leaf.wait_timeout; \
          with borrow, ids continue from the last id's time, up to leaf.max_clock_lead ahead of the clock.",
        &CLOCK_POLICY,
        GucContext::Suset,
        GucFlags::default(),
    );
}

/// Systems that read ids elsewhere expect a certain layout.
static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"leaf"));

/// With a recent epoch, the time field lasts longest.
static EPOCH: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));

/// The requirements of the settings on the lease of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct LeaseSettings {
    /// The worker id, if one is set.
    pub worker_id: Option<u64>,
    /// The layout and epoch that a first registration fixes.
    pub scheme: Scheme,
    /// The centre that is to lease it.
    pub centre: CentreDigest,
}

/// The requirements of the settings of this process.
pub fn wanted() -> LeaseSettings {
    let text = |setting: &GucSetting<Option<CString>>| {
        let value = setting.get().unwrap_or_default();
        value.to_string_lossy().into_owned()
    };
    read(WORKER_ID.get_optional(), &text(&LAYOUT), &text(&EPOCH))
}

/// The requirements of these values of the settings, which were checked when they were set.
pub fn read(worker_id: Option<u64>, layout: &str, epoch: &str) -> LeaseSettings {
    let mut scheme = Scheme::of(layout.parse().unwrap_or(Layout::LEAF));
    if let Ok(Some(epoch)) = parse_epoch(epoch) {
        scheme.epoch = epoch;
    }
    LeaseSettings {
        worker_id,
        scheme,
        centre: upstream::digest(),
    }
}

/// The layout and epoch that a first registration fixes.
pub fn scheme() -> Scheme {
    wanted().scheme
}

/// The application determines what should happen when the clock has gone back.
static CLOCK_POLICY: GucSetting<Policy> = GucSetting::<Policy>::new(Policy::Error);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
enum Policy {
    #[name = c"error"]
    Error,
    #[name = c"wait"]
    Wait,
    #[name = c"borrow"]
    Borrow,
}

/// Time services step clocks by a few milliseconds now and then.
static CLOCK_TOLERANCE: Integer = Integer {
    name: c"leaf.clock_tolerance",
    short: c"How far behind the last snowflake id the clock may be for calls to wait for it.",
    long: c"If the value is too low, small corrections of the clock become errors; \
        if it is too high, callers wait that long. \
        Raise it on machines whose clock is often set back a little.",
    default: GucSetting::<i32>::new(5),
    min: 0,
    max: 600_000,
    changed_by: ChangedBy::Superuser,
    unit: Unit::Milliseconds,
};

/// The rules for a clock that is behind the last id.
pub fn clock_rules() -> ClockRules {
    ClockRules {
        policy: match CLOCK_POLICY.get() {
            Policy::Error => ClockPolicy::Error,
            Policy::Wait => ClockPolicy::Wait,
            Policy::Borrow => ClockPolicy::Borrow,
        },
        tolerance_us: CLOCK_TOLERANCE.get_unsigned() * 1_000,
        max_lead_us: max_clock_lead().as_micros() as u64,
    }
}

/// Ids far ahead of the clock carry future timestamps.
static MAX_CLOCK_LEAD: Integer = Integer {
    name: c"leaf.max_clock_lead",
    short: c"How far ahead of the clock snowflake ids may run.",
    long: c"Ids run ahead after a restart with a clock that is behind the ceiling, and with leaf.clock_policy = borrow. \
        If the value is too low, a crash followed by a small step of the clock stops ids for a while; \
        if it is too high, ids carry future timestamps. \
        Raise it if a server must issue ids soon after its clock was set back far.",
    default: GucSetting::<i32>::new(60_000),
    min: 0,
    max: 24 * 3600 * 1_000,
    changed_by: ChangedBy::Superuser,
    unit: Unit::Milliseconds,
};

/// How far ahead of the clock ids may be.
pub fn max_clock_lead() -> Duration {
    Duration::from_millis(MAX_CLOCK_LEAD.get_unsigned())
}

/// For installations in which worker ids are assigned by hand, one per node.
static WORKER_ID: Integer = Integer {
    name: c"leaf.worker_id",
    short: c"The worker id in this server's snowflake ids.",
    long: c"With -1, the server leases any worker id. Any other value is checked against the registry: \
        a worker id that another node holds is refused. Set it in postgresql.conf or with ALTER DATABASE: \
        the next session of the database makes the server take it. \
        Set it where worker ids are assigned by hand.",
    default: GucSetting::<i32>::new(-1),
    min: -1,
    max: i32::MAX,
    changed_by: ChangedBy::Loader(check_worker_id),
    unit: Unit::None,
};

/// Accepts every value: which are possible depends on the layout, which a restore may set
/// later. Warns of one that has no effect, or is not possible with the current layout.
unsafe extern "C-unwind" fn check_worker_id(
    value: *mut c_int,
    _extra: *mut *mut c_void,
    source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: called by PostgreSQL, with a pointer to the value.
    unsafe {
        report::guarded(|| {
            let layout = scheme().layout;
            match (Origin::of(source), u64::try_from(*value)) {
                // When: `SET leaf.worker_id`
                (Origin::Session, _) => report::warn(
                    "leaf.worker_id has no effect in a session: only the loader reads it",
                    "Set it in postgresql.conf, or with ALTER DATABASE.",
                ),
                (Origin::Stored, Ok(worker_id)) if worker_id >= layout.worker_ids() => {
                    // When: `leaf.worker_id` is set for a database, a role or in the file
                    report::warn(
                        &format!("layout {layout} has no worker id {worker_id}"),
                        &format!(
                            "Its worker ids are 0 to {}. As long as both are set, there are no snowflake ids.",
                            layout.worker_ids() - 1
                        ),
                    )
                }
                _ => {}
            }
        });
    }
    true
}

/// Restarted containers would use up the worker ids if these were never reused.
static WORKER_LEASE: Integer = Integer {
    name: c"leaf.worker_lease",
    short: c"How long a node that does not renew its lease keeps its worker id.",
    long: c"If the value is too low, a node that was idle gets another worker id each time; \
        if it is too high, nodes that are gone keep their worker ids for a long time. \
        A worker id that is leased to another node continues above its ceiling in any case. \
        Raise it for nodes that pause for longer; lower it where nodes come and go and worker ids are few.",
    default: GucSetting::<i32>::new(600),
    min: 1,
    max: 365 * 24 * 3600,
    changed_by: ChangedBy::Superuser,
    unit: Unit::Seconds,
};

/// How long a node that does not renew its lease keeps its worker id.
pub fn worker_lease() -> Duration {
    Duration::from_secs(WORKER_LEASE.get_unsigned())
}

/// A node of another history may still be running where that history continues.
static WORKER_REUSE_AFTER: Integer = Integer {
    name: c"leaf.worker_reuse_after",
    short:
        c"How much longer a worker id is kept if it was leased in another history of the database.",
    long: c"Its holder may still be running: the old primary after a promotion, or the original of a copy. \
        If the value is too low, both can issue the same ids. \
        Lower it where promotions or copies use up the worker ids of a small layout.",
    default: GucSetting::<i32>::new(30 * 24 * 3600),
    min: 0,
    max: i32::MAX,
    changed_by: ChangedBy::Superuser,
    unit: Unit::Seconds,
};

/// How much longer a worker id is kept if it was leased in another history.
pub fn worker_reuse_after() -> Duration {
    Duration::from_secs(WORKER_REUSE_AFTER.get_unsigned())
}

/// How long ids can be drawn while the ceiling cannot be raised.
static CEILING_AHEAD: Integer = Integer {
    name: c"leaf.ceiling_ahead",
    short: c"How far ahead of its use the ceiling of snowflake ids is made durable.",
    long: c"If the value is too low, callers wait for the ceiling while the disk is slow; \
        if it is too high, ids run that far ahead of the clock after a crash. \
        Raise it where the disk or a synchronous standby can stall for seconds.",
    default: GucSetting::<i32>::new(5_000),
    min: 100,
    max: 600_000,
    changed_by: ChangedBy::Superuser,
    unit: Unit::Milliseconds,
};

/// How far ahead of its use the ceiling is made durable.
pub fn ceiling_ahead() -> Duration {
    Duration::from_millis(CEILING_AHEAD.get_unsigned())
}

/// A node whose clock is far off the other nodes' clocks issues ids with wrong times.
static MAX_CLOCK_OFFSET: Integer = Integer {
    name: c"leaf.max_clock_offset",
    short: c"How far a node's clock may differ from the registry's when it registers or renews.",
    long: c"If the value is too low, nodes with slightly different clocks are refused; \
        if it is too high, ids of different nodes are not ordered by time. \
        Raise it only where nodes have no synchronized clocks.",
    default: GucSetting::<i32>::new(5_000),
    min: 0,
    max: i32::MAX,
    changed_by: ChangedBy::Superuser,
    unit: Unit::Milliseconds,
};

/// How far off a node's clock may be when it registers or renews.
pub fn max_clock_offset() -> Duration {
    Duration::from_millis(MAX_CLOCK_OFFSET.get_unsigned())
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

/// An instant; `None` for the layout's own epoch.
fn parse_epoch(text: &str) -> Result<Option<WallTime>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let instant = text.parse::<Timestamp>().or_else(|_| {
        let in_utc = text.parse::<DateTime>()?.to_zoned(TimeZone::UTC)?;
        Ok::<_, jiff::Error>(in_utc.timestamp())
    });
    match instant {
        Ok(instant) => Ok(Some(WallTime::from_unix_us(instant.as_microsecond()))),
        Err(_) => Err(format!(
            "\"{text}\" is not a time in UTC, such as 2024-01-01T00:00:00Z."
        )),
    }
}
