//! One id per statement, as in an application that requests ids one by one.

use super::Line;
use crate::bench::{Bench, TAG};
use crate::pgbench::tps;
use crate::report::{Bound, Report};

/// `pgbench` with prepared statements in 8 sessions, against `nextval`.
pub fn against_nextval(bench: &mut Bench, report: &mut Report) {
    let line = Line {
        work: "one id per statement, 8 sessions",
        against: "`SELECT nextval`",
        bound: Bound::AtLeast(1.4),
    };
    let leaf = format!("SELECT leaf_segment_next('{TAG}')");
    line.measure(
        bench,
        report,
        || tps(&bench.server, bench.runs, 8, &leaf),
        || tps(&bench.server, bench.runs, 8, "SELECT nextval('s')"),
    );
}
