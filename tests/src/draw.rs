//! Drawing ids through SQL.

use crate::is_plain;
use postgres::Client;
use postgres::error::{DbError, SqlState};

/// What `leaf_segment_reserve` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first id.
    pub first: i64,
    /// The last id.
    pub last: i64,
}

impl Block {
    /// Every id of the block.
    pub fn ids(&self) -> impl Iterator<Item = i64> + use<> {
        self.first..=self.last
    }
}

/// The three ways to draw, and the state of a tag.
pub trait Draw {
    /// `leaf_segment_next`, or a block of one id where no session draws.
    fn next(&mut self, tag: &str) -> Result<i64, postgres::Error>;
    /// `leaf_segment_batch`, or a block.
    fn batch(&mut self, tag: &str, count: i32) -> Result<Vec<i64>, postgres::Error>;
    /// `leaf_segment_reserve`.
    fn reserve(&mut self, tag: &str, count: i64) -> Result<Block, postgres::Error>;
    /// Lets a role draw from a tag, or, in the plain edition, from all.
    fn let_draw(&mut self, tag: &str, role: &str);
    /// What `leaf_segment_feed` gives a shard of one tag; its SQLSTATE if that is nothing.
    fn feed(&mut self, tag: &str, count: i64) -> Result<Block, String>;
    /// `leaf_segment_next` for each of `count` rows.
    fn rows(&mut self, tag: &str, count: i32) -> Result<Vec<i64>, postgres::Error>;
    /// One number of the tag's row in `leaf.stat_segment`.
    fn stat(&mut self, tag: &str, column: &str) -> i64;
    /// One number that a query returns; panics if it fails.
    fn number(&mut self, query: &str) -> i64;
    /// The numbers of the rows that a query returns; panics if it fails.
    fn numbers(&mut self, query: &str) -> Vec<i64>;
    /// One text that a query returns; panics if it fails.
    fn text(&mut self, query: &str) -> String;
    /// Runs statements; panics if one fails.
    fn run(&mut self, statements: &str);
    /// Runs statements that must fail with this SQLSTATE.
    fn fails(&mut self, statements: &str, code: &str);
    /// What `EXPLAIN` prints for this: options, if any, and a query.
    fn plan(&mut self, query: &str) -> String;
    /// Runs a query, which must write nothing to the write-ahead log.
    fn writes_no_wal(&mut self, query: &str);
}

impl Draw for Client {
    fn next(&mut self, tag: &str) -> Result<i64, postgres::Error> {
        if is_plain() {
            return Ok(self.reserve(tag, 1)?.first);
        }
        Ok(self
            .query_one("SELECT leaf_segment_next($1)", &[&tag])?
            .get(0))
    }

    fn batch(&mut self, tag: &str, count: i32) -> Result<Vec<i64>, postgres::Error> {
        if is_plain() {
            return Ok(self.reserve(tag, i64::from(count))?.ids().collect());
        }
        let rows = self.query(
            "SELECT id FROM leaf_segment_batch($1, $2) AS id",
            &[&tag, &count],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn reserve(&mut self, tag: &str, count: i64) -> Result<Block, postgres::Error> {
        if is_plain() {
            return reserve_by_call(self, tag, count);
        }
        let row = self.query_one(
            "SELECT lower(block), upper(block) - 1 FROM leaf_segment_reserve($1, $2) AS block",
            &[&tag, &count],
        )?;
        Ok(Block {
            first: row.get(0),
            last: row.get(1),
        })
    }

    fn let_draw(&mut self, tag: &str, role: &str) {
        self.run(&match is_plain() {
            true => format!(
                "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leaf TO {role};
                 GRANT EXECUTE ON ROUTINE leaf_tag_incarnation, leaf_segment_reserve TO {role}"
            ),
            false => format!("SELECT leaf_tag_grant('{tag}', '{role}')"),
        });
    }

    fn feed(&mut self, tag: &str, count: i64) -> Result<Block, String> {
        let mut fed = feed_all(self, &[(tag, count)])?;
        fed.pop().expect("a row")
    }

    fn rows(&mut self, tag: &str, count: i32) -> Result<Vec<i64>, postgres::Error> {
        let rows = self.query(
            "SELECT leaf_segment_next($1) FROM generate_series(1, $2)",
            &[&tag, &count],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn stat(&mut self, tag: &str, column: &str) -> i64 {
        let query = format!("SELECT {column}::bigint FROM leaf.stat_segment WHERE biz_tag = $1");
        self.query_one(&query, &[&tag])
            .unwrap_or_else(|e| panic!("{query}: {e:?}"))
            .get::<_, Option<i64>>(0)
            .unwrap_or(0)
    }

    fn number(&mut self, query: &str) -> i64 {
        self.query_one(query, &[])
            .unwrap_or_else(|e| panic!("{query}: {e:?}"))
            .get(0)
    }

    fn numbers(&mut self, query: &str) -> Vec<i64> {
        let rows = self.query(query, &[]);
        let rows = rows.unwrap_or_else(|e| panic!("{query}: {e:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    }

    fn text(&mut self, query: &str) -> String {
        self.query_one(query, &[])
            .unwrap_or_else(|e| panic!("{query}: {e:?}"))
            .get(0)
    }

    fn run(&mut self, statements: &str) {
        self.batch_execute(statements)
            .unwrap_or_else(|e| panic!("{statements}: {e:?}"));
    }

    #[track_caller]
    fn fails(&mut self, statements: &str, code: &str) {
        let error = self.batch_execute(statements).expect_err(statements);
        let found = error.code().map(SqlState::code);
        assert_eq!(found, Some(code), "{statements}: {error:?}");
    }

    fn plan(&mut self, query: &str) -> String {
        let rows = self.query(&format!("EXPLAIN {query}"), &[]);
        let rows = rows.unwrap_or_else(|e| panic!("{query}: {e:?}"));
        let lines = rows.iter().map(|row| row.get::<_, String>(0) + "\n");
        lines.collect()
    }

    #[track_caller]
    fn writes_no_wal(&mut self, query: &str) {
        let plan = self.plan(&format!("(ANALYZE, WAL) {query}"));
        assert!(plan.contains("actual"), "it was not run: {plan}");
        // There is a line of WAL only where there was some.
        assert!(!plan.contains("WAL"), "{plan}");
    }
}

/// What the plain edition answers.
pub fn reserve_by_call(
    client: &mut Client,
    tag: &str,
    count: i64,
) -> Result<Block, postgres::Error> {
    let row = client.query_one("CALL leaf_segment_reserve($1, $2)", &[&tag, &count])?;
    let block: leaf_sdk::Block = row.get(0);
    Ok(Block {
        first: block.first.get(),
        last: block.last.get(),
    })
}

/// What `leaf_segment_feed` gives a shard of each tag, or the SQLSTATE of its row; the SQLSTATE
/// alone if the call fails. Each error names a way out.
#[track_caller]
pub fn feed_all(
    client: &mut Client,
    feeds: &[(&str, i64)],
) -> Result<Vec<Result<Block, String>>, String> {
    let (tags, counts): (Vec<_>, Vec<_>) = feeds.iter().copied().unzip();
    let rows = client
        .query("SELECT * FROM leaf_segment_feed($1, $2)", &[&tags, &counts])
        .map_err(|error| {
            let error = error.as_db_error().expect("an error of the server").clone();
            assert!(error.hint().is_some(), "{error:?}");
            error.code().code().to_owned()
        })?;
    assert_eq!(rows.len(), feeds.len());
    let block = |row: &postgres::Row| match row.get::<_, Option<String>>("error_code") {
        None => Ok(Block {
            first: row.get("first"),
            last: row.get("last"),
        }),
        Some(code) => {
            for text in ["message", "hint"] {
                assert!(!row.get::<_, String>(text).is_empty(), "{row:?}");
            }
            Err(code)
        }
    };
    Ok(rows.iter().map(block).collect())
}

/// Draws in portions, so that one statement never takes long, until `count` ids
/// are there.
pub fn draw_many(client: &mut Client, tag: &str, count: usize) -> Vec<i64> {
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let portion = (count - ids.len()).min(10_000) as i32;
        ids.extend(client.batch(tag, portion).expect("a batch"));
    }
    ids
}

/// The error of a call that must fail with this SQLSTATE.
#[track_caller]
pub fn failed<T: std::fmt::Debug>(result: Result<T, postgres::Error>, code: &str) -> DbError {
    let error = result.expect_err("this must fail");
    let Some(error) = error.as_db_error() else {
        panic!("not an error of the server: {error:?}");
    };
    assert_eq!(error.code(), &SqlState::from_code(code), "{error:?}");
    error.clone()
}

/// The same for an error of leaf: each names a way out in its HINT.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, postgres::Error>, code: &str) -> DbError {
    let error = failed(result, code);
    assert!(
        error.hint().is_some_and(|hint| !hint.is_empty()),
        "no HINT: {error:?}"
    );
    error
}
