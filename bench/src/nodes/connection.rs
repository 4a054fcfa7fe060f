//! Connections to the centre that call it as shards do.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls};

/// How long a shard waits for a whole pipeline of answers with the default settings, before it
/// gives all of them up (`leaf.upstream_timeout`, four times).
pub const PATIENCE: Duration = Duration::from_secs(12);

/// A tag, and how many numbers of it are asked for.
pub type Feed = (String, i64);

/// A connection to the centre. Calls of its clones go out in one pipeline.
#[derive(Clone)]
pub struct Connection(Arc<Client>);

impl Connection {
    /// Connects, and sets the time limits of a shard.
    pub async fn open(upstream: &str) -> Result<Connection, Error> {
        let (client, connection) = tokio_postgres::connect(upstream, NoTls).await?;
        // Errors are those of the calls.
        tokio::spawn(async { _ = connection.await });
        client
            .batch_execute("SET leaf.wait_timeout = '2s'; SET statement_timeout = '3s'")
            .await?;
        Ok(Connection(Arc::new(client)))
    }

    /// Asks for numbers of tags, in one call. Returns for which there were none.
    pub async fn feed(&self, feeds: &[Feed]) -> Result<Vec<Feed>, Error> {
        let feed =
            "SELECT first, last, incarnation, error_code, message FROM leaf_segment_feed($1, $2)";
        let (tags, counts): (Vec<_>, Vec<_>) = feeds.iter().cloned().unzip();
        let parameters = [
            (&tags as _, Type::TEXT_ARRAY),
            (&counts as _, Type::INT8_ARRAY),
        ];
        let rows = self.0.query_typed(feed, &parameters).await?;
        let failed = rows
            .iter()
            .map(|row| row.get::<_, Option<&str>>(3).is_some());
        let each = feeds.iter().zip(failed);
        Ok(each
            .filter(|(_, failed)| *failed)
            .map(|(feed, _)| feed.clone())
            .collect())
    }

    /// Leases a worker id.
    pub async fn register(&self, node: &str) -> Result<(), Error> {
        let register = "SELECT worker_id FROM leaf_worker_register($1::text, NULL, clock_timestamp(), '1h', \
                        gen_random_uuid())";
        let parameters = [(&node as _, Type::TEXT)];
        self.0.query_typed(register, &parameters).await?;
        Ok(())
    }
}
