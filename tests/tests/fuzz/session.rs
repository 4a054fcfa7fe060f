//! One session of a case.

use crate::book::Book;
use crate::steps::Rows;
use leaf_tests::postgres::{Client, Error, SimpleQueryMessage, SimpleQueryRow};

pub struct Session<'b> {
    name: usize,
    client: Client,
    book: &'b Book,
    turn: usize,
    /// Errors that PostgreSQL itself has for statements that run at the same time
    /// are all right.
    is_alone: bool,
}

/// What PostgreSQL says, with an SQLSTATE for what cannot happen, when somebody
/// drops or changes an object meanwhile.
const MEANWHILE: [&str; 4] = [
    "cache lookup failed for function ",
    "cache lookup failed for ",
    "could not open relation with OID ",
    "tuple concurrently ",
];

impl<'b> Session<'b> {
    pub fn new(name: usize, client: Client, book: &'b Book, is_alone: bool) -> Session<'b> {
        Session {
            name,
            client,
            book,
            turn: name,
            is_alone,
        }
    }

    /// Runs a statement; an error if that shows a fault of leaf.
    pub fn run(&mut self, template: &str, rows: Rows) -> Result<(), String> {
        self.turn += 1;
        let sql = self.book.render(template, self.turn);
        let floors = self.book.floors();
        let result = self.client.simple_query(&sql);
        let outcome = match &result {
            Ok(messages) => messages
                .iter()
                .find_map(|message| match message {
                    SimpleQueryMessage::Row(row) if !row.is_empty() => {
                        Some(format!("{:?} …", row.get(0)))
                    }
                    _ => None,
                })
                .unwrap_or_default(),
            Err(error) => error.as_db_error().map_or_else(
                || error.to_string(),
                |error| format!("{}: {}", error.code().code(), error.message()),
            ),
        };
        self.book
            .note(format!("{}> {sql}\n     {outcome}", self.name));
        match result {
            Ok(messages) => {
                let found = messages.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(row),
                    _ => None,
                });
                self.read(&sql, rows, found.collect(), floors)
            }
            Err(error) => self.judge(&error),
        }
        .map_err(|fault| format!("session {}: {sql}: {fault}", self.name))
    }

    fn read(
        &self,
        sql: &str,
        rows: Rows,
        found: Vec<&SimpleQueryRow>,
        floors: std::collections::HashMap<i64, i64>,
    ) -> Result<(), String> {
        let number = |row: &SimpleQueryRow, column| row.get(column)?.parse::<i64>().ok();
        let numbers = || -> Vec<i64> { found.iter().filter_map(|row| number(row, 0)).collect() };
        match rows {
            Rows::Any => {}
            Rows::Ids => self.book.drawn_in_order(floors, &numbers())?,
            Rows::OldIds => self.book.drawn(&numbers()),
            Rows::Flakes => {
                let flakes = numbers();
                if !flakes.is_sorted_by(|a, b| a < b) {
                    return Err(format!("disorder: {flakes:?}"));
                }
                self.book.flakes(&flakes);
            }
            Rows::Block => {
                for row in found {
                    if let (Some(first), Some(last)) = (number(row, 0), number(row, 1)) {
                        let tag = sql.split(['(', ',']).nth(2).unwrap_or_default();
                        self.book.reserved(tag.trim().to_owned(), first, last);
                    }
                }
            }
            Rows::Returned => {
                if found.first().and_then(|row| row.get(0)) == Some("t") {
                    let bounds = sql
                        .rsplit([',', ')'])
                        .filter_map(|text| text.trim().parse().ok());
                    let bounds: Vec<i64> = bounds.take(2).collect();
                    self.book.returned(bounds[1], bounds[0]);
                }
            }
            Rows::Lease => {
                for row in found {
                    if let (Some(worker), Some(nonce), Some(token)) =
                        (row.get(0), row.get(1), row.get(2))
                    {
                        self.book.leased([worker, nonce, token].map(str::to_owned));
                    }
                }
            }
        }
        Ok(())
    }

    /// An error is all right if it has a code, and the session can go on.
    fn judge(&mut self, error: &Error) -> Result<(), String> {
        let Some(error) = error.as_db_error() else {
            return Err(format!("the session ended: {error}"));
        };
        let (code, message) = (error.code().code(), error.message());
        // One statement at a time needs no other lock than a parser's.
        let known = if self.is_alone {
            &MEANWHILE[..1]
        } else {
            &MEANWHILE
        };
        let is_known = known.iter().any(|known| message.starts_with(known));
        if code.starts_with("XX") && !is_known {
            return Err(format!("{error:?}"));
        }
        match self.client.simple_query("SELECT 1") {
            Ok(_) => Ok(()),
            Err(next) if is(&next, "25P02") => self.recover(),
            // With a timeout of a millisecond.
            Err(next) if is(&next, "57014") => Ok(()),
            Err(next) => Err(format!("after {message}: {next:?}")),
        }
    }

    /// After an error in a transaction, applications do this or that.
    fn recover(&mut self) -> Result<(), String> {
        if self.turn.is_multiple_of(5) {
            return Ok(());
        }
        for sql in ["ROLLBACK TO s", "ROLLBACK AND CHAIN"] {
            let result = self.client.simple_query(sql);
            self.book.note(format!("{}> {sql}", self.name));
            match result {
                Ok(_) => return Ok(()),
                Err(error) if is(&error, "3B001") => {}
                Err(error) => return Err(format!("{sql}: {error:?}")),
            }
        }
        Ok(())
    }

    /// Does what most cases need.
    pub fn begin(&mut self) -> Result<(), String> {
        if self.name == 0 {
            for tag in ["a", "b", "c"] {
                let create =
                    format!("SELECT leaf_tag_create('{tag}', 10, $BASE, $BASE + 1000000000)");
                self.run(&create, Rows::Any)?;
                self.run(&format!("SELECT leaf_tag_grant('{tag}', 'joe')"), Rows::Any)?;
            }
        }
        let prepare = "PREPARE next (text) AS SELECT leaf_segment_next($1)";
        self.run(prepare, Rows::Any)
    }

    /// Ends what the session has open, and leaves it connected.
    pub fn finish(&mut self) -> Result<(), String> {
        for sql in ["ROLLBACK", "RESET ROLE", "CLOSE ALL", "RESET ALL"] {
            self.run(sql, Rows::Any)?;
        }
        Ok(())
    }
}

fn is(error: &Error, code: &str) -> bool {
    error.code().is_some_and(|found| found.code() == code)
}
