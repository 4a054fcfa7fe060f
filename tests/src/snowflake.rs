//! Drawing snowflake ids, taking them apart, and leasing worker ids, through SQL.

use postgres::types::FromSqlOwned;
use postgres::{Client, Row};

/// What `leaf_snowflake_decode` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// Milliseconds since 1970.
    pub created_at: i64,
    /// Whose id it is.
    pub worker_id: i32,
    /// Which of that instant's ids it is.
    pub sequence: i32,
}

/// What `leaf_worker_register` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The leased worker id.
    pub worker_id: i32,
    /// Whose lease it is.
    pub nonce: String,
    /// How often it was renewed; the next renewal names it.
    pub token: i64,
    /// Where its ids begin, in milliseconds since 1970.
    pub start_at: i64,
    /// Where its ids end, in milliseconds since 1970.
    pub ceiling: i64,
    /// The layout of this registry's ids.
    pub layout: String,
    /// The epoch of this registry's ids, in milliseconds since 1970.
    pub epoch: i64,
}

/// All that a session does with snowflake ids.
pub trait Snowflake {
    /// `leaf_snowflake_next`.
    fn snowflake(&mut self) -> Result<i64, postgres::Error>;
    /// `leaf_snowflake_batch`.
    fn snowflakes(&mut self, count: i32) -> Result<Vec<i64>, postgres::Error>;
    /// `leaf_snowflake_next` for each of `count` rows.
    fn snowflake_rows(&mut self, count: i32) -> Result<Vec<i64>, postgres::Error>;
    /// `leaf_snowflake_decode`; panics if it fails.
    fn parts(&mut self, id: i64) -> Fields;
    /// A column of `leaf.stat_snowflake`; panics if there is no such row.
    fn snowflake_stat<T: FromSqlOwned>(&mut self, column: &str) -> Option<T>;
    /// `leaf_worker_register` with arguments as SQL has them.
    fn register(&mut self, arguments: &str) -> Result<Lease, postgres::Error>;
    /// `leaf_worker_renew`; the lease is brought up to date.
    fn renew(&mut self, lease: &mut Lease) -> Result<(), postgres::Error>;
    /// `leaf_worker_release`.
    fn release(&mut self, lease: &Lease) -> Result<(), postgres::Error>;
    /// The ceiling of a row of `leaf.worker`, in milliseconds since 1970.
    fn ceiling(&mut self, worker_id: i32) -> i64;
    /// The server's clock, in milliseconds since 1970.
    fn clock(&mut self) -> i64;
}

fn first(row: &Row) -> i64 {
    row.get(0)
}

/// An expression of SQL for an instant as a number of milliseconds since 1970.
fn millis(instant: &str) -> String {
    format!("floor(extract(epoch FROM {instant}) * 1000)::bigint")
}

impl Snowflake for Client {
    fn snowflake(&mut self) -> Result<i64, postgres::Error> {
        Ok(first(&self.query_one("SELECT leaf_snowflake_next()", &[])?))
    }

    fn snowflakes(&mut self, count: i32) -> Result<Vec<i64>, postgres::Error> {
        let rows = self.query("SELECT id FROM leaf_snowflake_batch($1) AS id", &[&count])?;
        Ok(rows.iter().map(first).collect())
    }

    fn snowflake_rows(&mut self, count: i32) -> Result<Vec<i64>, postgres::Error> {
        let rows = self.query(
            "SELECT leaf_snowflake_next() FROM generate_series(1, $1)",
            &[&count],
        )?;
        Ok(rows.iter().map(first).collect())
    }

    fn parts(&mut self, id: i64) -> Fields {
        let query = format!(
            "SELECT {}, worker_id, sequence FROM leaf_snowflake_decode($1)",
            millis("created_at")
        );
        let row = self
            .query_one(&query, &[&id])
            .unwrap_or_else(|e| panic!("{id}: {e:?}"));
        Fields {
            created_at: row.get(0),
            worker_id: row.get(1),
            sequence: row.get(2),
        }
    }

    fn snowflake_stat<T: FromSqlOwned>(&mut self, column: &str) -> Option<T> {
        let query = format!("SELECT {column} FROM leaf.stat_snowflake");
        self.query_one(&query, &[])
            .unwrap_or_else(|e| panic!("{query}: {e:?}"))
            .get(0)
    }

    fn register(&mut self, arguments: &str) -> Result<Lease, postgres::Error> {
        let query = format!(
            "SELECT worker_id, nonce::text, token, {}, {}, layout, {}
               FROM leaf_worker_register({arguments})",
            millis("start_at"),
            millis("ceiling"),
            millis("epoch")
        );
        let row = self.query_one(&query, &[])?;
        Ok(Lease {
            worker_id: row.get(0),
            nonce: row.get(1),
            token: row.get(2),
            start_at: row.get(3),
            ceiling: row.get(4),
            layout: row.get(5),
            epoch: row.get(6),
        })
    }

    fn renew(&mut self, lease: &mut Lease) -> Result<(), postgres::Error> {
        let query = format!(
            "SELECT token, {} FROM leaf_worker_renew($1, $2::text::uuid, $3)",
            millis("ceiling")
        );
        let row = self.query_one(&query, &[&lease.worker_id, &lease.nonce, &lease.token])?;
        lease.token = row.get(0);
        lease.ceiling = row.get(1);
        Ok(())
    }

    fn release(&mut self, lease: &Lease) -> Result<(), postgres::Error> {
        self.execute(
            "SELECT leaf_worker_release($1, $2::text::uuid, $3)",
            &[&lease.worker_id, &lease.nonce, &lease.token],
        )?;
        Ok(())
    }

    fn ceiling(&mut self, worker_id: i32) -> i64 {
        let query = format!(
            "SELECT {} FROM leaf.worker WHERE worker_id = $1",
            millis("ceiling")
        );
        first(&self.query_one(&query, &[&worker_id]).expect("a worker id"))
    }

    fn clock(&mut self) -> i64 {
        let query = format!("SELECT {}", millis("clock_timestamp()"));
        first(&self.query_one(&query, &[]).expect("the server's clock"))
    }
}
