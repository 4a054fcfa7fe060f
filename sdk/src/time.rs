//! Wall-clock time, as the standard library represents it and as ids and leases count it.

use std::time::{Duration, SystemTime};

use leaf_core::time::WallTime;

/// The time of this machine's clock.
#[inline]
pub(crate) fn now() -> WallTime {
    wall_time(SystemTime::now())
}

/// The same instant, as ids and leases count it; the first or last one if it is out of
/// their range.
#[inline]
pub(crate) fn wall_time(at: SystemTime) -> WallTime {
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).map_or(WallTime::MAX, WallTime::from_unix_us),
        Err(before) => i64::try_from(before.duration().as_micros())
            .map_or(WallTime::MIN, |us| WallTime::from_unix_us(-us)),
    }
}

/// The same instant, as the standard library represents it.
pub(crate) fn system_time(at: WallTime) -> SystemTime {
    let us = at.unix_us();
    let distance = Duration::from_micros(us.unsigned_abs());
    match us < 0 {
        true => SystemTime::UNIX_EPOCH - distance,
        false => SystemTime::UNIX_EPOCH + distance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_the_same_there_and_back() {
        for us in [i64::MIN + 1, -1, 0, 1, 1_800_000_000_000_001] {
            let at = WallTime::from_unix_us(us);
            assert_eq!(wall_time(system_time(at)), at);
        }
    }

    #[test]
    fn an_instant_out_of_range_is_the_first_or_the_last_one() {
        let distance = Duration::from_secs(i64::MAX as u64 / 2);
        assert_eq!(wall_time(SystemTime::UNIX_EPOCH + distance), WallTime::MAX);
        assert_eq!(wall_time(SystemTime::UNIX_EPOCH - distance), WallTime::MIN);
    }
}
