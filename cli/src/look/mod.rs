//! The content of leaf's views in a database, at one moment.
//!
//! - [`server`]: the server, the database and the extension.
//! - [`tags`], `leaf.stat_segment`.
//! - [`snowflake`], `leaf.stat_snowflake`.
//! - [`upstream`], `leaf.stat_upstream`.
//! - [`value`]: how values are written.

mod server;
mod snowflake;
mod tags;
mod upstream;
mod value;

use serde::Serialize;
use tokio_postgres::Client;

use crate::failure::Failure;
use crate::query;

pub use server::Server;
pub use snowflake::Snowflake;
pub use tags::Tag;
pub use upstream::Upstream;

/// The content of the views.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    pub server: Server,
    pub tags: Vec<Tag>,
    /// `None` if the role may not see it, and in the plain edition.
    pub snowflake: Option<Snowflake>,
    /// `None` if there is no centre, or if the role may not see it.
    pub upstream: Option<Upstream>,
}

impl Look {
    /// Whether the last call for one of the tags, or for snowflake ids, failed because no loader
    /// could be started.
    pub fn lacks_loader(&self) -> bool {
        let of_snowflake = self.snowflake.iter().map(|it| &it.last_error);
        let errors = self
            .tags
            .iter()
            .map(|tag| &tag.last_error)
            .chain(of_snowflake);
        errors
            .flatten()
            .any(|error| error.starts_with("no background worker slot"))
    }

    /// Reads the views.
    ///
    /// # Errors
    /// If the database has no extension `leaf`.
    pub async fn take(client: &Client) -> Result<Look, Failure> {
        query::in_transaction(client, "BEGIN READ ONLY", async || {
            Look::within(client).await
        })
        .await
    }

    /// Reads the views in a transaction that [`query::begin`] has begun.
    pub async fn within(client: &Client) -> Result<Look, Failure> {
        query::schema_of_leaf(client).await?;
        let server = Server::look(client).await?;
        let tags = Tag::look(client, server.is_plain).await?;
        // Of the plain edition, there is nothing more to see.
        let (snowflake, upstream) = match server.is_monitor && !server.is_plain {
            true => (
                Some(Snowflake::look(client).await?),
                Upstream::look(client).await?,
            ),
            false => (None, None),
        };
        Ok(Look {
            server,
            tags,
            snowflake,
            upstream,
        })
    }
}
