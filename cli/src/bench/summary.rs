//! The figures of a run, for people, for programs and for comparisons.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::arguments::BenchArgs;
use super::clients::TIMED_ONE_OF;
use super::tally::Tally;
use super::work::Work;
use crate::failure::Failure;
use crate::human;
use crate::output::Format;

/// The figures of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Summary {
    work: String,
    clients: u16,
    seconds: f64,
    calls: u64,
    ids: u64,
    calls_per_second: f64,
    ids_per_second: f64,
    latency_ms: Latency,
    /// Of how many calls one was timed.
    timed_one_of: u64,
    compared: u64,
    pub duplicates: u64,
    unordered: u64,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Latency {
    average: f64,
    stddev: f64,
    p50: f64,
    p95: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Summary {
    pub fn of(work: &Work, args: &BenchArgs, lasted: Duration, tally: Tally) -> Summary {
        let seconds = lasted.as_secs_f64();
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let at = |quantile: f64| ms(tally.latency.value_at_quantile(quantile));
        Summary {
            work: work.describe(),
            clients: args.clients,
            seconds,
            calls: tally.calls,
            ids: tally.ids,
            calls_per_second: tally.calls as f64 / seconds,
            ids_per_second: tally.ids as f64 / seconds,
            latency_ms: Latency {
                average: tally.latency.mean() / 1e6,
                stddev: tally.latency.stdev() / 1e6,
                p50: at(0.5),
                p95: at(0.95),
                p99: at(0.99),
                p999: at(0.999),
                max: ms(tally.latency.max()),
            },
            timed_one_of: if args.buffered { TIMED_ONE_OF } else { 1 },
            compared: tally.compared,
            duplicates: tally.duplicates,
            unordered: tally.unordered,
        }
    }

    /// A summary that was saved.
    pub fn read(file: &Path) -> Result<Summary, Failure> {
        let bad = |error: &dyn std::fmt::Display| Failure::usage(error).about(file.display());
        let text = fs::read_to_string(file).map_err(|error| bad(&error))?;
        serde_json::from_str(&text)
            .map_err(|error| bad(&error).hint("name a file that leafctl bench --save has written"))
    }

    pub fn json(&self) -> Result<String, Failure> {
        let json = serde_json::to_string_pretty(self).map_err(Failure::failed)?;
        Ok(json + "\n")
    }

    pub fn render(&self, format: Format, earlier: Option<&Summary>) -> Result<String, Failure> {
        match format {
            Format::Json => self.json(),
            Format::Csv => self.csv(),
            Format::Table => Ok(self.text(earlier)),
        }
    }

    /// The figures with their names.
    fn figures(&self) -> [(&'static str, f64); 9] {
        let latency = &self.latency_ms;
        [
            ("calls per second", self.calls_per_second),
            ("ids per second", self.ids_per_second),
            ("latency average, ms", latency.average),
            ("latency stddev, ms", latency.stddev),
            ("latency p50, ms", latency.p50),
            ("latency p95, ms", latency.p95),
            ("latency p99, ms", latency.p99),
            ("latency p99.9, ms", latency.p999),
            ("latency max, ms", latency.max),
        ]
    }

    fn csv(&self) -> Result<String, Failure> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let figures = self.figures();
        let mut written = writer.write_record(figures.iter().map(|(name, _)| column(name)));
        written =
            written.and(writer.write_record(figures.iter().map(|(_, value)| value.to_string())));
        written.map_err(Failure::failed)?;
        let bytes = writer.into_inner().map_err(Failure::failed)?;
        String::from_utf8(bytes).map_err(Failure::failed)
    }

    fn text(&self, earlier: Option<&Summary>) -> String {
        let mut text = String::new();
        let count = |number: u64| human::grouped(i64::try_from(number).unwrap_or(i64::MAX));
        // Writing to a string does not fail.
        let _ = writeln!(text, "work: {}", human::printable(&self.work));
        if let Some(earlier) = earlier {
            let _ = writeln!(
                text,
                "compared with: {}, {} clients",
                human::printable(&earlier.work),
                earlier.clients
            );
        }
        let _ = writeln!(text, "clients: {}", self.clients);
        let _ = writeln!(text, "duration: {:.1} s", self.seconds);
        let _ = writeln!(text, "calls: {}", count(self.calls));
        let _ = writeln!(text, "ids: {}", count(self.ids));
        for (number, (name, value)) in self.figures().into_iter().enumerate() {
            let ratio = earlier.map(|earlier| value / earlier.figures()[number].1);
            let ratio = ratio
                .map(|ratio| format!("  ({ratio:.2} times)"))
                .unwrap_or_default();
            let digits = match (name.ends_with("ms"), self.timed_one_of) {
                (false, _) => 1,
                (true, 1) => 3,
                (true, _) => 6,
            };
            let _ = writeln!(text, "{name} = {value:.digits$}{ratio}");
        }
        if self.timed_one_of > 1 {
            let _ = writeln!(text, "latency is that of one call of {}", self.timed_one_of);
        }
        let compared = match self.compared == self.ids {
            true => format!("all {} ids", count(self.ids)),
            false => format!(
                "the first {} of {} ids",
                count(self.compared),
                count(self.ids)
            ),
        };
        let _ = writeln!(text, "duplicates: {} among {compared}", self.duplicates);
        let _ = writeln!(text, "out of order within a client: {}", self.unordered);
        text
    }
}

/// The name of a figure, for programs.
fn column(name: &str) -> String {
    name.replace(", ", "_")
        .replace("p99.9", "p999")
        .replace(' ', "_")
}
