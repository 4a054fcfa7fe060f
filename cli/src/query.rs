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

/// Begins a transaction, such as `BEGIN READ ONLY`, in which names and operators are those of
/// `pg_catalog`: the database can have another `search_path`. Names that are read are quoted only if
/// they have to be.
pub async fn begin(client: &Client, begin: &str) -> Result<(), Failure> {
    let settings =
        "SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL quote_all_identifiers = off";
    Ok(client
        .batch_execute(&format!("{begin}; {settings}"))
        .await?)
}

/// Does something in a transaction of its own, as [`begin`] makes it, and commits it.
pub async fn in_transaction<T>(
    client: &Client,
    begins: &str,
    work: impl AsyncFnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    begin(client, begins).await?;
    let done = work().await;
    let end = match done {
        Ok(_) => "COMMIT",
        Err(_) => "ROLLBACK",
    };
    let ended = client.batch_execute(end).await;
    let done = done?;
    ended?;
    Ok(done)
}

/// Does something in an open transaction, which goes on; why that has failed, if it has.
pub async fn attempt(
    client: &Client,
    work: impl Future<Output = Result<(), Failure>>,
) -> Result<Option<Failure>, Failure> {
    client.batch_execute("SAVEPOINT attempt").await?;
    let failure = work.await.err();
    if failure.is_some() {
        client
            .batch_execute("ROLLBACK TO SAVEPOINT attempt")
            .await?;
    }
    Ok(failure)
}

/// Whether there is the plain edition's table. Roles that may not use its schema can ask, too.
const IS_PLAIN: &str = "EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS h ON h.oid = c.relnamespace \
     WHERE h.nspname = 'leaf' AND c.relname = 'plain' AND c.relkind = 'r')";

/// Whether the database has leaf without its library.
pub async fn is_plain(client: &Client) -> Result<bool, Failure> {
    let sql = format!("SELECT {IS_PLAIN}");
    Ok(one(client, &sql, &[]).await?.get(0))
}

/// Databases that the role may connect to, by their names.
pub async fn databases(client: &Client) -> Result<Vec<String>, Failure> {
    let sql = "SELECT datname::text FROM pg_database \
                WHERE datallowconn AND has_database_privilege(oid, 'CONNECT') ORDER BY datname";
    let rows = in_transaction(client, "BEGIN READ ONLY", async || {
        all(client, sql, &[]).await
    });
    Ok(rows.await?.iter().map(|row| row.get(0)).collect())
}

/// That no database of a server has leaf.
pub fn no_database_has_leaf() -> Failure {
    Failure::failed("no database of this server has the extension leaf")
        .hint("CREATE EXTENSION leaf")
}

/// The schema of leaf's functions, quoted. To be called in a transaction that [`begin`] has begun.
///
/// # Errors
/// If the database has neither the extension `leaf` nor the plain edition.
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

/// As [`schema_of_leaf`], in a transaction of its own.
pub async fn require_leaf(client: &Client) -> Result<String, Failure> {
    let find = async || schema_of_leaf(client).await;
    in_transaction(client, "BEGIN READ ONLY", find).await
}

/// As [`schema_of_leaf`]; `None` if the database has neither.
pub async fn find_leaf(client: &Client) -> Result<Option<String>, Failure> {
    let sql = format!(
        "SELECT quote_ident(n.nspname) \
           FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace \
          WHERE e.extname = 'leaf' \
          UNION ALL \
         SELECT quote_ident(n.nspname) \
           FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid \
           JOIN pg_namespace AS n ON n.oid = p.pronamespace \
           JOIN pg_class AS a ON a.oid = t.tgrelid JOIN pg_namespace AS h ON h.oid = a.relnamespace \
          WHERE h.nspname = 'leaf' AND a.relname = 'alloc' AND t.tgname = 'leaf_check' \
            AND {IS_PLAIN}"
    );
    Ok(first(client, &sql, &[]).await?.map(|row| row.get(0)))
}
