//! Masks: what one costs among many rows.

use std::time::Instant;

use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use crate::bench::Bench;
use crate::report::Report;

/// The time of a call among a million rows of one statement, without that of the row.
pub fn per_call(bench: &mut Bench, report: &mut Report) {
    let mut client = bench.server.connect();
    let rows = bench.runs.size(1_000_000, 100_000);
    let calls = [
        ("leaf_mask(n, sha256('bench'))", "`leaf_mask`, per row"),
        (
            "leaf_mask(n, sha256('bench'), 53)",
            "`leaf_mask` of 53 bits, per row",
        ),
        ("leaf_unmask(n, sha256('bench'))", "`leaf_unmask`, per row"),
        ("leaf_id_text(n)", "`leaf_id_text`, per row"),
    ];
    for (call, name) in calls {
        let mut extra: Vec<f64> = (0..bench.runs.repetitions)
            .map(|_| ns_per_row(&mut client, call, rows) - ns_per_row(&mut client, "n", rows))
            .collect();
        extra.sort_by(f64::total_cmp);
        let median = extra[extra.len() / 2];
        report.fact(name, format!("{median:.0} ns"));
    }
}

fn ns_per_row(client: &mut Client, call: &str, rows: u64) -> f64 {
    let start = Instant::now();
    let query = format!("SELECT count({call}) FROM generate_series(1::bigint, {rows}) AS n");
    assert_eq!(client.number(&query), rows as i64);
    start.elapsed().as_nanos() as f64 / rows as f64
}
