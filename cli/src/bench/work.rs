//! One call, through the server or from the client library's buffers.

use leaf_sdk::{
    Config, Connection, Error, IdSource, Leaf, SegmentSource, SnowflakeConfig, SnowflakeGenerator,
};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::arguments::BenchArgs;
use crate::connection::close;
use crate::failure::Failure;

/// What each call does.
#[derive(Clone, Debug)]
pub enum Work {
    /// A statement, which returns ids.
    Statement {
        sql: String,
        name: Option<String>,
        count: i32,
    },
    /// Ids of a tag, from the buffers of the client library.
    Segment { tag: String, count: u32 },
    /// Snowflake ids, made by the client library.
    Snowflake { count: u32 },
}

impl Work {
    /// `schema` is that of leaf's functions.
    pub fn of(args: &BenchArgs, tag: &str, schema: &str) -> Work {
        let statement = |sql: &str, name: Option<&str>| Work::Statement {
            sql: sql.replace("leaf_", &format!("{schema}.leaf_")),
            name: name.map(str::to_owned),
            count: args.batch as i32,
        };
        let (count, tag_name) = (args.batch, tag.to_owned());
        match (&args.nextval, args.snowflake, args.buffered, count) {
            (Some(sequence), ..) => statement(
                "SELECT pg_catalog.nextval($1::pg_catalog.text::pg_catalog.regclass)",
                Some(sequence.as_str()),
            ),
            (_, true, true, _) => Work::Snowflake { count },
            (_, false, true, _) => Work::Segment {
                tag: tag_name,
                count,
            },
            (_, true, false, 1) => statement("SELECT leaf_snowflake_next()", None),
            (_, true, false, _) => statement("SELECT leaf_snowflake_batch($1)", None),
            (_, false, false, 1) => statement("SELECT leaf_segment_next($1)", Some(tag)),
            (_, false, false, _) => statement("SELECT leaf_segment_batch($1, $2)", Some(tag)),
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        match self {
            Work::Statement { sql, name, count } => {
                let quoted = name.as_ref().map(|name| format!("'{name}'"));
                let values = quoted.into_iter().chain([count.to_string()]);
                let mut text = sql.replace("::pg_catalog.text::pg_catalog.regclass", "");
                for (number, value) in (1..).zip(values) {
                    text = text.replace(&format!("${number}"), &value);
                }
                text
            }
            Work::Segment { tag, count } => format!("client library, tag {tag}, {count} per call"),
            Work::Snowflake { count } => format!("client library, snowflake ids, {count} per call"),
        }
    }
}

/// Draws through a connection of its own.
pub struct Session {
    connection: Connection,
    statement: Statement,
    name: Option<String>,
    count: i32,
}

impl Session {
    pub async fn open(
        config: &Config,
        sql: &str,
        name: Option<&String>,
        count: i32,
    ) -> Result<Session, Failure> {
        let connection = Connection::open(config).await?;
        let statement = connection.client().prepare(sql).await?;
        Ok(Session {
            connection,
            statement,
            name: name.cloned(),
            count,
        })
    }

    pub async fn close(self) {
        drop(self.statement);
        close(self.connection).await;
    }

    /// Makes a call; the ids go to `ids`.
    pub async fn call(&self, ids: &mut Vec<i64>) -> Result<(), Failure> {
        let name = self.name.iter().map(|name| name as &(dyn ToSql + Sync));
        let values: Vec<_> = name.chain([&self.count as &(dyn ToSql + Sync)]).collect();
        let wanted = self.statement.params().len();
        let client = self.connection.client();
        let rows = client.query(&self.statement, &values[..wanted]).await?;
        ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        Ok(())
    }
}

/// Draws from the client library, which all threads share.
#[derive(Clone)]
pub enum Buffered {
    Segment(SegmentSource, u32),
    Snowflake(SnowflakeGenerator, u32),
}

impl Buffered {
    /// Waits until ids are at hand.
    pub async fn open(leaf: &Leaf, work: &Work) -> Result<Option<Buffered>, Failure> {
        let buffered = match work {
            Work::Statement { .. } => return Ok(None),
            Work::Segment { tag, count } => Buffered::Segment(leaf.segment(tag), *count),
            Work::Snowflake { count } => {
                let node = format!("leafctl bench {}", std::process::id());
                let generator = leaf.snowflake(SnowflakeConfig::new(&node))?;
                Buffered::Snowflake(generator, *count)
            }
        };
        match &buffered {
            Buffered::Segment(source, _) => source.ready_async().await?,
            Buffered::Snowflake(generator, _) => generator.ready_async().await?,
        }
        Ok(Some(buffered))
    }

    /// Makes a call; the ids go to `ids`.
    pub fn call(&self, ids: &mut Vec<i64>) -> Result<(), Error> {
        match self {
            Buffered::Segment(source, 1) => ids.push(source.next()?.get()),
            Buffered::Snowflake(generator, 1) => ids.push(generator.next()?.get()),
            Buffered::Segment(source, count) => {
                let drawn = source.next_n(*count as usize)?;
                ids.extend(drawn.iter().map(|id| id.get()));
            }
            Buffered::Snowflake(generator, count) => {
                let drawn = generator.next_n(*count as usize)?;
                ids.extend(drawn.iter().map(|id| id.get()));
            }
        }
        Ok(())
    }
}
