//! Ids for many rows of one statement: the cost of an id without other costs.

use leaf_tests::Draw;

use super::Line;
use crate::bench::{Bench, CACHED, TAG};
use crate::limits;
use crate::report::{Bound, Report};

/// How many rows a statement has.
const ROWS: u64 = 5_000_000;

/// One session, `nextval`.
pub fn against_nextval(bench: &mut Bench, report: &mut Report) {
    let line = Line {
        work: "ids for 5 million rows, 1 session",
        against: "`nextval`",
        bound: Bound::AtLeast(2.5),
    };
    compare(bench, report, &line, 1, "nextval('s')");
}

/// Two sessions, `nextval`.
pub fn two_sessions_against_nextval(bench: &mut Bench, report: &mut Report) {
    let line = Line {
        work: "ids for 5 million rows, 2 sessions",
        against: "`nextval`",
        bound: Bound::AtLeast(4.0),
    };
    compare(bench, report, &line, 2, "nextval('s')");
}

/// Sessions, and the work by which a report names them.
const SESSIONS: [(usize, &str); 3] = [
    (1, "ids for 5 million rows, 1 session"),
    (2, "ids for 5 million rows, 2 sessions"),
    (8, "ids for 5 million rows, 8 sessions"),
];

/// A tag of which sessions take 1,000 ids at once, against the least that is possible, and against a
/// sequence that does the same.
pub fn cached(bench: &mut Bench, report: &mut Report) {
    limits::create(&bench.server);
    let sides = [
        (
            "a C function that returns a constant",
            format!("bench_constant('{CACHED}')"),
            [0.9, 0.95, 0.95],
        ),
        (
            "`nextval` of a `CACHE 1000` sequence",
            "nextval('s_cached')".to_owned(),
            [1.4, 1.5, 1.5],
        ),
    ];
    for (against, other, bounds) in &sides {
        let works = [
            "ids for 5 million rows, `cache => 1000`, 1 session",
            "ids for 5 million rows, `cache => 1000`, 2 sessions",
            "ids for 5 million rows, `cache => 1000`, 8 sessions",
        ];
        for (work, (&bound, (sessions, _))) in works.into_iter().zip(bounds.iter().zip(SESSIONS)) {
            let line = Line {
                work,
                against,
                bound: Bound::AtLeast(bound),
            };
            compare_tags(bench, report, &line, sessions, CACHED, other);
        }
    }
}

/// A sequence that hands out 1,000 values per access.
pub fn against_cached_sequence(bench: &mut Bench, report: &mut Report) {
    for (sessions, work) in SESSIONS {
        let line = Line {
            work,
            against: "`nextval` of a `CACHE 1000` sequence",
            bound: Bound::AtLeast(if sessions == 1 { 1.5 } else { 1.3 }),
        };
        compare(bench, report, &line, sessions, "nextval('s_cached')");
    }
}

/// C functions that do the least that is possible. What ascends over all sessions needs one place
/// that they share, so with several sessions only the function that has one, too, is a limit.
pub fn against_limits(bench: &mut Bench, report: &mut Report) {
    limits::create(&bench.server);
    for (sessions, work) in SESSIONS {
        let is_one = sessions == 1;
        let line = Line {
            work,
            against: "a C function that does one `fetch_add` on a shared line",
            bound: Bound::AtLeast(if is_one { 0.97 } else { 0.95 }),
        };
        let ascending = format!("bench_ascending('{TAG}')");
        compare(bench, report, &line, sessions, &ascending);
        let line = Line {
            against: "a C function that returns a constant",
            bound: match is_one {
                true => Bound::AtLeast(0.95),
                false => Bound::None,
            },
            ..line
        };
        let constant = format!("bench_constant('{TAG}')");
        compare(bench, report, &line, sessions, &constant);
    }
}

fn compare(bench: &Bench, report: &mut Report, line: &Line, sessions: usize, other: &str) {
    compare_tags(bench, report, line, sessions, TAG, other);
}

fn compare_tags(
    bench: &Bench,
    report: &mut Report,
    line: &Line,
    sessions: usize,
    tag: &str,
    other: &str,
) {
    let leaf = format!("leaf_segment_next('{tag}')");
    line.measure(
        bench,
        report,
        || rows_per_second(bench, sessions, &leaf, ROWS),
        || rows_per_second(bench, sessions, other, ROWS),
    );
}

/// The number of rows per second, in all sessions together, for which `function` is
/// called, in statements of so many rows.
pub fn rows_per_second(bench: &Bench, sessions: usize, function: &str, rows: u64) -> f64 {
    let rows = bench.runs.size(rows, rows / 10);
    let query = format!("SELECT count({function}) FROM generate_series(1, {rows})");
    let took = bench.in_sessions(sessions, |client| {
        assert_eq!(client.number(&query), rows as i64);
    });
    (rows * sessions as u64) as f64 / took.as_secs_f64()
}
