//! `leafctl serve` against a server that answers a constant, and against a sequence through
//! the driver.

mod constant;
mod driver;
mod http;

use std::net::SocketAddr;
use std::time::Duration;

use leaf_tests::{Draw, Serve, Server};

use crate::Works;
use crate::compare::{Comparison, Spread};
use crate::latency::{Latency, summary};
use crate::report::{Bound, Report, Texts, Unit};
use crate::runs::Runs;

/// The settings of the database that differ from PostgreSQL's defaults.
pub const SETTINGS: [(&str, &str); 4] = [
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
    ("max_connections", "100"),
];

/// What the report says around its tables.
pub const TEXTS: Texts = Texts {
    head: "# Ids over HTTP\n\nWritten by `make bench-serve`. `leafctl serve`, its callers and the database share one \
        machine. The callers are one thread with as many connections, which are kept open; each sends a request when \
        the earlier one is answered. \"The constant\" is an answer of the same size from a server that is made of axum \
        alone, without limits, checks and metrics. \"nextval\" is a prepared statement of the driver tokio-postgres with as \
        many connections over a Unix-domain socket. Each ratio is the first figure divided by the other one: the \
        median of all pairs of runs, with the lowest and the highest. Bounds are our own targets; NO is a target that was \
        missed.",
    sides: ["ids", "other"],
    titles: ["Ratios", "How long one request takes", "Other figures"],
};

/// What is measured.
pub const WORKS: &Works<Http> = &[
    ("8 connections, count 1", |http, report| {
        http.compare(report, 8, 1)
    }),
    ("8 connections, count 100", |http, report| {
        http.compare(report, 8, 100)
    }),
    ("64 connections, count 1", |http, report| {
        http.compare(report, 64, 1)
    }),
    ("64 connections, count 100", |http, report| {
        http.compare(report, 64, 100)
    }),
    ("snowflake ids", |http, report| http.snowflakes(report)),
    ("memory", |http, report| http.memory(report)),
];

/// How long a run lasts: short ones in turn, so that what else the machine does affects both.
const RUN: Duration = Duration::from_secs(1);

/// The servers, and how much is measured.
pub struct Http {
    pub server: Server,
    pub runs: Runs,
    serve: Serve,
    constant: SocketAddr,
}

impl Http {
    /// Starts both servers; when this returns, all addresses have been used.
    pub fn start(runs: Runs) -> Http {
        let runs = Runs {
            repetitions: runs.repetitions * 3,
            ..runs
        };
        let options = SETTINGS
            .iter()
            .fold(Server::options(), |options, (name, value)| {
                options.set(name, value)
            });
        let server = options.start();
        let mut client = server.connect();
        client.run("SELECT leaf_tag_create('orders', start => 100000000)");
        client.run("CREATE SEQUENCE s");
        let serve = Serve::start(&server, &["--tag=orders", "--log-level=info"]);
        serve.wait_ready();
        // The tag's step follows its use.
        for _ in 0..200 {
            serve.ids("orders", 10_000);
        }
        serve.get("/v1/snowflake").ids();
        Http {
            server,
            serve,
            constant: constant::serve(),
            runs,
        }
    }

    fn compare(&self, report: &mut Report, connections: usize, count: usize) {
        let ids = format!("/v1/segment/orders?count={count}");
        let work = format!("{connections} connections, {count} per request");
        let (ids, others) = self.in_turn(connections, &ids, count);
        both(report, &work, "the constant", &ids, &others);
        report.latency(&format!("ids: {work}"), &summary(&ids));
        report.latency(&format!("constant: {work}"), &summary(&others));
        let sequence: Vec<_> = (0..self.runs.repetitions)
            .map(|_| driver::nextval(&self.server, connections, count, RUN))
            .collect();
        let pairs: Vec<_> = ids.iter().zip(&sequence).map(rates).collect();
        report.compared(
            &format!("requests: {work}"),
            "nextval",
            Unit::PerSecond,
            &Comparison::of(&pairs),
            Bound::None,
        );
        report.latency(&format!("nextval: {work}"), &summary(&sequence));
    }

    fn snowflakes(&self, report: &mut Report) {
        let (ids, others) = self.in_turn(64, "/v1/snowflake", 1);
        let work = "64 connections, 1 snowflake id per request";
        both(report, work, "the constant", &ids, &others);
        report.latency(&format!("ids: {work}"), &summary(&ids));
    }

    fn memory(&self, report: &mut Report) {
        let megabytes = |bytes: u64| format!("{:.1} MB", bytes as f64 / (1 << 20) as f64);
        report.fact(
            "resident memory after all this",
            megabytes(self.serve.resident()),
        );
    }

    /// The same number of runs of both, in turn, after a run of each that does not count. Every
    /// second pair runs in reverse order.
    fn in_turn(&self, connections: usize, ids: &str, count: usize) -> (Vec<Latency>, Vec<Latency>) {
        let path = format!("/constant/{count}");
        let ids = || http::run(self.serve.address(), ids, connections, RUN);
        let constant = || http::run(self.constant, &path, connections, RUN);
        ids();
        constant();
        let pair = |repetition| match repetition % 2 {
            0 => (ids(), constant()),
            _ => {
                let constant = constant();
                (ids(), constant)
            }
        };
        (0..self.runs.repetitions).map(pair).unzip()
    }
}

/// Requests per second and p99.9 of both, with the bounds that they are to meet.
fn both(report: &mut Report, work: &str, against: &str, ids: &[Latency], others: &[Latency]) {
    let pairs: Vec<_> = ids.iter().zip(others).map(rates).collect();
    let comparison = Comparison::of(&pairs);
    report.compared(
        &format!("requests: {work}"),
        against,
        Unit::PerSecond,
        &comparison,
        Bound::AtLeast(0.9),
    );
    let pairs: Vec<_> = ids
        .iter()
        .zip(others)
        .map(|(ids, other)| (ids.p999, other.p999))
        .collect();
    // A single pair of such figures says little: what is compared is their medians.
    let (left, right): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
    let ratio = Spread::of(left.iter().copied()).median / Spread::of(right.iter().copied()).median;
    let comparison = Comparison {
        ratio: Spread {
            median: ratio,
            ..Comparison::of(&pairs).ratio
        },
        ..Comparison::of(&pairs)
    };
    report.compared(
        &format!("p99.9: {work}"),
        against,
        Unit::Milliseconds,
        &comparison,
        Bound::AtMost(1.2),
    );
}

fn rates((ids, other): (&Latency, &Latency)) -> (f64, f64) {
    (ids.calls_per_second, other.calls_per_second)
}
