//! What is counted, for Prometheus. Handles are registered before the first request, so that
//! counting takes no lock and no memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::response::Response;
use leaf_sdk::TagStats;
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

/// Bounds of the histograms, in seconds.
const BUCKETS: [f64; 14] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5,
    10.0,
];

/// How often the samples of the histograms are sorted into their buckets: until then they take
/// memory.
const UPKEEP: Duration = Duration::from_secs(1);

const REQUESTS: &str = "leafctl_http_requests_total";
const SECONDS: &str = "leafctl_http_request_seconds";
const CONNECTIONS: &str = "leafctl_connections";
const REFUSED: &str = "leafctl_connections_refused_total";
const TIMED_OUT: &str = "leafctl_connections_timed_out_total";
const ISSUED: &str = "leafctl_ids_total";
const BUFFERED: &str = "leafctl_buffered_ids";
const WAITING: &str = "leafctl_waiting_requests";
const REACHABLE: &str = "leafctl_database_reachable";

/// Installs the recorder; what it has recorded.
///
/// # Errors
/// If there is a recorder already.
pub fn install() -> Result<PrometheusHandle, String> {
    let builder = PrometheusBuilder::new()
        .set_buckets(&BUCKETS)
        .map_err(|error| error.to_string())?;
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    describe();
    let upkeep = handle.clone();
    let tidy = move || loop {
        thread::sleep(UPKEEP);
        upkeep.run_upkeep();
    };
    let thread = thread::Builder::new().name("metrics".into()).spawn(tidy);
    thread.map_err(|error| error.to_string())?;
    Ok(handle)
}

fn describe() {
    describe_counter!(REQUESTS, "Requests by address and class of the answer.");
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time from the header of a request to its answer."
    );
    describe_gauge!(CONNECTIONS, "Open connections.");
    describe_counter!(REFUSED, "Connections refused because of --max-connections.");
    describe_counter!(
        TIMED_OUT,
        "Connections closed because of --io-timeout or --idle-timeout."
    );
    describe_counter!(ISSUED, "Ids handed out, by kind and tag.");
    describe_counter!(
        "leaf_attempts_total",
        "Attempts to fetch ids and to renew leases."
    );
    describe_histogram!(
        "leaf_wait_seconds",
        Unit::Seconds,
        "How long calls waited for ids that were not at hand."
    );
    describe_gauge!(BUFFERED, "Ids at hand, by tag.");
    describe_gauge!(WAITING, "Requests that wait for ids now, by tag.");
    describe_gauge!(
        REACHABLE,
        "Whether the database answered the last time, and the connection is open."
    );
}

/// How many ids were handed out.
pub struct Issued {
    counter: Counter,
    total: AtomicU64,
}

impl Issued {
    /// Of a tag.
    pub fn of_tag(tag: &str) -> Issued {
        Issued::of(counter!(ISSUED, "kind" => "segment", "tag" => tag.to_owned()))
    }

    /// Snowflake ids.
    pub fn of_snowflakes() -> Issued {
        Issued::of(counter!(ISSUED, "kind" => "snowflake", "tag" => ""))
    }

    fn of(counter: Counter) -> Issued {
        Issued {
            counter,
            total: AtomicU64::new(0),
        }
    }

    pub fn add(&self, count: usize) {
        self.counter.increment(count as u64);
        self.total.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

/// Of connections.
pub struct OfConnections {
    pub open: Gauge,
    pub refused: Counter,
    pub timed_out: Counter,
}

impl OfConnections {
    pub fn new() -> OfConnections {
        OfConnections {
            open: gauge!(CONNECTIONS),
            refused: counter!(REFUSED),
            timed_out: counter!(TIMED_OUT),
        }
    }
}

/// What is at hand of a tag.
pub fn show_tag(name: &str, stats: &TagStats) {
    gauge!(BUFFERED, "tag" => name.to_owned()).set(stats.buffered as f64);
    gauge!(WAITING, "tag" => name.to_owned()).set(stats.waiting as f64);
}

/// The metrics, without those of tags that are no longer served: the recorder forgets none.
pub fn of_served(recorded: &str, is_served: impl Fn(&str) -> bool) -> String {
    let is_shown = |line: &&str| tag_of(line).is_none_or(|tag| is_served(&tag));
    recorded.split_inclusive('\n').filter(is_shown).collect()
}

/// The tag that a line of the metrics is about.
fn tag_of(line: &str) -> Option<String> {
    let (_, labels) = line.split_once("{").filter(|_| !line.starts_with('#'))?;
    let named = match labels.split_once("tag=\"") {
        Some((_, named)) => named,
        None => labels.split_once("kind=\"segment\",name=\"")?.1,
    };
    let mut tag = String::new();
    let mut symbols = named.chars();
    loop {
        match symbols.next()? {
            '"' => return Some(tag).filter(|tag| !tag.is_empty()),
            '\\' => tag.push(match symbols.next()? {
                'n' => '\n',
                escaped => escaped,
            }),
            symbol => tag.push(symbol),
        }
    }
}

/// Whether the database answered the last time.
pub fn show_reachable(is_reachable: bool) {
    gauge!(REACHABLE).set(f64::from(u8::from(is_reachable)));
}

/// Requests of a route.
pub struct OfRoute {
    route: &'static str,
    /// By class of the status, from 1xx.
    requests: [Counter; 5],
    seconds: Histogram,
}

impl OfRoute {
    pub fn new(route: &'static str) -> OfRoute {
        let class = |class| counter!(REQUESTS, "route" => route, "status" => class);
        OfRoute {
            route,
            requests: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(class),
            seconds: histogram!(SECONDS, "route" => route),
        }
    }

    /// Counts a request that has been answered.
    pub fn count(&self, began: Instant, response: &Response) {
        let taken = began.elapsed();
        let status = response.status().as_u16();
        let class = (usize::from(status) / 100).clamp(1, 5);
        self.requests[class - 1].increment(1);
        self.seconds.record(taken.as_secs_f64());
        tracing::debug!(
            route = self.route,
            status,
            micros = taken.as_micros() as u64,
            "request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::of_served;

    #[test]
    fn metrics_of_tags_that_are_gone_are_not_shown() {
        let shown = "# TYPE leafctl_ids_total counter\n\
                     leafctl_ids_total{kind=\"segment\",tag=\"a \\\"b\\\\\\n\"} 1\n\
                     leafctl_ids_total{kind=\"snowflake\",tag=\"\"} 1\n\
                     leaf_attempts_total{kind=\"snowflake\",name=\"gone\",outcome=\"success\"} 1\n\
                     leafctl_connections 1\n";
        let gone = "leafctl_buffered_ids{tag=\"gone\"} 0\n\
                    leaf_attempts_total{kind=\"segment\",name=\"gone\",outcome=\"success\"} 1\n";
        let is_served = |tag: &str| tag == "a \"b\\\n";
        assert_eq!(of_served(&format!("{gone}{shown}{gone}"), is_served), shown);
    }
}
