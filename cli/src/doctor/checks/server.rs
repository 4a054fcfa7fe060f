//! Whether the database has leaf.

use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::query;

/// Whether the database has leaf, and the server has loaded it.
pub async fn has_leaf(client: &Client, findings: &mut Findings) -> Result<bool, Failure> {
    if query::is_plain(client).await? {
        return Ok(true);
    }
    let sql = "SELECT current_setting('leaf.max_tags', true) IS NOT NULL, \
                      current_database()::text, \
                      (SELECT extversion FROM pg_extension WHERE extname = 'leaf'), \
                      (SELECT default_version FROM pg_available_extensions WHERE name = 'leaf')";
    let row = query::one(client, sql, &[]).await?;
    let (is_loaded, database): (bool, String) = (row.get(0), row.get(1));
    let (installed, available): (Option<String>, Option<String>) = (row.get(2), row.get(3));
    // Without its files, there is more to do.
    if !is_loaded && available.is_some() {
        findings.error(
            "server",
            "leaf is not in shared_preload_libraries: no ids can be drawn",
            "add leaf to shared_preload_libraries in postgresql.conf, and restart the server",
        );
    }
    let Some(installed) = installed else {
        let text = match available {
            Some(_) => "the extension leaf has not been created here",
            None => "the extension leaf is not installed on this server",
        };
        let cure = match available {
            Some(_) => "CREATE EXTENSION leaf, or name another database with -d",
            None => {
                "install leaf's library, preload it, and CREATE EXTENSION leaf; \
                 where no library can be installed, leafctl plain install"
            }
        };
        findings.error(&format!("database {database}"), text, cure);
        return Ok(false);
    };
    if let Some(available) = available.filter(|available| *available != installed) {
        findings.warning(
            &format!("database {database}"),
            format!("the extension has version {installed}, the server has {available}"),
            "ALTER EXTENSION leaf UPDATE",
        );
    }
    Ok(is_loaded)
}
