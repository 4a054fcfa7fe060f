//! Settings of snowflake ids against the lease in force, which keeps what it was made with.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use leaf_core::snowflake::{Layout, Scheme};
use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::human;
use crate::look::Look;
use crate::query;

/// The settings of this database, whatever those of the session are; `None` where that
/// is not known.
#[derive(Debug, Default)]
struct Configured {
    worker_id: Option<String>,
    layout: Option<String>,
    epoch: Option<String>,
}

pub async fn check(client: &Client, look: &Look, findings: &mut Findings) -> Result<(), Failure> {
    let configured = Configured::look(client).await?;
    let Some(snowflake) = &look.snowflake else {
        return Ok(());
    };
    let fixed = configured
        .worker_id
        .and_then(|id| id.parse::<i32>().ok())
        .filter(|&id| id >= 0);
    if let (Some(fixed), Some(used)) = (fixed, snowflake.worker_id)
        && fixed != used
    {
        findings.warning(
            "leaf.worker_id",
            format!("it is {fixed}, but the current lease is of worker id {used}"),
            "draw an id in a new session, and run doctor again",
        );
    }
    let layout: Option<Layout> = configured.layout.and_then(|it| it.parse().ok());
    let used: Option<Layout> = snowflake.layout.as_ref().and_then(|it| it.parse().ok());
    if let (Some(layout), Some(used)) = (layout, used) {
        if layout != used {
            findings.error(
                "leaf.snowflake_layout",
                format!("it is {layout}, but ids have layout {used}: draws fail with 55000"),
                "set it back; the manual's chapter on worker ids says how to change a layout",
            );
        } else {
            check_epoch(configured.epoch, layout, snowflake.epoch, findings);
        }
    }
    Ok(())
}

fn check_epoch(
    configured: Option<String>,
    layout: Layout,
    used: Option<Timestamp>,
    findings: &mut Findings,
) {
    let of_layout = || Timestamp::from_microsecond(Scheme::of(layout).epoch.unix_us()).ok();
    let epoch = match configured.as_deref() {
        Some("") => of_layout(),
        // As the server reads it: in UTC, unless it says otherwise.
        Some(text) => text.parse().ok().or_else(|| {
            let time: DateTime = text.parse().ok()?;
            Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp())
        }),
        None => None,
    };
    if let (Some(epoch), Some(used)) = (epoch, used)
        && epoch != used
    {
        findings.error(
            "leaf.snowflake_epoch",
            format!(
                "it is {}, but ids count from {}: draws fail with 55000",
                human::instant(epoch),
                human::instant(used)
            ),
            "set it back; the manual's chapter on worker ids says how to change an epoch",
        );
    }
}

impl Configured {
    async fn look(client: &Client) -> Result<Configured, Failure> {
        // Of the database, then of all; else of the file, unless this session hides that.
        let sql = "SELECT p.name, \
                      coalesce((SELECT substr(setting, strpos(setting, '=') + 1) \
                                  FROM pg_db_role_setting AS s, unnest(s.setconfig) AS setting \
                                 WHERE s.setrole = 0 AND split_part(setting, '=', 1) = p.name \
                                   AND s.setdatabase IN (0, (SELECT oid FROM pg_database \
                                                              WHERE datname = current_database())) \
                                 ORDER BY s.setdatabase DESC LIMIT 1), \
                               CASE WHEN p.source IN ('default', 'configuration file', 'command line', \
                                                      'environment variable') \
                                    THEN p.setting END) \
                 FROM pg_settings AS p \
                WHERE p.name IN ('leaf.worker_id', 'leaf.snowflake_layout', 'leaf.snowflake_epoch')";
        let mut configured = Configured::default();
        for row in query::all(client, sql, &[]).await? {
            let (name, value): (String, Option<String>) = (row.get(0), row.get(1));
            match name.as_str() {
                "leaf.worker_id" => configured.worker_id = value,
                "leaf.snowflake_layout" => configured.layout = value,
                _ => configured.epoch = value,
            }
        }
        Ok(configured)
    }
}
