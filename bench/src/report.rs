//! The tables, for the terminal and for the file of results.

use std::fmt::Write;

use comfy_table::{ContentArrangement, Table, presets};

use crate::compare::{Comparison, Spread};
use crate::latency::Latency;

/// The bound that a ratio must meet.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// No bound.
    None,
}

impl Bound {
    fn met(self, ratio: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => ratio >= bound,
            Bound::AtMost(bound) => ratio <= bound,
            Bound::None => true,
        }
    }

    fn verdict(self, ratio: f64) -> &'static str {
        match self {
            Bound::None => "",
            bound if bound.met(ratio) => "yes",
            _ => "NO",
        }
    }

    fn text(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("≥ {bound:.2}"),
            Bound::AtMost(bound) => format!("≤ {bound:.2}"),
            Bound::None => String::new(),
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    /// Rows or transactions per second.
    PerSecond,
    Milliseconds,
}

impl Unit {
    /// A figure with its unit.
    pub fn text(self, figure: f64) -> String {
        match self {
            Unit::PerSecond if figure >= 1e6 => format!("{:.2} M/s", figure / 1e6),
            Unit::PerSecond => format!("{:.1} k/s", figure / 1e3),
            Unit::Milliseconds => format!("{figure:.3} ms"),
        }
    }
}

/// What a report says around its tables.
#[derive(Clone, Copy, Debug)]
pub struct Texts {
    /// The heading, and what should be known before the tables are read.
    pub head: &'static str,
    /// What is compared: the names of both sides.
    pub sides: [&'static str; 2],
    /// The titles of the tables: comparisons, durations of calls, other figures.
    pub titles: [&'static str; 3],
}

/// A drawing of figures.
pub struct Plot {
    /// Its name in `docs/plots`.
    pub file: &'static str,
    pub title: &'static str,
    /// SVG.
    pub drawing: String,
}

/// Everything measured so far.
pub struct Report {
    texts: Texts,
    about: Vec<(&'static str, String)>,
    ratios: Table,
    latencies: Table,
    facts: Table,
    plots: Vec<Plot>,
}

impl Report {
    /// An empty report; `about` describes the machine.
    pub fn new(texts: Texts, about: Vec<(&'static str, String)>) -> Self {
        let [this, other] = texts.sides;
        Report {
            texts,
            about,
            ratios: table(&["work", "against", this, other, "ratio", "bound", "met?"]),
            latencies: table(&["call", "calls", "p50", "p99", "p99.9", "max"]),
            facts: table(&["what", "figure"]),
            plots: Vec::new(),
        }
    }

    /// Adds a comparison to the main table.
    pub fn compared(
        &mut self,
        work: &str,
        against: &str,
        unit: Unit,
        comparison: &Comparison,
        bound: Bound,
    ) {
        let ratio = comparison.ratio;
        self.ratios.add_row([
            work.to_owned(),
            against.to_owned(),
            unit.text(comparison.leaf.median),
            unit.text(comparison.other.median),
            spread(ratio),
            bound.text(),
            bound.verdict(ratio.median).to_owned(),
        ]);
    }

    /// Adds a line to the table of latencies.
    pub fn latency(&mut self, call: &str, latency: &Latency) {
        let ms = |figure| Unit::Milliseconds.text(figure);
        self.latencies.add_row([
            call.to_owned(),
            Unit::PerSecond.text(latency.calls_per_second),
            ms(latency.p50),
            ms(latency.p99),
            ms(latency.p999),
            ms(latency.max),
        ]);
    }

    /// Adds a figure without a comparison.
    pub fn fact(&mut self, what: &str, figure: String) {
        self.facts.add_row([what.to_owned(), figure]);
    }

    /// Adds a drawing.
    pub fn plot(&mut self, plot: Plot) {
        self.plots.push(plot);
    }

    /// The drawings so far.
    pub fn plots(&self) -> &[Plot] {
        &self.plots
    }

    /// The tables, for a terminal.
    pub fn for_terminal(&mut self) -> String {
        self.tables()
            .map(|(_, table)| {
                table
                    .load_preset(presets::UTF8_FULL_CONDENSED)
                    .set_content_arrangement(ContentArrangement::Dynamic);
                table.to_string()
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The whole content of the file of results.
    pub fn for_markdown(&mut self) -> String {
        let mut text = format!("{}\n\n", self.texts.head);
        for (name, value) in &self.about {
            writeln!(text, "- {name}: {value}").expect("a string takes all");
        }
        for (title, table) in self.tables() {
            table
                .load_preset(presets::ASCII_MARKDOWN)
                .set_content_arrangement(ContentArrangement::Disabled);
            write!(text, "\n## {title}\n\n{table}\n").expect("a string takes all");
        }
        for Plot { file, title, .. } in &self.plots {
            write!(text, "\n## {title}\n\n![{title}](../docs/plots/{file})\n")
                .expect("a string takes all");
        }
        text
    }

    /// The tables that have at least one line.
    fn tables(&mut self) -> impl Iterator<Item = (&'static str, &mut Table)> {
        let [ratios, latencies, facts] = self.texts.titles;
        [
            (ratios, &mut self.ratios),
            (latencies, &mut self.latencies),
            (facts, &mut self.facts),
        ]
        .into_iter()
        .filter(|(_, table)| !table.is_empty())
    }
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.set_header(header);
    table
}

fn spread(ratio: Spread) -> String {
    format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_count_from_the_right_side() {
        assert!(Bound::AtLeast(2.5).met(2.5) && !Bound::AtLeast(2.5).met(2.4));
        assert!(Bound::AtMost(1.2).met(1.2) && !Bound::AtMost(1.2).met(1.3));
    }

    #[test]
    fn a_missed_bound_is_seen_in_both_forms() {
        let texts = Texts {
            head: "# Benchmark",
            sides: ["leaf", "other"],
            titles: ["Ratios", "Durations", "Other figures"],
        };
        let mut report = Report::new(texts, vec![("kernel", "Linux".to_owned())]);
        let comparison = Comparison::of(&[(2e6, 1e6)]);
        report.compared(
            "rows",
            "nextval",
            Unit::PerSecond,
            &comparison,
            Bound::AtLeast(2.5),
        );
        assert!(report.for_terminal().contains("NO"));
        let markdown = report.for_markdown();
        assert!(markdown.contains("- kernel: Linux"));
        assert!(
            markdown.contains("| 2.00 (2.00–2.00) | ≥ 2.50 | NO"),
            "{markdown}"
        );
        assert!(!markdown.contains("p99.9"), "an empty table is left out");
    }
}
