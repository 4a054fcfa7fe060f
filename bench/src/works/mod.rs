//! The workloads that are measured, in the order of the tables.

mod blocks;
mod failover;
mod insert;
mod latency;
mod masks;
mod memory;
mod plain;
mod prefetch;
mod rows;
mod sdk;
mod sessions;
mod single;
mod snowflake;
mod tags;
mod worst;

pub use worst::WORST;

use crate::bench::Bench;
use crate::compare::{Comparison, in_turn};
use crate::report::{Bound, Report, Texts, Unit};

/// What the report says around its tables.
pub const TEXTS: Texts = Texts {
    head: "# Benchmark\n\nWritten by `make bench`. Each ratio is leaf's figure divided by the other \
        one: the median of all pairs of runs, with the lowest and the highest. Bounds are our own targets; NO is a \
        target that was missed.",
    sides: ["leaf", "other"],
    titles: [
        "leaf against what PostgreSQL offers",
        "How long one call takes, 8 sessions",
        "Other figures",
    ],
};

/// Measures a workload and adds it to the report.
type Work = fn(&mut Bench, &mut Report);

/// The workloads and their names, for `--only`. The last ones change settings that
/// would affect the others.
pub const WORKS: [(&str, Work); 29] = [
    ("rows against nextval", rows::against_nextval),
    (
        "rows in two sessions against nextval",
        rows::two_sessions_against_nextval,
    ),
    (
        "rows against a cached sequence",
        rows::against_cached_sequence,
    ),
    ("rows against a C function", rows::against_limits),
    ("rows of a tag with a cache", rows::cached),
    ("single rows by pgbench", single::against_nextval),
    ("thousands of tags", tags::many_against_few),
    (
        "blocks under an old snapshot",
        blocks::under_an_old_snapshot,
    ),
    ("latency of single rows", latency::against_select_1),
    ("bulk insert", insert::bulk),
    ("single-row inserts", insert::single_rows),
    ("snowflake against maximum", snowflake::against_maximum),
    (
        "snowflake in two sessions against maximum",
        snowflake::two_sessions_against_maximum,
    ),
    (
        "snowflake batch against maximum",
        snowflake::batch_against_maximum,
    ),
    (
        "snowflake batch in two sessions against maximum",
        snowflake::two_batches_against_maximum,
    ),
    (
        "snowflake single rows against nextval",
        snowflake::single_against_nextval,
    ),
    (
        "snowflake single rows against uuid",
        snowflake::single_against_uuid,
    ),
    ("snowflake processor time", snowflake::processor_time),
    ("masks", masks::per_call),
    ("ids by sessions", sessions::by_number),
    ("failover", failover::timeline),
    ("sdk in process", sdk::buffered_against_fetch_add),
    (
        "sdk against a buffer over nextval",
        sdk::against_a_buffer_over_nextval,
    ),
    ("sdk latency", sdk::latency_while_refilling),
    ("sdk calls", sdk::calls_against_the_driver),
    ("plain edition", plain::against_library),
    (
        "latency with and without prefetch",
        prefetch::with_and_without,
    ),
    ("memory per tag", memory::per_tag),
    ("worst cases", worst::cases),
];

/// The texts and the bound of a comparison in the main table.
struct Line {
    work: &'static str,
    against: &'static str,
    bound: Bound,
}

impl Line {
    /// Measures both sides in rows or transactions per second and reports them, together
    /// with the number of waits for a segment after the warm-up.
    fn measure(
        &self,
        bench: &Bench,
        report: &mut Report,
        mut leaf: impl FnMut() -> f64,
        other: impl FnMut() -> f64,
    ) {
        leaf();
        let waits = bench.waits();
        let comparison = in_turn(bench.runs.repetitions, leaf, other);
        self.report(report, Unit::PerSecond, &comparison);
        let waits = bench.waits() - waits;
        report.fact(
            &format!("waits: {}, against {}", self.work, self.against),
            waits.to_string(),
        );
    }

    fn report(&self, report: &mut Report, unit: Unit, comparison: &Comparison) {
        report.compared(self.work, self.against, unit, comparison, self.bound);
    }
}
