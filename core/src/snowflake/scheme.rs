//! A layout and its epoch: what turns instants into ids and back.
//!
//! Instants are microseconds since 1970-01-01 00:00 UTC, without leap seconds.

use super::Layout;

/// How the ids of one registry are made: the same for all its workers, and
/// never changed once there are ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The fields.
    pub layout: Layout,
    /// The instant of tick 0.
    pub epoch_us: i64,
}

/// What an id says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// When its tick began.
    pub created_us: i64,
    /// Who issued it.
    pub worker: u32,
    /// Which of the tick's ids it is.
    pub sequence: u32,
}

/// 2010-11-04T01:42:54.657Z, Twitter's and Meituan Leaf's epoch.
const TWITTER_US: i64 = 1_288_834_974_657_000;
/// 2014-09-01T00:00:00Z, Sonyflake's.
const SONYFLAKE_US: i64 = 1_409_529_600_000_000;
/// 2024-01-01T00:00:00Z. Baidu's own (2016-05-20) leaves 28 bits of seconds no
/// time beyond 2024.
const RECENT_US: i64 = 1_704_067_200_000_000;

impl Scheme {
    /// A layout with the epoch that goes with it.
    pub fn of(layout: Layout) -> Scheme {
        let epoch_us = match layout {
            Layout::UID | Layout::JS53 => RECENT_US,
            Layout::SONYFLAKE => SONYFLAKE_US,
            // Decimal ids begin with the seconds of a Unix time stamp.
            Layout::DECIMAL => 0,
            _ => TWITTER_US,
        };
        Scheme { layout, epoch_us }
    }

    /// Microseconds from the epoch to an instant; 0 for one before it.
    pub fn since_epoch(&self, instant_us: i64) -> u64 {
        instant_us.saturating_sub(self.epoch_us).max(0) as u64
    }

    /// The tick of an instant; 0 for one before the epoch.
    pub fn tick_at(&self, instant_us: i64) -> u64 {
        self.since_epoch(instant_us) / self.layout.tick_us()
    }

    /// The first tick that does not begin before an instant.
    pub fn tick_from(&self, instant_us: i64) -> u64 {
        self.since_epoch(instant_us).div_ceil(self.layout.tick_us())
    }

    /// When a tick begins.
    pub fn instant_of(&self, tick: u64) -> i64 {
        let since = tick.saturating_mul(self.layout.tick_us());
        self.epoch_us
            .saturating_add(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// When the time field runs out: the first instant that has no ids.
    pub fn ends_at(&self) -> i64 {
        self.instant_of(self.layout.ticks())
    }

    /// The smallest id of the tick that holds an instant, for scans of a range
    /// of time. Of an instant before the epoch: 0. Of one after
    /// [`ends_at`](Self::ends_at): a number no id reaches, or the largest number
    /// there is.
    pub fn floor(&self, instant_us: i64) -> i64 {
        let tick = self.tick_at(instant_us).min(self.layout.ticks());
        let id = tick.saturating_mul(self.layout.ids_of_a_tick());
        i64::try_from(id).unwrap_or(i64::MAX)
    }

    /// What an id says; `None` for a number that is no id of this scheme.
    pub fn decode(&self, id: i64) -> Option<Parts> {
        let (tick, worker, sequence) = self.layout.unpack(u64::try_from(id).ok()?);
        (tick < self.layout.ticks()).then(|| Parts {
            created_us: self.instant_of(tick),
            worker: worker as u32,
            sequence: sequence as u32,
        })
    }

    /// The id of an instant's tick, a worker id and a sequence number; `None`
    /// when one of them is out of the layout's range.
    pub fn encode(&self, parts: Parts) -> Option<i64> {
        let layout = &self.layout;
        let (worker, sequence) = (u64::from(parts.worker), u64::from(parts.sequence));
        let tick = self.tick_at(parts.created_us);
        let fits = parts.created_us >= self.epoch_us
            && tick < layout.ticks()
            && worker < layout.workers()
            && sequence < layout.ids_per_tick();
        fits.then(|| layout.pack(tick, worker, sequence) as i64)
    }
}
