//! The settings of segment ids.

use std::time::Duration;

use leaf_core::grant::Grantor;
use leaf_core::{StepPolicy, buffer};
use pgrx::GucSetting;

use super::integer::{ChangedBy, Integer, Unit};

pub(super) const ALL: &[&Integer] = &[
    &MAX_STEP,
    &SEGMENT_DURATION,
    &PREFETCH_THRESHOLD,
    &HISTORY_SKIP,
    &MAX_RESERVE,
];

/// Bounds what a crash can lose: two segments per tag.
static MAX_STEP: Integer = Integer {
    name: c"leaf.max_step",
    short: c"Largest segment that leaf chooses by itself, in ids.",
    long: c"If a tag's row has a larger step, that step is used. If the value is too low, \
        busy tags load often; if it is too high, a crash leaves wider gaps (at most two segments per tag). \
        Lower it where gaps matter more than the number of loads.",
    default: GucSetting::<i32>::new(1_000_000),
    min: 1,
    max: i32::MAX,
    changed_by: ChangedBy::Reload,
    unit: Unit::None,
};

/// How long the catalog can be out of reach before callers have to wait.
static SEGMENT_DURATION: Integer = Integer {
    name: c"leaf.segment_duration",
    short: c"How long one segment should last.",
    long: c"After a segment that lasted less, the next one is at least doubled, up to the largest step; after one that lasted more than twice this, \
        it is halved. If the value is too low, callers have to wait when the catalog is slow or locked. \
        Raise it where the catalog or the centre may be away for longer.",
    default: GucSetting::<i32>::new(15 * 60),
    min: 1,
    max: 7 * 24 * 3600,
    changed_by: ChangedBy::Reload,
    unit: Unit::Seconds,
};

/// How large the next segment of a tag should be. Of the centre's numbers, what is left must last
/// for `leaf.segment_duration` from any moment of a segment on, even if the next one does not come.
pub fn step_policy(grantor: Grantor) -> StepPolicy {
    let segment_duration = Duration::from_secs(SEGMENT_DURATION.get_unsigned());
    match grantor {
        Grantor::Row => StepPolicy {
            segment_duration,
            max_step: MAX_STEP.get_unsigned(),
        },
        Grantor::Centre => StepPolicy {
            segment_duration: segment_duration * 100 / left_at_prefetch(),
            // The largest grant of the centre bounds it, if the centre has the same setting.
            max_step: max_reserve(),
        },
    }
}

/// The percentage of a segment that is left when the next one is fetched.
fn left_at_prefetch() -> u32 {
    100 - PREFETCH_THRESHOLD.get_unsigned().min(90) as u32
}

/// Meituan Leaf fetches the next segment once a tenth of the current one is used.
static PREFETCH_THRESHOLD: Integer = Integer {
    name: c"leaf.prefetch_threshold",
    short: c"Percentage of a segment after which the next one is fetched.",
    long: c"With 100, the next segment is fetched only when no ids are left, and callers wait at every segment boundary. \
        Raise it where few ids may be lost in a crash, and loads are quick.",
    default: GucSetting::<i32>::new(10),
    min: 0,
    max: 100,
    changed_by: ChangedBy::Reload,
    unit: Unit::None,
};

/// The number of ids of a segment of `len` ids after which the next one is fetched.
pub fn prefetch_after(len: u64) -> u64 {
    buffer::prefetch_after(len, PREFETCH_THRESHOLD.get_unsigned())
}

/// A standby that is promoted may have missed this many of the last grants.
static HISTORY_SKIP: Integer = Integer {
    name: c"leaf.history_skip",
    short: c"How many grants are skipped at the first grant after a promotion or a restore.",
    long: c"For each of them, the size of the tag's last segment and of its largest reserved block is skipped. \
        If the value is too low, a promoted asynchronous standby that missed more grants than this repeats ids; \
        if it is too high, the gap is wider than necessary. \
        Raise it where an asynchronous standby may lag by more grants; \
        set it to 0 only where no standby, backup, dump or subscriber that takes over can lack a grant.",
    default: GucSetting::<i32>::new(10),
    min: 0,
    max: 1_000_000,
    changed_by: ChangedBy::Reload,
    unit: Unit::None,
};

/// How many of the last grants a new history of the cluster skips.
pub fn history_skip() -> u64 {
    HISTORY_SKIP.get_unsigned()
}

/// The largest reserved block is skipped several times after a promotion, so one absurd
/// block must not exhaust the tag.
static MAX_RESERVE: Integer = Integer {
    name: c"leaf.max_reserve",
    short: c"Largest block of ids that can be reserved at once.",
    long: c"leaf_segment_reserve rejects a larger count. If the value is too low, clients need more round trips; \
        if it is too high, a role that may draw from a tag can use it up, and a promotion leaves wide gaps. \
        Lower it for roles that are not trusted with large blocks.",
    default: GucSetting::<i32>::new(1_000_000_000),
    min: 1,
    max: i32::MAX,
    changed_by: ChangedBy::Superuser,
    unit: Unit::None,
};

/// How many ids a block can have.
pub fn max_reserve() -> u64 {
    MAX_RESERVE.get_unsigned()
}
