//! Wall-clock time, as the standard library represents it and as ids and leases count it.

use std::time::{Duration, SystemTime};

use leaf_core::time::WallTime;

/// What this machine's clock shows.
#[inline]
pub(crate) fn now() -> WallTime {
    wall_time(SystemTime::now())
}

/// The same instant, as ids and leases count it.
#[inline]
pub(crate) fn wall_time(at: SystemTime) -> WallTime {
    WallTime::from_unix_us(match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    })
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
}
