//! A layout and its epoch: converts instants into ids and back.

use super::layout::Layout;
use crate::time::{SinceEpoch, WallTime};

/// How the ids of one registry are made. It is the same for all its nodes, and never
/// changes once there are ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// The fields.
    pub layout: Layout,
    /// The instant of tick 0.
    pub epoch: WallTime,
}

/// The fields of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// When its tick began.
    pub created_at: WallTime,
    /// The worker id.
    pub worker_id: u32,
    /// The sequence number among the ids of the tick and the worker id.
    pub sequence: u32,
}

impl Scheme {
    /// A layout with its default epoch.
    pub fn of(layout: Layout) -> Scheme {
        let epoch = layout.epoch;
        Scheme { layout, epoch }
    }

    /// The time from the epoch to an instant; 0 for one before the epoch.
    pub fn since_epoch(&self, instant: WallTime) -> SinceEpoch {
        SinceEpoch::from_us(instant.us_after(self.epoch).max(0) as u64)
    }

    /// The tick of an instant; 0 for one before the epoch.
    pub fn tick_at(&self, instant: WallTime) -> u64 {
        self.since_epoch(instant).as_us() / self.layout.tick_us()
    }

    /// The first tick that does not begin before an instant.
    pub fn tick_from(&self, instant: WallTime) -> u64 {
        self.since_epoch(instant)
            .as_us()
            .div_ceil(self.layout.tick_us())
    }

    /// When a tick begins.
    pub fn instant_of(&self, tick: u64) -> WallTime {
        let since = tick.saturating_mul(self.layout.tick_us());
        self.epoch.plus_us(i64::try_from(since).unwrap_or(i64::MAX))
    }

    /// When the time field runs out: the first instant that has no ids.
    pub fn ends_at(&self) -> WallTime {
        self.instant_of(self.layout.ticks())
    }

    /// The smallest id of the tick that contains an instant, for scans of a range
    /// of time. For an instant before the epoch, 0. From [`ends_at`](Self::ends_at) on,
    /// a number above all ids, or `i64::MAX`.
    pub fn floor(&self, instant: WallTime) -> i64 {
        let tick = self.tick_at(instant).min(self.layout.ticks());
        i64::try_from(self.layout.pack(tick, 0, 0)).unwrap_or(i64::MAX)
    }

    /// The fields of an id; `None` for a number that is not an id of this scheme.
    pub fn decode(&self, id: i64) -> Option<Fields> {
        let (tick, worker_id, sequence) = self.layout.unpack(u64::try_from(id).ok()?);
        (tick < self.layout.ticks()).then(|| Fields {
            created_at: self.instant_of(tick),
            worker_id: worker_id as u32,
            sequence: sequence as u32,
        })
    }

    /// The id with these fields, in the tick that contains the instant; `None` if one
    /// of them is out of the layout's range.
    pub fn encode(&self, fields: Fields) -> Option<i64> {
        let layout = &self.layout;
        let (worker_id, sequence) = (u64::from(fields.worker_id), u64::from(fields.sequence));
        let tick = self.tick_at(fields.created_at);
        let fits = fields.created_at >= self.epoch
            && tick < layout.ticks()
            && worker_id < layout.worker_ids()
            && sequence < layout.ids_per_tick();
        fits.then(|| layout.pack(tick, worker_id, sequence) as i64)
    }
}
