//! Statements without traces: none is prepared under a name, and no setting of the session is
//! changed, so that they work through poolers that give every transaction another session.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::failure::Failure;

/// A parameter and its type.
pub type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// All rows.
pub async fn all(client: &Client, sql: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
    Ok(client.query_typed(sql, params).await?)
}

/// The first row, if there is one.
pub async fn first(
    client: &Client,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Option<Row>, Failure> {
    Ok(all(client, sql, params).await?.into_iter().next())
}

/// The row of a statement that has one.
pub async fn one(client: &Client, sql: &str, params: &[Param<'_>]) -> Result<Row, Failure> {
    let row = first(client, sql, params).await?;
    row.ok_or_else(|| Failure::failed("the server has returned no row"))
}

/// Whether there is the plain edition's table, and not a view, which would run its author's code.
const IS_PLAIN: &str = "EXISTS (SELECT FROM pg_class \
     WHERE oid = pg_catalog.to_regclass('leaf.plain')::oid AND relkind = 'r')";

/// Whether the database has leaf without its library.
pub async fn is_plain(client: &Client) -> Result<bool, Failure> {
    let sql = format!("SELECT {IS_PLAIN}");
    Ok(one(client, &sql, &[]).await?.get(0))
}

/// Databases that the role may connect to, by their names.
pub async fn databases(client: &Client) -> Result<Vec<String>, Failure> {
    let sql = "SELECT datname::text FROM pg_database \
                WHERE datallowconn AND has_database_privilege(oid, 'CONNECT') ORDER BY datname";
    let rows = all(client, sql, &[]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// That no database of a server has leaf.
pub fn no_database_has_leaf() -> Failure {
    Failure::failed("no database of this server has the extension leaf")
        .hint("CREATE EXTENSION leaf")
}

/// The schema of leaf's functions, quoted.
///
/// # Errors
/// If the database has neither the extension `leaf` nor the plain edition, or if the role is a
/// superuser and the plain edition is that of another role.
pub async fn schema_of_leaf(client: &Client) -> Result<String, Failure> {
    if let Some(schema) = find_leaf(client).await? {
        return Ok(schema);
    }
    let row = one(client, "SELECT current_database()::text", &[]).await?;
    let database: String = row.get(0);
    Err(
        Failure::failed(format!("there is no extension leaf in database \"{database}\"")).hint(
            "CREATE EXTENSION leaf, with leaf in shared_preload_libraries; leafctl plain install where no library can be installed; or name another database with -d",
        ),
    )
}

/// As [`schema_of_leaf`]; `None` if the database has neither.
pub async fn find_leaf(client: &Client) -> Result<Option<String>, Failure> {
    let sql = format!(
        "SELECT pg_catalog.quote_ident(n.nspname), NULL \
                 FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace \
                WHERE e.extname = 'leaf' \
                UNION ALL \
               SELECT pg_catalog.quote_ident(n.nspname), \
                      CASE WHEN u.rolsuper AND NOT o.rolsuper THEN o.rolname::text END \
                 FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid \
                 JOIN pg_namespace AS n ON n.oid = p.pronamespace \
                 JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_roles AS o ON o.oid = c.relowner \
                 JOIN pg_roles AS u ON u.rolname = current_user \
                WHERE t.tgrelid = pg_catalog.to_regclass('leaf.alloc')::oid AND t.tgname = 'leaf_check' \
                  AND {IS_PLAIN}"
    );
    if let Some(row) = first(client, &sql, &[]).await? {
        // A database's owner may have put anything in place of leaf's functions and views.
        return match row.get::<_, Option<&str>>(1) {
            Some(owner) => Err(Failure::failed(
                "a superuser would run what the owner of this database has written",
            )
            .hint(format!(
                "Connect as {owner}, who has installed the plain edition."
            ))),
            None => Ok(row.get(0)),
        };
    }
    Ok(None)
}
