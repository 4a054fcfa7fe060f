//! How an id is divided into time, worker id and sequence.

use std::fmt;
use std::str::FromStr;

use crate::time::WallTime;

/// Maximum number of bits of the worker id and of the sequence: both are of type
/// `integer` in SQL.
const MAX_FIELD_BITS: u32 = 31;

const SECOND_US: u64 = 1_000_000;
/// Units for the length of a tick, and their microseconds, from small to large.
const UNITS: [(&str, u64); 3] = [("us", 1), ("ms", 1_000), ("s", SECOND_US)];
const MAX_TICK_US: u64 = 3600 * SECOND_US;
/// Maximum range of the time field: arithmetic on instants cannot overflow.
const MAX_SPAN_US: u128 = 1 << 62;

/// 2010-11-04T01:42:54.657Z, the epoch of Twitter and Meituan Leaf.
const TWITTER: WallTime = WallTime::from_unix_us(1_288_834_974_657_000);
/// 2014-09-01T00:00:00Z, the epoch of Sonyflake.
const SONYFLAKE: WallTime = WallTime::from_unix_us(1_409_529_600_000_000);
/// 2024-01-01T00:00:00Z. From Baidu's own epoch (2016-05-20), 28 bits of seconds do not
/// reach beyond 2024.
const RECENT: WallTime = WallTime::from_unix_us(1_704_067_200_000_000);

/// The fields of an id: `(tick × worker ids + worker id) × sequences + sequence`; with the
/// [worker id lowest](Self::worker_lowest), `(tick × sequences + sequence) × worker ids + worker id`.
///
/// If the factors are powers of two, these are bit fields; the `decimal` layout has
/// decimal digits instead.
///
/// ```
/// use leaf_core::snowflake::Layout;
///
/// let id = Layout::LEAF.pack(1, 2, 3);
/// assert_eq!(id, (1 << 22) + (2 << 12) + 3);
/// assert_eq!(Layout::LEAF.unpack(id), (1, 2, 3));
/// assert_eq!("custom:41,10,12".parse::<Layout>().unwrap().ids_per_tick(), 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Whether it is one of [`NAMED`](Self::NAMED). Another one may have the same fields.
    is_named: bool,
    tick_us: u64,
    ticks: u64,
    worker_ids: u64,
    sequences: u64,
    /// The distance between two successive ids of a tick and worker id: 1, or, with the worker id
    /// lowest, the number of worker ids.
    step: u32,
    /// The epoch, unless another one is set.
    pub(super) epoch: WallTime,
}

/// Why a text is not a valid layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLayout(String);

impl fmt::Display for BadLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadLayout {}

impl Layout {
    /// The layout of Twitter and Meituan Leaf: 41 bits of milliseconds, 10 of worker
    /// id, 12 of sequence.
    pub const LEAF: Layout = Layout::bits(1_000, 41, 10, 12, TWITTER);
    /// The layout of Baidu's uid-generator: 28 bits of seconds, 22 of worker id, 13 of
    /// sequence.
    pub const UID: Layout = Layout::bits(SECOND_US, 28, 22, 13, RECENT);
    /// The field sizes of Sonyflake: 39 bits of 10 ms, 16 of worker id, 8 of sequence.
    /// The worker id is above the sequence, which it is not in Sonyflake's own ids.
    pub const SONYFLAKE: Layout = Layout::bits(10_000, 39, 16, 8, SONYFLAKE);
    /// Ids that JavaScript represents exactly: 41 bits of milliseconds, 5 of worker id,
    /// 7 of sequence.
    pub const JS53: Layout = Layout::bits(1_000, 41, 5, 7, RECENT);
    /// Ids that people can read: seconds, then 2 digits of worker id, then 7 of
    /// sequence.
    pub const DECIMAL: Layout = Layout {
        is_named: true,
        tick_us: SECOND_US,
        ticks: (1 << 63) / 1_000_000_000,
        worker_ids: 100,
        sequences: 10_000_000,
        step: 1,
        // Ids begin with a Unix timestamp.
        epoch: WallTime::from_unix_us(0),
    };

    /// The layouts that have a name: all that is said of layouts by name comes from here.
    pub const NAMED: &[(&'static str, Layout)] = &[
        ("leaf", Layout::LEAF),
        ("uid", Layout::UID),
        ("sonyflake", Layout::SONYFLAKE),
        ("js53", Layout::JS53),
        ("decimal", Layout::DECIMAL),
    ];

    /// How a layout is written: the names, and the form of one of one's own.
    pub fn forms() -> String {
        let names: Vec<_> = Layout::NAMED.iter().map(|(name, _)| *name).collect();
        format!(
            "{}, or custom:TIME,WORKER,SEQUENCE[,TICK]",
            names.join(", ")
        )
    }

    const fn bits(tick_us: u64, time: u32, worker: u32, sequence: u32, epoch: WallTime) -> Layout {
        Layout {
            is_named: true,
            tick_us,
            ticks: 1 << time,
            worker_ids: 1 << worker,
            sequences: 1 << sequence,
            step: 1,
            epoch,
        }
    }

    /// The same fields, with the worker id below the sequence. The text of a custom layout does
    /// not say this.
    pub const fn worker_lowest(self) -> Layout {
        Layout {
            // They have at most `MAX_FIELD_BITS`.
            step: self.worker_ids as u32,
            ..self
        }
    }

    /// A layout of bit fields; `tick_us` is the length of a tick in
    /// microseconds, at most an hour.
    ///
    /// # Errors
    /// Which argument is out of its range.
    pub fn custom(
        time: u32,
        worker: u32,
        sequence: u32,
        tick_us: u64,
    ) -> Result<Layout, BadLayout> {
        let bad = |what: String| Err(BadLayout(what));
        if time == 0 || sequence == 0 {
            return bad("time and sequence need at least 1 bit each".into());
        }
        if worker > MAX_FIELD_BITS || sequence > MAX_FIELD_BITS {
            return bad(format!(
                "worker id and sequence have at most {MAX_FIELD_BITS} bits each"
            ));
        }
        if time > 63 || time + worker + sequence > 63 {
            return bad("an id has 63 bits for all three fields together".into());
        }
        if tick_us == 0 || tick_us > MAX_TICK_US {
            return bad("a tick is at least 1us and at most 1h long".into());
        }
        if u128::from(tick_us) << time > MAX_SPAN_US {
            return bad("the time field reaches further than 140,000 years".into());
        }
        Ok(Layout {
            is_named: false,
            ..Layout::bits(tick_us, time, worker, sequence, TWITTER)
        })
    }

    /// The length of a tick, the unit of the time field, in microseconds.
    pub const fn tick_us(&self) -> u64 {
        self.tick_us
    }

    /// Number of values of the time field.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Number of worker ids; the first is 0.
    pub const fn worker_ids(&self) -> u64 {
        self.worker_ids
    }

    /// Number of ids that one worker id has per tick.
    pub const fn ids_per_tick(&self) -> u64 {
        self.sequences
    }

    /// The distance between two successive ids of a tick and worker id.
    #[inline]
    pub const fn step(&self) -> u64 {
        self.step as u64
    }

    /// The id with these fields, each of which must be within its range. With the tick
    /// [`ticks`](Self::ticks), a number above all ids.
    #[inline]
    pub const fn pack(&self, tick: u64, worker_id: u64, sequence: u64) -> u64 {
        debug_assert!(
            tick <= self.ticks && worker_id < self.worker_ids && sequence < self.sequences
        );
        match self.step {
            1 => (tick * self.worker_ids + worker_id) * self.sequences + sequence,
            _ => (tick * self.sequences + sequence) * self.worker_ids + worker_id,
        }
    }

    /// Tick, worker id and sequence of an id. If the number is not an id of this
    /// layout, the tick is [`ticks`](Self::ticks) or more.
    #[inline]
    pub const fn unpack(&self, id: u64) -> (u64, u64, u64) {
        match self.step {
            1 => {
                let upper = id / self.sequences;
                let (tick, worker_id) = (upper / self.worker_ids, upper % self.worker_ids);
                (tick, worker_id, id % self.sequences)
            }
            _ => {
                let upper = id / self.worker_ids;
                let (tick, sequence) = (upper / self.sequences, upper % self.sequences);
                (tick, id % self.worker_ids, sequence)
            }
        }
    }

    /// The first sequence number of a new tick is chosen at random below this number,
    /// so that ids spread over shards even if only one is drawn per tick.
    pub const fn start_spread(&self) -> u64 {
        match self.sequences / 4 {
            0 => 1,
            few if few < 128 => few,
            _ => 128,
        }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Layout::NAMED.iter().find(|(_, layout)| layout == self);
        if let Some((name, _)) = named {
            return f.write_str(name);
        }
        let (time, worker, sequence) = (
            self.ticks.ilog2(),
            self.worker_ids.ilog2(),
            self.sequences.ilog2(),
        );
        let (unit, us) = UNITS
            .into_iter()
            .rfind(|(_, us)| self.tick_us.is_multiple_of(*us))
            .unwrap_or(UNITS[0]);
        let tick = self.tick_us / us;
        write!(f, "custom:{time},{worker},{sequence},{tick}{unit}")
    }
}

impl FromStr for Layout {
    type Err = BadLayout;

    /// One of [`NAMED`](Layout::NAMED), or `custom:TIME,WORKER,SEQUENCE[,TICK]` with the fields'
    /// bits and the length of a tick such as `1ms` (the default), `10ms` or `1s`.
    fn from_str(text: &str) -> Result<Layout, BadLayout> {
        let text = text.trim();
        if let Some(fields) = text.strip_prefix("custom:") {
            return parse_custom(fields);
        }
        let named = Layout::NAMED.iter().find(|(name, _)| *name == text);
        named
            .map(|(_, layout)| *layout)
            .ok_or_else(|| BadLayout(format!("\"{text}\" is not {}", Layout::forms())))
    }
}

fn parse_custom(fields: &str) -> Result<Layout, BadLayout> {
    let parts: Vec<&str> = fields.split(',').map(str::trim).collect();
    let (bits, tick) = match parts[..] {
        [time, worker, sequence] => ([time, worker, sequence], "1ms"),
        [time, worker, sequence, tick] => ([time, worker, sequence], tick),
        _ => {
            return Err(BadLayout(format!(
                "\"{fields}\" is not three numbers of bits"
            )));
        }
    };
    let bits_of = |text: &str| {
        let bits = text.parse::<u32>();
        bits.map_err(|_| BadLayout(format!("\"{text}\" is not a number of bits")))
    };
    let tick_us = parse_tick(tick).ok_or_else(|| {
        BadLayout(format!(
            "\"{tick}\" is not the length of a tick, such as 1ms"
        ))
    })?;
    Layout::custom(
        bits_of(bits[0])?,
        bits_of(bits[1])?,
        bits_of(bits[2])?,
        tick_us,
    )
}

fn parse_tick(text: &str) -> Option<u64> {
    let (count, unit) = UNITS
        .into_iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    count.trim().parse::<u64>().ok()?.checked_mul(unit)
}
