//! The terms of a lease, as the node receives them: from another server, which may be
//! newer, damaged or hostile, or from a file.

use std::fmt;

use super::layout::Layout;
use super::scheme::Scheme;
use crate::time::WallTime;

/// A lease: which ids may be issued.
///
/// ```
/// use leaf_core::snowflake::{Layout, Scheme, Terms};
///
/// let scheme = Scheme::of(Layout::LEAF);
/// let (start, ceiling) = (scheme.instant_of(1), scheme.instant_of(2));
/// let read = |worker_id| Terms::read(worker_id, "leaf", scheme.epoch, start, ceiling);
/// assert!(read(0).is_ok());
/// assert!(read(5_000).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How the ids are made.
    pub scheme: Scheme,
    /// The worker id in the ids.
    pub worker_id: i32,
    /// The first instant that may be used.
    pub start: WallTime,
    /// The first instant that may not be used.
    pub ceiling: WallTime,
}

/// Why terms are impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTerms(pub(super) String);

impl fmt::Display for BadTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadTerms {}

impl Terms {
    /// The terms with these values, if they are possible: the layout is known and has the worker
    /// id, and epoch, start, ceiling and the end of the layout's time follow each other.
    ///
    /// # Errors
    /// Which value is impossible.
    pub fn read(
        worker_id: i32,
        layout: &str,
        epoch: WallTime,
        start: WallTime,
        ceiling: WallTime,
    ) -> Result<Terms, BadTerms> {
        let layout: Layout = layout
            .parse()
            .map_err(|error| BadTerms(format!("layout: {error}")))?;
        let terms = Terms {
            scheme: Scheme { layout, epoch },
            worker_id,
            start,
            ceiling,
        };
        let has_worker_id = u64::try_from(worker_id).is_ok_and(|id| id < layout.worker_ids());
        if !has_worker_id {
            return Err(BadTerms(format!(
                "layout {layout} has no worker id {worker_id}"
            )));
        }
        terms.with_ceiling(ceiling)
    }

    /// The terms with the ceiling of a renewal, if that is possible.
    ///
    /// # Errors
    /// That it is not.
    pub fn with_ceiling(self, ceiling: WallTime) -> Result<Terms, BadTerms> {
        let Scheme { epoch, .. } = self.scheme;
        let ordered = [epoch, self.start, ceiling, self.scheme.ends_at()];
        match ordered.is_sorted() {
            true => Ok(Terms { ceiling, ..self }),
            false => Err(BadTerms(
                "the start and the ceiling of the lease are not instants of its layout, one after the other".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_values_are_refused() {
        let scheme = Scheme::of(Layout::LEAF);
        let at = |tick| scheme.instant_of(tick);
        let (epoch, end) = (scheme.epoch, scheme.ends_at());
        let last = scheme.layout.worker_ids() as i32 - 1;
        for (worker_id, layout, start, ceiling) in [
            (0, "leaf", at(5), at(9)),
            (last, "leaf", epoch, end),
            (0, "leaf", at(5), at(5)),
        ] {
            let read = Terms::read(worker_id, layout, epoch, start, ceiling);
            assert!(read.is_ok(), "{worker_id} {layout}: {read:?}");
        }
        for (worker_id, layout, start, ceiling) in [
            (-1, "leaf", at(5), at(9)),
            (last + 1, "leaf", at(5), at(9)),
            (i32::MAX, "leaf", at(5), at(9)),
            (0, "junk", at(5), at(9)),
            (0, "custom:1,1,1", at(5), at(9)),
            (0, "leaf", at(9), at(5)),
            (0, "leaf", epoch.plus_us(-1), at(9)),
            (0, "leaf", at(5), end.plus_us(1)),
            (0, "leaf", WallTime::from_unix_us(i64::MIN), at(9)),
            (0, "leaf", at(5), WallTime::from_unix_us(i64::MAX)),
        ] {
            let read = Terms::read(worker_id, layout, epoch, start, ceiling);
            assert!(read.is_err(), "{worker_id} {layout}: {read:?}");
        }
        let terms = Terms::read(0, "leaf", epoch, at(5), at(9)).expect("terms");
        assert_eq!(
            terms.with_ceiling(at(11)).map(|terms| terms.ceiling),
            Ok(at(11))
        );
        assert!(terms.with_ceiling(at(4)).is_err());
        assert!(terms.with_ceiling(end.plus_us(1)).is_err());
    }
}
