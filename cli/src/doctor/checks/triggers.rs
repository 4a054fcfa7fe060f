//! leaf's tables: they must be logged, and leaf's own triggers must fire always.

use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::look::Look;
use crate::query;

/// leaf's own triggers.
const OWN: [(&str, &str); 5] = [
    ("leaf.alloc", "leaf_check"),
    ("leaf.alloc", "leaf_changed"),
    ("leaf.alloc", "leaf_truncated"),
    ("leaf.worker", "leaf_check"),
    ("leaf.worker", "leaf_truncated"),
];

pub async fn check(client: &Client, look: &Look, findings: &mut Findings) -> Result<(), Failure> {
    let sql = "SELECT oid::regclass::text FROM pg_class \
                WHERE oid IN ('leaf.alloc'::regclass, 'leaf.worker'::regclass) AND relpersistence <> 'p' ORDER BY 1";
    for row in query::all(client, sql, &[]).await? {
        let table: String = row.get(0);
        findings.error(
            &format!("table {table}"),
            "it is unlogged: a crash empties it, and no standby or backup has it",
            format!("ALTER TABLE {table} SET LOGGED"),
        );
    }
    let sql = "SELECT tgrelid::regclass::text, tgname::text, tgenabled = 'A' \
                 FROM pg_trigger \
                WHERE tgrelid IN ('leaf.alloc'::regclass::oid, 'leaf.worker'::regclass::oid) AND NOT tgisinternal";
    let rows = query::all(client, sql, &[]).await?;
    let found: Vec<(String, String, bool)> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    // The plain edition has one.
    let own = if look.server.is_plain {
        &OWN[..1]
    } else {
        &OWN
    };
    for &(table, name) in own {
        let own = found
            .iter()
            .find(|(of, trigger, _)| of == table && trigger == name);
        let text = match own {
            Some((_, _, true)) => continue,
            Some(_) => format!("trigger {name} does not fire always"),
            None => format!("trigger {name} is missing"),
        };
        let cure = match own {
            Some(_) => format!("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"),
            None => "create or install leaf again, in a new database".into(),
        };
        findings.error(&format!("table {table}"), text, cure);
    }
    let foreign = found
        .iter()
        .filter(|(of, trigger, _)| !OWN.contains(&(of.as_str(), trigger.as_str())));
    for (table, name, _) in foreign {
        findings.notice(
            &format!("table {table}"),
            format!("trigger {name} runs within every grant"),
            "keep it quick; it must not change max_id",
        );
    }
    Ok(())
}
