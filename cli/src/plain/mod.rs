//! `plain`: installs leaf where no library can be installed, as functions in SQL and PL/pgSQL.
//!
//! - [`script`]: the scripts, composed from that of the extension and the bodies in `sql/plain`.

mod script;

use clap::{Args, Subcommand};

use crate::connection::{self, Access, interruptible};
use crate::failure::Failure;
use crate::output::{line, note, progress, write};
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

/// Remove the tables and functions, if there are no tags and no leases of worker ids; the empty schema stays
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
        query::in_transaction(client, "BEGIN ISOLATION LEVEL READ COMMITTED", async || {
            if matches!(args.command, Command::Upgrade(_)) {
                // There has to be something to upgrade.
                query::schema_of_leaf(client).await?;
            }
            let changed = async { Ok(client.batch_execute(&script).await?) };
            progress::waiting("changing the catalog", changed).await
        })
        .await
    })
    .await?;
    if matches!(args.command, Command::Uninstall(_)) {
        note(
            "the empty schema leaf stays: it can be dropped when all standbys have the removal, and the transactions have ended that were open then",
        );
    }
    line(&format!("{done} leaf {} (plain)", script::VERSION))
}
