//! The counters of a source for the recorder of the crate `metrics`. Without the feature
//! `metrics`, nothing.

use std::time::Duration;

/// Of which source.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub(crate) struct Meter {
    kind: &'static str,
    name: String,
    /// Whether it is a source for which there is something at the server. A tag is one once
    /// it has had ids: callers may have made up the name.
    is_known: bool,
}

impl Meter {
    /// For a source of this kind, `segment` or `snowflake`, and this tag or node.
    pub(crate) fn of(kind: &'static str, name: &str) -> Self {
        Meter {
            kind,
            name: name.to_owned(),
            is_known: kind != "segment",
        }
    }
}

#[cfg(feature = "metrics")]
impl Meter {
    /// An attempt to get ids or a lease has ended.
    pub(crate) fn attempt(&mut self, has_succeeded: bool) {
        self.is_known |= has_succeeded;
        if !self.is_known {
            return;
        }
        let outcome = match has_succeeded {
            true => "success",
            false => "failure",
        };
        let counter = metrics::counter!("leaf_attempts_total",
            "kind" => self.kind, "name" => self.name.clone(), "outcome" => outcome);
        counter.increment(1);
    }

    /// A call had to wait before it got ids.
    pub(crate) fn waited(&self, duration: Duration) {
        let histogram = metrics::histogram!("leaf_wait_seconds",
            "kind" => self.kind, "name" => self.name.clone());
        histogram.record(duration);
    }
}

#[cfg(not(feature = "metrics"))]
impl Meter {
    pub(crate) fn attempt(&mut self, _has_succeeded: bool) {}

    pub(crate) fn waited(&self, _duration: Duration) {}
}
