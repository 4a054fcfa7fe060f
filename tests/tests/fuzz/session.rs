//! One session of a case.

use crate::book::{Book, space};
use crate::sql::Rows;
use std::collections::HashMap;

use leaf_tests::Draw;
use leaf_tests::postgres::{Client, Error, SimpleQueryMessage, SimpleQueryRow};

pub struct Session<'b> {
    name: usize,
    client: Client,
    book: &'b Book,
    turn: usize,
    /// Looks at the rows of tags, if no other session changes them meanwhile. If not alone,
    /// errors that PostgreSQL itself has for statements that run at the same time are all
    /// right.
    observer: Option<Client>,
    /// The process of the session.
    pid: i64,
}

/// What PostgreSQL says, with an SQLSTATE for what cannot happen, when somebody
/// drops or changes an object meanwhile.
const MEANWHILE: [&str; 4] = [
    "cache lookup failed for function ",
    "cache lookup failed for ",
    "could not open relation with OID ",
    "tuple concurrently ",
];

/// The codes of a wait that took too long, and of a statement that was cancelled.
const GAVE_UP: [&str; 2] = ["55P03", "57014"];

impl<'b> Session<'b> {
    pub fn new(
        name: usize,
        mut client: Client,
        book: &'b Book,
        observer: Option<Client>,
    ) -> Session<'b> {
        Session {
            name,
            pid: client.number("SELECT pg_backend_pid()::bigint"),
            client,
            book,
            turn: name,
            observer,
        }
    }

    /// Runs a statement; an error if that shows a fault of leaf.
    pub fn run(&mut self, template: &str, rows: Rows) -> Result<(), String> {
        self.turn += 1;
        let sql = self.book.render(template, self.turn);
        let floors = self.book.floors();
        let result = self.client.simple_query(&sql);
        self.note(&sql, &result);
        match result {
            Ok(messages) => {
                let found: Vec<_> = messages.iter().filter_map(row).collect();
                self.check_against_row(&sql, &found)
                    .and_then(|()| self.read(&sql, rows, found, floors))
            }
            Err(error) => {
                // It is not known whether the ids were taken back.
                if rows == Rows::Returned && GAVE_UP.iter().any(|code| is(&error, code)) {
                    self.enter_returned(&sql);
                }
                self.judge(&error)
            }
        }
        .map_err(|fault| format!("session {}: {sql}: {fault}", self.name))
    }

    /// Adds a statement, and how it began to answer, to the transcript.
    fn note(&self, sql: &str, result: &Result<Vec<SimpleQueryMessage>, Error>) {
        let answer = match result {
            Ok(messages) => messages
                .iter()
                .filter_map(row)
                .find_map(|row| row.try_get(0).ok()?.map(str::to_owned))
                .unwrap_or_default(),
            Err(error) => match error.as_db_error() {
                Some(error) => format!("{}: {}", error.code().code(), error.message()),
                None => error.to_string(),
            },
        };
        let line = format!("{}> {sql}\n     {answer}", self.name);
        self.book.note(line);
    }

    /// An id is one of its tag's own numbers, and its role may draw. Outside of a
    /// transaction, and if no other session changes rows meanwhile, the tag's row shows that.
    /// Superusers may draw even if the owner is no role.
    fn check_against_row(&mut self, sql: &str, found: &[&SimpleQueryRow]) -> Result<(), String> {
        let call = sql.strip_prefix("SELECT leaf_segment_next(");
        let tag = call.and_then(|call| call.strip_suffix(')'));
        let tag = tag.filter(|tag| !tag.contains(" FROM "));
        let (Some(observer), Some(tag)) = (&mut self.observer, tag) else {
            return Ok(());
        };
        let Some(id) = found.first().and_then(|row| number(row, 0)) else {
            return Ok(());
        };
        let rows = observer.simple_query(&format!(
            "SELECT a.max_id, a.max_value,
                    u.usesuper OR EXISTS (
                        SELECT FROM unnest(a.grantees || a.owner) AS r
                         WHERE r = 'public' OR pg_has_role(s.usesysid, to_regrole(quote_ident(r)), 'USAGE'))
               FROM pg_stat_activity AS s JOIN pg_user AS u USING (usesysid)
                    LEFT JOIN leaf.alloc AS a ON a.biz_tag = {tag}
              WHERE s.pid = {} AND s.state = 'idle'",
            self.pid
        ));
        // No row if the session is in a transaction; an error if something is locked.
        let rows = rows.unwrap_or_default();
        let Some(of_tag) = rows.iter().find_map(row) else {
            return Ok(());
        };
        let spaces = [0, 1].map(|column| number(of_tag, column).and_then(space));
        match space(id) {
            Some(space) if !spaces.contains(&Some(space)) => {
                Err(format!("{id} is not a number of the tag"))
            }
            _ if of_tag.get(2) == Some("f") => Err(format!("{id} was drawn without permission")),
            _ => Ok(()),
        }
    }

    /// Enters what a statement returned.
    fn read(
        &self,
        sql: &str,
        rows: Rows,
        found: Vec<&SimpleQueryRow>,
        floors: HashMap<i64, i64>,
    ) -> Result<(), String> {
        let numbers = || -> Vec<i64> { found.iter().filter_map(|row| number(row, 0)).collect() };
        match rows {
            Rows::Any => {}
            Rows::Ids => self.book.drawn_in_order(floors, &numbers())?,
            Rows::Floor => numbers().into_iter().for_each(|id| self.book.moved(id)),
            Rows::OldIds => self.book.drawn(&numbers()),
            Rows::Flakes => {
                let flakes = numbers();
                if !flakes.is_sorted_by(|a, b| a < b) {
                    return Err(format!("disorder: {flakes:?}"));
                }
                self.book.flakes(&flakes);
            }
            Rows::Block | Rows::Kept => {
                let block = found
                    .first()
                    .and_then(|row| number(row, 0).zip(number(row, 1)));
                if let Some((first, last)) = block {
                    let [tag, _] = arguments(sql);
                    let returned_to = (rows == Rows::Block).then(|| tag.to_owned());
                    self.book.reserved(returned_to, first, last);
                }
            }
            Rows::Returned => {
                if found.first().and_then(|row| row.get(0)) == Some("t") {
                    self.enter_returned(sql);
                }
            }
            Rows::Lease => {
                let Some(row) = found.first() else {
                    return Ok(());
                };
                let lease = [0, 1, 2].map(|column| row.get(column));
                if let [Some(worker), Some(nonce), Some(token)] = lease {
                    let lease = [worker, nonce, token].map(str::to_owned);
                    let ceiling = number(row, 4).expect("a ceiling");
                    self.book.leased(lease, number(row, 3), ceiling);
                }
            }
            Rows::Released => {
                let released = found.first().and_then(|row| row.get(0).zip(number(row, 1)));
                if let Some((nonce, used_until)) = released {
                    self.book.released(nonce, used_until);
                }
            }
        }
        Ok(())
    }

    /// Enters the block of a call of `leaf_segment_return`.
    fn enter_returned(&self, sql: &str) {
        let [_, range] = arguments(sql);
        let bounds = range.trim_matches(['\'', '[', ']']).split_once(',');
        let (first, last) = bounds.expect("two bounds");
        let number = |text: &str| text.parse().expect("a number");
        self.book.returned(number(first), number(last));
    }

    /// An error is all right if it has a code, and the session can go on.
    fn judge(&mut self, error: &Error) -> Result<(), String> {
        let Some(error) = error.as_db_error() else {
            return Err(format!("the session ended: {error}"));
        };
        let (code, message) = (error.code().code(), error.message());
        // One statement at a time needs no other lock than a parser's.
        let known = if self.observer.is_some() {
            &MEANWHILE[..1]
        } else {
            &MEANWHILE
        };
        let is_known = known.iter().any(|known| message.starts_with(known));
        if code.starts_with("XX") && !is_known {
            return Err(format!("{error:?}"));
        }
        let is_key = code == "23505" && message.contains("adopted_pkey");
        if is_key {
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
        for sql in ["ROLLBACK TO s", "ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN"] {
            let result = self.client.simple_query(sql);
            self.book.note(format!("{}> {sql}", self.name));
            match result {
                Ok(_) => return Ok(()),
                Err(error) if is(&error, "3B001") => {}
                // A timeout at the very end of a statement cancels the next one.
                Err(error) if is(&error, "57014") => {}
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

fn number(row: &SimpleQueryRow, column: usize) -> Option<i64> {
    row.get(column)?.parse().ok()
}

fn row(message: &SimpleQueryMessage) -> Option<&SimpleQueryRow> {
    match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }
}

/// The last arguments of the call that a statement ends with, so many.
fn arguments<const N: usize>(sql: &str) -> [&str; N] {
    let (_, call) = sql.split_once("leaf_segment_re").unwrap_or_default();
    let (_, arguments) = call.split_once('(').unwrap_or_default();
    let arguments = arguments.strip_suffix(')').unwrap_or(arguments);
    let mut last_first = arguments.rsplitn(N, ", ");
    let mut found = [""; N];
    for place in found.iter_mut().rev() {
        *place = last_first.next().unwrap_or_default();
    }
    found
}

fn is(error: &Error, code: &str) -> bool {
    error.code().is_some_and(|found| found.code() == code)
}
