//! Ids per second by the number of sessions: leaf, and what PostgreSQL offers.

use leaf_tests::Draw;

use super::rows::rows_per_second;
use crate::bench::{Bench, TAG};
use crate::compare::Spread;
use crate::plots::{self, Line};
use crate::report::{Plot, Report, Unit};

const SESSIONS: [usize; 4] = [1, 2, 4, 8];

/// Draws the plot, and adds the figures of the largest and the smallest number of sessions.
pub fn by_number(bench: &mut Bench, report: &mut Report) {
    let uuid = match has_uuidv7(bench) {
        true => "uuidv7()",
        false => "gen_random_uuid()",
    };
    let functions = [
        format!("leaf_segment_next('{TAG}')"),
        "nextval('s_cached')".to_owned(),
        "leaf_snowflake_next()".to_owned(),
        "nextval('s')".to_owned(),
        uuid.to_owned(),
    ];
    let names = [
        "leaf_segment_next",
        "nextval, CACHE 1000",
        "leaf_snowflake_next",
        "nextval",
        uuid.trim_end_matches("()"),
    ];
    let mut lines = names.map(|name| Line {
        name: name.to_owned(),
        points: Vec::new(),
    });
    for sessions in SESSIONS {
        // In turn, so that other activity on the machine affects all.
        let mut figures = [const { Vec::new() }; 5];
        for _ in 0..bench.runs.repetitions {
            for (function, figures) in functions.iter().zip(&mut figures) {
                figures.push(rows_per_second(bench, sessions, function, 2_000_000));
            }
        }
        for (line, figures) in lines.iter_mut().zip(figures) {
            let median = Spread::of(figures).median;
            line.points.push((sessions as f64, median));
            let plural = if sessions == 1 { "" } else { "s" };
            report.fact(
                &format!(
                    "ids per second, {sessions} session{plural}: `{}`",
                    line.name
                ),
                Unit::PerSecond.text(median),
            );
        }
    }
    report.plot(Plot {
        file: "sessions.svg",
        title: "Ids per second, by the number of sessions",
        drawing: plots::by_sessions(&lines),
    });
}

fn has_uuidv7(bench: &Bench) -> bool {
    let query = "SELECT count(to_regprocedure('uuidv7()'))";
    bench.server.connect().number(query) > 0
}
