//! The server: whether leaf is loaded, and has the processes that it needs.

use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::human;
use crate::look::Look;
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

/// What the views show of the server.
pub fn check_look(look: &Look, findings: &mut Findings) {
    let server = &look.server;
    if server.is_in_recovery {
        findings.notice(
            "server",
            "it is in recovery: ids are drawn at the primary, and nothing is refilled here",
            "run doctor at the primary, too",
        );
    }
    // Without a library, there is no more to see.
    if !server.is_monitor && !server.is_plain {
        findings.notice(
            "rights",
            "this role sees only its own tags, and no snowflake ids",
            "GRANT pg_monitor TO the role",
        );
    }
}

/// Whether grants wait for another session, or for a standby.
pub async fn check_waits(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    let sql = "SELECT l.relation::regclass::text, l.pid, coalesce(a.usename::text, 'a process of the server'), \
                      extract(epoch FROM clock_timestamp() - a.xact_start)::float8 \
                 FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) \
                WHERE l.relation IN (to_regclass('leaf.alloc'), to_regclass('leaf.worker')) \
                  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                  AND a.xact_start < clock_timestamp() - interval '1 s' \
                  AND l.granted AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')";
    for row in query::all(client, sql, &[]).await? {
        let (table, pid, role): (&str, i32, &str) = (row.get(0), row.get(1), row.get(2));
        let since = row.get::<_, Option<f64>>(3).map(human::duration);
        let since = since
            .map(|since| format!(" since {since}"))
            .unwrap_or_default();
        findings.error(
            &format!("table {table}"),
            format!("process {pid} ({role}) has locked it{since}: nothing is granted, and new sessions do not draw"),
            format!("end its transaction: SELECT pg_terminate_backend({pid})"),
        );
    }
    let sql = "SELECT pid FROM pg_stat_activity \
                WHERE backend_type = 'leaf loader' AND datname = current_database() \
                  AND wait_event = 'SyncRep' AND xact_start < clock_timestamp() - interval '1 s'";
    if query::first(client, sql, &[]).await?.is_some() {
        findings.error(
            "loader",
            "it waits for a synchronous standby: nothing is granted",
            "bring back a standby that synchronous_standby_names names, or change that setting, unless another server was promoted",
        );
    }
    Ok(())
}

/// Whether a loader can start, and whether what is durable stays durable.
pub async fn check(client: &Client, look: &Look, findings: &mut Findings) -> Result<(), Failure> {
    // Every background worker takes a slot; processes of the server itself do not.
    let sql = "SELECT current_setting('max_worker_processes')::bigint, \
                      count(*) FILTER (WHERE backend_type NOT IN ( \
                          'client backend', 'walsender', 'walreceiver', 'checkpointer', \
                          'background writer', 'walwriter', 'startup', 'archiver', 'logger', \
                          'autovacuum launcher', 'autovacuum worker', 'slotsync worker', \
                          'io worker', 'walsummarizer', 'standalone backend')), \
                      (SELECT count(*) FROM pg_database WHERE datallowconn AND NOT datistemplate), \
                      current_setting('fsync')::boolean \
                 FROM pg_stat_activity";
    let row = query::one(client, sql, &[]).await?;
    let (slots, used, databases): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let free = slots - used;
    // Without the library, nothing of leaf runs in the background.
    let databases = if look.server.is_plain { 0 } else { databases };
    let cure = "raise max_worker_processes, and restart the server";
    if free <= 0
        && !look.server.is_plain
        && look.server.loader_pid.is_none()
        && !look.server.is_in_recovery
    {
        let text = format!(
            "all {slots} background workers of max_worker_processes are in use, so no loader can \
             start in this database"
        );
        findings.error("worker slots", text, cure);
    } else if slots < databases {
        let text = format!(
            "{databases} databases, but max_worker_processes is {slots}: each database in which \
             ids are drawn needs one for its loader"
        );
        findings.notice("worker slots", text, cure);
    }
    if !row.get::<_, bool>(3) {
        findings.error(
            "server",
            "fsync is off: after a crash, ids can be handed out again",
            "set fsync to on",
        );
    }
    Ok(())
}
