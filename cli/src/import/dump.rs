//! The rows of a table in a dump of MySQL or MariaDB.
//!
//! A dump can be large, because it has other tables, too: lines are skipped until a statement
//! of the table begins. `mysqldump` and `mariadb-dump` begin each statement on a line of its
//! own, and write line breaks within texts as `\n`.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use sqlparser::ast::{
    CreateTableOptions, Expr, Insert, ObjectName, SetExpr, SqlOption, Statement, TableObject,
    UnaryOperator, Value,
};
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;

use crate::failure::Failure;

/// A table of one dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub columns: Vec<String>,
    /// `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    pub auto_increment: Option<i64>,
}

impl Table {
    /// The values of some columns of each row.
    pub fn select<'a, const N: usize>(
        &'a self,
        names: [&str; N],
    ) -> Result<Vec<[Option<&'a str>; N]>, Failure> {
        let mut places = [0; N];
        for (place, name) in places.iter_mut().zip(names) {
            let found = self
                .columns
                .iter()
                .position(|column| column.eq_ignore_ascii_case(name));
            *place = found.ok_or_else(|| {
                Failure::failed(format!("the table in the dump has no column \"{name}\""))
            })?;
        }
        let row = |row: &'a Vec<Option<String>>| {
            places.map(|place| row.get(place).and_then(|value| value.as_deref()))
        };
        Ok(self.rows.iter().map(row).collect())
    }
}

/// Reads the table from each dump; each of them must have it.
pub fn read(dumps: &[PathBuf], names: &[String]) -> Result<Vec<Table>, Failure> {
    let read = |dump: &PathBuf| {
        let about = |failure: Failure| failure.about(dump.display());
        let table = match dump == Path::new("-") {
            true => read_lines(io::stdin().lock(), names),
            false => read_file(dump, names),
        };
        let table = table.map_err(about)?;
        match table.columns.is_empty() {
            true => Err(about(
                Failure::failed(format!("there is no table {}", names.join(" or ")))
                    .hint("name the table with --table"),
            )),
            false => Ok(table),
        }
    };
    dumps.iter().map(read).collect()
}

fn read_file(file: &Path, names: &[String]) -> Result<Table, Failure> {
    let file = File::open(file).map_err(Failure::failed)?;
    let length = file
        .metadata()
        .map(|metadata| metadata.len())
        .unwrap_or_default();
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("reading");
    let table = read_lines(BufReader::new(bar.wrap_read(file)), names);
    bar.finish_and_clear();
    table
}

fn read_lines(mut reader: impl BufRead, names: &[String]) -> Result<Table, Failure> {
    let mut table = Table::default();
    let mut line = Vec::new();
    let mut number = 0;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.map_err(Failure::failed)? == 0 {
            return Ok(table);
        }
        number += 1;
        if !begins_statement(&line, names) {
            continue;
        }
        let first = number;
        let statement = loop {
            match parse(&line) {
                Ok(statement) => break statement,
                Err(error) => {
                    let more = reader
                        .read_until(b'\n', &mut line)
                        .map_err(Failure::failed)?;
                    number += 1;
                    if more == 0 {
                        return Err(error.about(format!("statement of line {first}")));
                    }
                }
            }
        };
        let taken = table.take(statement);
        taken.map_err(|error| error.about(format!("statement of line {first}")))?;
    }
}

/// Whether a line begins a statement of one of these tables.
fn begins_statement(line: &[u8], names: &[String]) -> bool {
    let beginning = String::from_utf8_lossy(&line[..line.len().min(400)]);
    let mut words = beginning
        .split([' ', '`', '(', '.'])
        .filter(|word| !word.is_empty());
    let verb = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let is_verb = |first: &str, second: &str| {
        verb.0.eq_ignore_ascii_case(first) && verb.1.eq_ignore_ascii_case(second)
    };
    if !is_verb("INSERT", "INTO") && !is_verb("REPLACE", "INTO") && !is_verb("CREATE", "TABLE") {
        return false;
    }
    // After the verb come `IF NOT EXISTS`, a database, and the table.
    words
        .take(5)
        .any(|word| names.iter().any(|name| word.trim_end() == name))
}

/// The statement, if the bytes are a whole one.
fn parse(bytes: &[u8]) -> Result<Statement, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Failure::failed("the text is not UTF-8").hint("mysqldump --default-character-set=utf8mb4")
    })?;
    if !text.trim_end().ends_with(';') {
        return Err(Failure::failed("it has no end"));
    }
    let parsed = Parser::parse_sql(&MySqlDialect {}, text);
    let statement = parsed.map_err(Failure::failed)?.into_iter().next();
    statement.ok_or_else(|| Failure::failed("it is empty"))
}

impl Table {
    fn take(&mut self, statement: Statement) -> Result<(), Failure> {
        match statement {
            Statement::CreateTable(create) => {
                let names = create
                    .columns
                    .iter()
                    .map(|column| column.name.value.clone());
                self.columns = names.collect();
                self.auto_increment = auto_increment(&create.table_options);
                Ok(())
            }
            Statement::Insert(insert) => self.take_rows(insert),
            _ => Ok(()),
        }
    }

    fn take_rows(&mut self, insert: Insert) -> Result<(), Failure> {
        let name = |name: &ObjectName| name.0.last().map(ToString::to_string).unwrap_or_default();
        if !matches!(insert.table, TableObject::TableName(_)) {
            return Err(Failure::failed(
                "it inserts into something else than a table",
            ));
        }
        let columns: Vec<String> = insert
            .columns
            .iter()
            .map(|column| name(column).trim_matches('`').to_owned())
            .collect();
        if self.columns.is_empty() {
            self.columns = columns.clone();
        }
        if self.columns.is_empty() {
            return Err(Failure::failed("the names of the columns are missing")
                .hint("mysqldump without --no-create-info"));
        }
        let Some(SetExpr::Values(values)) = insert.source.map(|query| *query.body) else {
            return Err(Failure::failed("it has no VALUES"));
        };
        for row in values.rows {
            let given: Vec<_> = row.content.iter().map(text).collect::<Result<_, _>>()?;
            self.rows.push(self.in_order(&columns, given)?);
        }
        Ok(())
    }

    /// The values in the order of the table's columns.
    fn in_order(
        &self,
        columns: &[String],
        mut given: Vec<Option<String>>,
    ) -> Result<Vec<Option<String>>, Failure> {
        let expected = match columns.is_empty() {
            true => self.columns.len(),
            false => columns.len(),
        };
        if given.len() != expected {
            let found = given.len();
            return Err(Failure::failed(format!(
                "a row has {found} values instead of {expected}"
            )));
        }
        if columns.is_empty() {
            return Ok(given);
        }
        let mut of = |name: &String| {
            let place = columns.iter().position(|column| column == name);
            place.and_then(|place| given[place].take())
        };
        Ok(self.columns.iter().map(&mut of).collect())
    }
}

fn auto_increment(options: &CreateTableOptions) -> Option<i64> {
    let CreateTableOptions::Plain(options) = options else {
        return None;
    };
    options.iter().find_map(|option| match option {
        SqlOption::KeyValue { key, value } if key.value.eq_ignore_ascii_case("AUTO_INCREMENT") => {
            text(value).ok()??.parse().ok()
        }
        _ => None,
    })
}

/// A value as text; `None` is NULL.
fn text(value: &Expr) -> Result<Option<String>, Failure> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Null => Ok(None),
            Value::Number(number, _) => Ok(Some(number.clone())),
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => {
                Ok(Some(text.clone()))
            }
            Value::HexStringLiteral(digits) => {
                let bytes = hex::decode(digits).map_err(Failure::failed)?;
                String::from_utf8(bytes).map(Some).map_err(Failure::failed)
            }
            other => Err(Failure::failed(format!("it has the value {other}"))),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => Ok(text(expr)?.map(|number| format!("-{number}"))),
        // A text with its character set.
        Expr::Prefixed { value, .. } => text(value),
        other => Err(Failure::failed(format!("it has the value {other}"))),
    }
}
