//! Ids per second by the number of sessions: leaf, and what PostgreSQL offers.

use leaf_tests::Draw;

use super::rows::rows_per_second;
use crate::bench::{Bench, TAG};
use crate::compare::Spread;
use crate::plots::{self, Line};
use crate::report::{Plot, Report, Unit};

const SESSIONS: [usize; 4] = [1, 2, 4, 8];

/// Rows in a statement.
const ROWS: u64 = 1_000_000;

/// What makes ids, and its name in the plot.
struct Source {
    function: String,
    name: &'static str,
}

/// Draws the plot, and adds its figures.
pub fn by_number(bench: &mut Bench, report: &mut Report) {
    let sources = sources(bench);
    let names = sources.iter().map(|source| source.name);
    let mut lines: Vec<_> = names.map(Line::of).collect();
    for sessions in SESSIONS {
        // In turn, so that other activity on the machine affects all.
        let mut figures = vec![Vec::new(); sources.len()];
        for _ in 0..bench.runs.repetitions {
            for (source, figures) in sources.iter().zip(&mut figures) {
                figures.push(rows_per_second(bench, sessions, &source.function, ROWS));
            }
        }
        for (line, figures) in lines.iter_mut().zip(figures) {
            let median = Spread::of(figures).median;
            line.points.push((sessions as f64, median));
            let plural = if sessions == 1 { "" } else { "s" };
            report.fact(
                &format!("ids per second, {sessions} session{plural}: {}", line.name),
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

/// leaf, what this PostgreSQL has, and pgEdge's extension if it is installed.
fn sources(bench: &Bench) -> Vec<Source> {
    let source = |function: &str, name| Source {
        function: function.to_owned(),
        name,
    };
    let mut client = bench.server.connect();
    let mut has = |query: &str| client.number(query) > 0;
    let uuid = match has("SELECT count(to_regprocedure('uuidv7()'))") {
        true => source("uuidv7()", "uuidv7"),
        false => source("gen_random_uuid()", "gen_random_uuid"),
    };
    let mut sources = vec![
        source(&format!("leaf_segment_next('{TAG}')"), "leaf_segment_next"),
        source("nextval('s_cached')", "nextval, CACHE 1000"),
        source("leaf_snowflake_next()", "leaf_snowflake_next"),
        source("nextval('s')", "nextval"),
        uuid,
    ];
    if has("SELECT count(*) FROM pg_available_extensions WHERE name = 'snowflake'") {
        client.run(
            "CREATE EXTENSION IF NOT EXISTS snowflake;
             ALTER DATABASE postgres SET snowflake.node = 1;
             CREATE SEQUENCE IF NOT EXISTS of_snowflake",
        );
        sources.push(source(
            "snowflake.nextval('of_snowflake')",
            "snowflake.nextval (pgEdge)",
        ));
    }
    sources
}
