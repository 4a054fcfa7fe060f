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

/// How long the beginning of a statement, up to the name of its table, can be.
const LONGEST_BEGINNING: usize = 1_000;

/// How many ends of lines are tried as the end of a statement.
const MOST_ATTEMPTS: usize = 100;

/// A table of a dump, which can have one of each of several databases.
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

/// Reads the tables with one of these names from each dump; each of them must have one.
pub fn read(dumps: &[PathBuf], names: &[String]) -> Result<Vec<Table>, Failure> {
    let read = |dump: &PathBuf| {
        let (name, tables) = match dump == Path::new("-") {
            true => (
                "standard input".into(),
                read_lines(io::stdin().lock(), names),
            ),
            false => (dump.display().to_string(), read_file(dump, names)),
        };
        let about = |failure: Failure| failure.about(&name);
        let tables = tables.map_err(about)?;
        match tables.is_empty() {
            true => Err(about(
                Failure::failed(format!("there is no table {}", names.join(" or ")))
                    .hint("name the table with --table"),
            )),
            false => Ok(tables),
        }
    };
    let tables: Result<Vec<_>, _> = dumps.iter().map(read).collect();
    Ok(tables?.into_iter().flatten().collect())
}

fn read_file(file: &Path, names: &[String]) -> Result<Vec<Table>, Failure> {
    let file = File::open(file).map_err(Failure::failed)?;
    let length = file
        .metadata()
        .map(|metadata| metadata.len())
        .unwrap_or_default();
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message("reading");
    let tables = read_lines(BufReader::new(bar.wrap_read(file)), names);
    bar.finish_and_clear();
    tables
}

fn read_lines(reader: impl BufRead, names: &[String]) -> Result<Vec<Table>, Failure> {
    let mut tables = Vec::new();
    let mut lines = Lines::new(reader);
    let mut line = Vec::new();
    while lines.next_into(&mut line)? {
        if lines.number == 1 {
            check_format(&line)?;
        }
        if !lines.is_in_body && begins_statement(&line, names) {
            let first = lines.number;
            let about = |error: Failure| error.about(format!("line {first}"));
            let statement = whole(&mut line, &mut lines).map_err(about)?;
            take(&mut tables, statement).map_err(about)?;
        }
        line.clear();
    }
    match lines.unfinished {
        0 => Ok(tables),
        _ => Err(Failure::failed(
            "the dump is incomplete: the line \"-- Dump completed\" is missing",
        )
        .hint("make the dump again")),
    }
}

/// The statement that begins with this line.
fn whole(text: &mut Vec<u8>, lines: &mut Lines<impl BufRead>) -> Result<Statement, Failure> {
    let mut error = Failure::failed("the statement is incomplete");
    // A semicolon at the end of a line may be one of a text or a comment.
    for _ in 0..MOST_ATTEMPTS {
        while !text.trim_ascii_end().ends_with(b";") {
            if !lines.next_into(text)? {
                return Err(error);
            }
        }
        match parse(text) {
            Ok(statement) => return Ok(statement),
            Err(failed) => error = failed,
        }
        if !lines.next_into(text)? {
            break;
        }
    }
    Err(error)
}

/// The lines of a dump, and where in it they are.
struct Lines<R> {
    reader: R,
    number: usize,
    /// Between two lines `DELIMITER`: in a trigger or routine, whose lines are statements, too.
    is_in_body: bool,
    /// How many dumps have begun, which have a comment as their first line, and not ended, which
    /// have another as their last.
    unfinished: usize,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R) -> Lines<R> {
        Lines {
            reader,
            number: 0,
            is_in_body: false,
            unfinished: 0,
        }
    }

    /// Adds the next line to the text; whether there is one.
    fn next_into(&mut self, text: &mut Vec<u8>) -> Result<bool, Failure> {
        let begin = text.len();
        let read = self.reader.read_until(b'\n', text);
        if read.map_err(Failure::failed)? == 0 {
            return Ok(false);
        }
        self.number += 1;
        let line = &text[begin..];
        if let Some(delimiter) = line.strip_prefix(b"DELIMITER ") {
            self.is_in_body = delimiter.trim_ascii() != b";";
        } else if line.starts_with(b"-- MySQL dump ") || line.starts_with(b"-- MariaDB dump ") {
            self.unfinished += 1;
        } else if line.starts_with(b"-- Dump completed") {
            self.unfinished = self.unfinished.saturating_sub(1);
        }
        Ok(true)
    }
}

/// Names what cannot be read as a dump.
fn check_format(beginning: &[u8]) -> Result<(), Failure> {
    let compressed: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"BZh", "bunzip2"),
        (b"\xfd7zXZ", "unxz"),
    ];
    for (magic, program) in compressed {
        if beginning.starts_with(magic) {
            return Err(Failure::failed("the dump is compressed").hint(format!(
                "{program} < DUMP | leafctl import …, with - for the dump"
            )));
        }
    }
    match beginning.starts_with(b"\xff\xfe") || beginning.starts_with(b"\xfe\xff") {
        true => Err(Failure::failed("the dump is in UTF-16")
            .hint("write it with mysqldump --result-file instead of >")),
        false => Ok(()),
    }
}

/// Whether a line begins a statement of one of these tables.
fn begins_statement(line: &[u8], names: &[String]) -> bool {
    let beginning = String::from_utf8_lossy(&line[..line.len().min(LONGEST_BEGINNING)]);
    let Some(rest) = after_verb(&beginning) else {
        return false;
    };
    let Some((mut name, rest)) = identifier(rest) else {
        return false;
    };
    // The first one is that of the database.
    if let Some((second, _)) = rest.trim_start().strip_prefix('.').and_then(identifier) {
        name = second;
    }
    names.contains(&name)
}

/// What comes after `INSERT INTO` or `CREATE TABLE`.
fn after_verb(text: &str) -> Option<&str> {
    const VERBS: [&str; 8] = [
        "INSERT INTO",
        "INSERT IGNORE INTO",
        "INSERT DELAYED INTO",
        "INSERT DELAYED IGNORE INTO",
        "REPLACE INTO",
        "REPLACE DELAYED INTO",
        "CREATE TABLE IF NOT EXISTS",
        "CREATE TABLE",
    ];
    VERBS.iter().find_map(|verb| {
        verb.split(' ').try_fold(text, |text, word| {
            let text = text.trim_start();
            let (found, rest) = text.split_at_checked(word.len())?;
            let is_whole = rest.starts_with([' ', '\t', '`']);
            (found.eq_ignore_ascii_case(word) && is_whole).then_some(rest)
        })
    })
}

/// The name at the beginning of a text, and what comes after it.
fn identifier(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    if let Some(quoted) = text.strip_prefix('`') {
        let mut name = String::new();
        let mut rest = quoted;
        loop {
            let (part, after) = rest.split_once('`')?;
            name += part;
            match after.strip_prefix('`') {
                Some(after) => {
                    name.push('`');
                    rest = after;
                }
                None => return Some((name, after)),
            }
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || "`(.;".contains(c));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    (!name.is_empty()).then(|| (name.to_owned(), rest))
}

/// The statement, if the bytes are a whole one.
fn parse(bytes: &[u8]) -> Result<Statement, Failure> {
    let text = std::str::from_utf8(bytes).map_err(|_| {
        Failure::failed("the text is not UTF-8").hint("mysqldump --default-character-set=utf8mb4")
    })?;
    let parsed = Parser::parse_sql(&MySqlDialect {}, text);
    let statement = parsed.map_err(Failure::failed)?.into_iter().next();
    statement.ok_or_else(|| Failure::failed("the statement is empty"))
}

/// Takes in a statement: each `CREATE TABLE` begins another table, to which the rows after it
/// belong.
fn take(tables: &mut Vec<Table>, statement: Statement) -> Result<(), Failure> {
    match statement {
        Statement::CreateTable(create) => {
            let names = create.columns.iter();
            tables.push(Table {
                columns: names.map(|column| column.name.value.clone()).collect(),
                rows: Vec::new(),
                auto_increment: auto_increment(&create.table_options),
            });
            Ok(())
        }
        Statement::Insert(insert) => {
            if tables.is_empty() {
                tables.push(Table::default());
            }
            let table = tables.last_mut();
            table.map_or(Ok(()), |table| table.take_rows(insert))
        }
        _ => Ok(()),
    }
}

impl Table {
    fn take_rows(&mut self, insert: Insert) -> Result<(), Failure> {
        let name = |name: &ObjectName| name.0.last().map(ToString::to_string).unwrap_or_default();
        if !matches!(insert.table, TableObject::TableName(_)) {
            return Err(Failure::failed(
                "the statement does not insert into a table",
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
            return Err(Failure::failed("the statement has no VALUES"));
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
            other => Err(Failure::failed(format!("unsupported value: {other}"))),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => Ok(text(expr)?.map(|number| format!("-{number}"))),
        // A text with its character set.
        Expr::Prefixed { value, .. } => text(value),
        other => Err(Failure::failed(format!("unsupported value: {other}"))),
    }
}
