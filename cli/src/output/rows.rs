//! Rows as a table for people, and as JSON and CSV for programs.

use std::io::{self, IsTerminal};

use clap::ValueEnum;
use comfy_table::{
    CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle,
};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::write;
use crate::failure::Failure;
use crate::human;

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    #[default]
    Table,
    /// An array of objects; ids are strings, because many programs round large numbers
    Json,
    /// With a header line
    Csv,
}

/// As psql's.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction('|'))
    .header_separator(LineStyle::none().fill('-').junction('+'))
    .content_lines(ContentLineStyle::none().junction('|'));

/// A column: its name for programs, and its title for people.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub title: &'static str,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Null,
    Text(String),
    /// A number that programs can read as one.
    Count(i64),
    /// An id or a position, which may be above 2⁵³.
    Id(i64),
    Float(f64),
    /// A largest number, of which the largest there can be is no limit.
    Limit(i64),
    /// A number that was made short for people.
    Short(String),
    Flag(bool),
    Instant(Timestamp),
}

impl Cell {
    /// The value, or null.
    pub fn or_null<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
        value.map_or(Cell::Null, cell)
    }

    fn for_people(&self) -> String {
        match self {
            Cell::Null => String::new(),
            Cell::Text(text) | Cell::Short(text) => human::printable(text),
            Cell::Limit(i64::MAX) => "none".into(),
            Cell::Count(number) | Cell::Id(number) | Cell::Limit(number) => number.to_string(),
            Cell::Float(number) => format!("{number:.1}"),
            Cell::Flag(true) => "yes".into(),
            Cell::Flag(false) => "no".into(),
            Cell::Instant(at) => human::instant(*at),
        }
    }

    fn for_csv(&self) -> String {
        match self {
            Cell::Text(text) | Cell::Short(text) => text.clone(),
            Cell::Limit(number) => number.to_string(),
            Cell::Float(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Instant(at) => at.to_string(),
            _ => self.for_people(),
        }
    }

    fn for_json(&self) -> Value {
        match self {
            Cell::Null => Value::Null,
            Cell::Text(text) | Cell::Short(text) => Value::from(text.as_str()),
            Cell::Count(number) => Value::from(*number),
            Cell::Float(number) => Value::from(*number),
            Cell::Flag(flag) => Value::from(*flag),
            Cell::Id(number) | Cell::Limit(number) => Value::from(number.to_string()),
            Cell::Instant(at) => Value::from(at.to_string()),
        }
    }

    /// Whether it says nothing.
    fn is_nothing(&self) -> bool {
        match self {
            Cell::Null | Cell::Limit(i64::MAX) => true,
            Cell::Text(text) | Cell::Short(text) => text.is_empty(),
            _ => false,
        }
    }

    fn in_table(&self) -> comfy_table::Cell {
        let alignment = match self.is_number() {
            true => CellAlignment::Right,
            false => CellAlignment::Left,
        };
        comfy_table::Cell::new(self.for_people()).set_alignment(alignment)
    }

    fn is_number(&self) -> bool {
        matches!(
            self,
            Cell::Count(_) | Cell::Id(_) | Cell::Limit(_) | Cell::Float(_) | Cell::Short(_)
        )
    }
}

/// The narrowest that names are made to fit a terminal.
const NARROWEST: usize = 12;

/// Rows of values, printed as they come. Only a table waits for the last one: its columns are as
/// wide as their widest value, those in which no row has one are left out, and the names in its
/// first column are shortened where the terminal is narrower.
#[derive(Debug)]
pub struct Rows {
    columns: Vec<Column>,
    format: Format,
    rows: Vec<Vec<Cell>>,
    count: usize,
}

impl Rows {
    pub fn new(columns: &[Column], format: Format) -> Result<Rows, Failure> {
        if format == Format::Csv {
            write_record(columns.iter().map(|column| column.name.to_owned()))?;
        }
        Ok(Rows {
            columns: columns.to_vec(),
            format,
            rows: Vec::new(),
            count: 0,
        })
    }

    /// Adds a row, with a value for each column.
    pub fn push(&mut self, row: &[Cell]) -> Result<(), Failure> {
        debug_assert_eq!(row.len(), self.columns.len());
        self.count += 1;
        match self.format {
            Format::Table => {
                self.rows.push(row.to_vec());
                Ok(())
            }
            Format::Json => {
                let before = if self.count == 1 { "[\n  " } else { ",\n  " };
                write(format!("{before}{}", self.object(row)).as_bytes())
            }
            Format::Csv => write_record(row.iter().map(Cell::for_csv)),
        }
    }

    /// Prints what is missing.
    pub fn end(self) -> Result<(), Failure> {
        match self.format {
            Format::Table => write(self.table_text(terminal_width()).as_bytes()),
            Format::Json if self.count == 0 => write(b"[]\n"),
            Format::Json => write(b"\n]\n"),
            Format::Csv => Ok(()),
        }
    }

    fn table_text(&self, width: Option<usize>) -> String {
        let lines = self.lines(usize::MAX);
        let widest = lines.iter().map(|line| line.chars().count()).max();
        let names = self.rows.iter().filter_map(|row| row.first());
        let longest = names.map(|name| name.for_people().chars().count()).max();
        let lines = match (width, widest, longest) {
            (Some(width), Some(widest), Some(longest)) if widest > width => {
                self.lines((longest.saturating_sub(widest - width)).max(NARROWEST))
            }
            _ => lines,
        };
        lines.concat()
    }

    /// The lines of the table, with names of at most so many characters.
    fn lines(&self, longest: usize) -> Vec<String> {
        let is_shown =
            |at: usize| self.rows.is_empty() || self.rows.iter().any(|row| !row[at].is_nothing());
        let shown: Vec<usize> = (0..self.columns.len()).filter(|&at| is_shown(at)).collect();
        let mut table = Table::new();
        table
            .load_style(STYLE)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(shown.iter().map(|&at| self.columns[at].title));
        for row in &self.rows {
            let cells = shown.iter().map(|&at| match (at, &row[at]) {
                (0, Cell::Text(name)) => Cell::Text(human::shortened(name, longest)),
                (_, cell) => cell.clone(),
            });
            table.add_row(cells.map(|cell| cell.in_table()));
        }
        let lines = table.lines();
        lines
            .map(|line| line.trim_end().to_owned() + "\n")
            .collect()
    }

    fn object(&self, row: &[Cell]) -> Value {
        let names = self.columns.iter().map(|column| column.name.to_owned());
        let values = row.iter().map(Cell::for_json);
        Value::Object(names.zip(values).collect::<Map<_, _>>())
    }
}

/// How wide the terminal is, if there is one.
fn terminal_width() -> Option<usize> {
    let is_terminal = io::stdout().is_terminal();
    let size = is_terminal.then(ratatui::crossterm::terminal::size);
    size?.ok().map(|(width, _)| usize::from(width))
}

fn write_record(values: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(values).map_err(Failure::failed)?;
    write(&writer.into_inner().map_err(Failure::failed)?)
}
