//! `plain`: installs leaf where no library can be installed, as functions in SQL and PL/pgSQL.
//!
//! - [`script`]: the scripts, composed from that of the extension and the bodies in `sql/plain`.

mod script;

use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connection::{self, Access, interruptible};
use crate::failure::Failure;
use crate::output::{line, progress, write};
use crate::query;
use script::Schema;

/// Install leaf without its library, for services that draw ids
///
/// For servers on which no library can be installed, such as most managed hosts. Needs no superuser:
/// the owner of the database is enough. Defaults of columns cannot draw ids.
#[derive(Debug, Args)]
pub struct PlainArgs {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    connection: connection::Args,
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(Install),
    /// Bring the functions up to date
    Upgrade(Install),
    Uninstall(Uninstall),
}

/// Create the tables and functions, or bring the functions up to date
#[derive(Debug, Args)]
struct Install {
    /// Schema of the functions
    #[arg(long, value_name = "SCHEMA", default_value = "public")]
    schema: Schema,

    #[command(flatten)]
    output: Output,
}

/// Remove the tables and functions, if there are no tags and no leases of worker ids
#[derive(Debug, Args)]
struct Uninstall {
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Output {
    /// Print the script instead, for psql -1 -v ON_ERROR_STOP=1 -f
    #[arg(long)]
    dry_run: bool,
}

const READ_COMMITTED: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// How long transactions are waited for that could execute removed functions.
const PATIENCE: Duration = Duration::from_secs(5);

/// Carries out a command.
pub async fn run(args: &PlainArgs) -> Result<(), Failure> {
    let (script, output, done) = match &args.command {
        Command::Install(it) => (script::install(&it.schema), &it.output, "installed"),
        Command::Upgrade(it) => (script::install(&it.schema), &it.output, "upgraded to"),
        Command::Uninstall(it) => (script::uninstall(), &it.output, "removed"),
    };
    if output.dry_run {
        return write(script.as_bytes());
    }
    let connection = args.connection.open(Access::ReadWrite).await?;
    interruptible(connection, async |connection| {
        let client = connection.client();
        // The transaction of a connection that has failed ends with it. What the script asks for itself, too,
        // because others may execute it.
        let changed = query::in_transaction(client, READ_COMMITTED, async || {
            if matches!(args.command, Command::Upgrade(_)) {
                // There has to be something to upgrade.
                query::schema_of_leaf(client).await?;
            }
            let changed = async { Ok(client.batch_execute(&script).await?) };
            progress::waiting("changing the catalog", changed).await
        });
        changed.await?;
        match args.command {
            Command::Uninstall(_) => drop_schema(client).await,
            _ => Ok(()),
        }
    })
    .await?;
    line(&format!("{done} leaf {} (plain)", script::VERSION))
}

/// Drops the schema that the script leaves, once the transactions have ended that were open when the functions
/// were removed.
async fn drop_schema(client: &Client) -> Result<(), Failure> {
    let open = "SELECT coalesce(array_agg(l.virtualxid), '{}') FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) \
                 WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' \
                   AND a.datname = current_database() AND pid <> pg_backend_pid()";
    let left = "SELECT count(*) FROM pg_locks \
                 WHERE locktype = 'virtualxid' AND mode = 'ExclusiveLock' AND virtualxid = ANY ($1)";
    let row = query::in_transaction(client, READ_COMMITTED, async || {
        query::one(client, open, &[]).await
    });
    let open: Vec<String> = row.await?.get(0);
    let began = Instant::now();
    loop {
        let row = query::in_transaction(client, READ_COMMITTED, async || {
            query::one(client, left, &[(&open, Type::TEXT_ARRAY)]).await
        });
        let left: i64 = row.await?.get(0);
        if left == 0 {
            break;
        } else if began.elapsed() > PATIENCE {
            return Err(Failure::failed(format!(
                "leaf is removed but for the empty schema leaf, because transactions that could still call its functions are open: {left}"
            ))
            .hint("end them, and repeat leafctl plain uninstall"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    query::in_transaction(client, READ_COMMITTED, async || {
        Ok(client.batch_execute("DROP SCHEMA leaf").await?)
    })
    .await
}
