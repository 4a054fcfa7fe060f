//! The tags, written in one transaction.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::sources::Tag;
use crate::failure::Failure;
use crate::query::{self, Param};

/// Creates all tags, or none.
pub async fn all(client: &Client, tags: &[Tag], owner: Option<&str>) -> Result<(), Failure> {
    query::in_transaction(client, "BEGIN", async || within(client, tags, owner).await).await
}

async fn within(client: &Client, tags: &[Tag], owner: Option<&str>) -> Result<(), Failure> {
    if let Some(owner) = owner {
        let sql = "SELECT FROM pg_roles WHERE rolname = $1";
        let found = query::all(client, sql, &[(&owner, Type::TEXT)]).await?;
        if found.is_empty() {
            return Err(Failure::failed(format!("role \"{owner}\" does not exist")));
        }
    }
    query::schema_of_leaf(client).await?;
    write(client, tags, owner).await
}

async fn write(client: &Client, tags: &[Tag], owner: Option<&str>) -> Result<(), Failure> {
    let sql = "INSERT INTO leaf.alloc (biz_tag, max_id, step, description, owner) \
         VALUES ($1, $2, $3, $4, coalesce($5, current_user)::name)";
    for tag in tags {
        let values: [Param<'_>; 5] = [
            (&tag.name, Type::TEXT),
            (&tag.next_id, Type::INT8),
            (&tag.step, Type::INT4),
            (&tag.description, Type::TEXT),
            (&owner, Type::TEXT),
        ];
        let written = client.query_typed(sql, &values).await;
        written.map_err(|error| {
            let is_duplicate = error.code().is_some_and(|code| code.code() == "23505");
            match is_duplicate {
                true => Failure::failed(format!(
                    "tag \"{}\" exists already, so nothing is imported",
                    tag.name
                ))
                .hint("drop it with leafctl tags drop, if it is not in use"),
                false => Failure::from(error).about(format!("tag \"{}\"", tag.name)),
            }
        })?;
    }
    Ok(())
}
