//! Masks: what one costs among many rows, and in a statement of its own.

use std::time::Instant;

use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use super::Line;
use crate::bench::{Bench, TAG};
use crate::compare::in_turn;
use crate::pgbench::tps;
use crate::report::{Bound, Report, Unit};

/// The time of a call among a million rows of one statement, without that of the row; and
/// statements with one call, which look the key up, compared with those that do nothing.
pub fn per_call(bench: &mut Bench, report: &mut Report) {
    let mut client = bench.server.connect();
    let rows = bench.runs.size(1_000_000, 100_000);
    let calls = [
        (format!("leaf_mask('{TAG}', n)"), "`leaf_mask`, per row"),
        (
            format!("leaf_mask('{TAG}', n, 53)"),
            "`leaf_mask` of 53 bits, per row",
        ),
        (format!("leaf_unmask('{TAG}', n)"), "`leaf_unmask`, per row"),
        ("leaf_id_text(n)".into(), "`leaf_id_text`, per row"),
    ];
    for (call, name) in calls {
        let mut extra: Vec<f64> = (0..bench.runs.repetitions)
            .map(|_| ns_per_row(&mut client, &call, rows) - ns_per_row(&mut client, "n", rows))
            .collect();
        extra.sort_by(f64::total_cmp);
        let median = extra[extra.len() / 2];
        report.fact(name, format!("{median:.0} ns"));
    }
    let masked = format!("SELECT leaf_mask('{TAG}', 1)");
    let comparison = in_turn(
        bench.runs.repetitions,
        || tps(&bench.server, bench.runs, 8, &masked),
        || tps(&bench.server, bench.runs, 8, "SELECT 1"),
    );
    let line = Line {
        work: "one masked id per statement, 8 sessions",
        against: "`SELECT 1`",
        bound: Bound::None,
    };
    line.report(report, Unit::PerSecond, &comparison);
}

fn ns_per_row(client: &mut Client, call: &str, rows: u64) -> f64 {
    let start = Instant::now();
    let query = format!("SELECT count({call}) FROM generate_series(1::bigint, {rows}) AS n");
    assert_eq!(client.number(&query), rows as i64);
    start.elapsed().as_nanos() as f64 / rows as f64
}
