//! `plain`: installs leaf where no library can be installed, in PL/pgSQL: `sql/plain`, and the tables
//! of the extension's script.

use clap::{Args, Subcommand};

use crate::connection::{self, Access, interruptible};
use crate::failure::Failure;
use crate::output::{line, progress, write};
use crate::query;
use crate::statements::{EXTENSION, split};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const BEGIN: &str = include_str!("../../sql/plain/begin.sql");
const SETTINGS: &str = include_str!("../../sql/plain/settings.sql");
const ROUTINES: &str = concat!(
    include_str!("../../sql/plain/history.sql"),
    include_str!("../../sql/plain/readers.sql"),
    include_str!("../../sql/plain/segments.sql"),
    include_str!("../../sql/plain/tags.sql"),
    include_str!("../../sql/plain/worker.sql"),
);
const END: &str = include_str!("../../sql/plain/end.sql");
const UNINSTALL: &str = include_str!("../../sql/plain/uninstall.sql");

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
    /// Create the tables and functions
    Install {
        /// Schema of the functions
        #[arg(long, value_name = "SCHEMA", default_value = "public")]
        schema: String,
        /// Print the script instead, for psql -1 -v ON_ERROR_STOP=1 -f
        #[arg(long)]
        dry_run: bool,
    },
    /// Bring the functions up to date
    Upgrade,
    /// Remove the tables and functions, if there are no tags and no leases of worker ids
    Uninstall,
}

/// Carries out a command.
pub async fn run(args: &PlainArgs) -> Result<(), Failure> {
    if let Command::Install {
        schema,
        dry_run: true,
    } = &args.command
    {
        return write(install(schema).as_bytes());
    }
    let connection = args.connection.open(Access::ReadWrite).await?;
    let done = interruptible(connection, async |connection| {
        let client = connection.client();
        query::in_transaction(client, "BEGIN ISOLATION LEVEL READ COMMITTED", async || {
            let (script, done) = match &args.command {
                Command::Install { schema, .. } => (install(schema), "installed"),
                _ if !query::is_plain(client).await? => {
                    let missing = "the plain edition of leaf is not installed in this database";
                    return Err(Failure::failed(missing).hint("name another database with -d"));
                }
                Command::Upgrade => {
                    let schema = query::schema_of_leaf(client).await?;
                    (script(&[ROUTINES, END], &schema, false), "upgraded to")
                }
                Command::Uninstall => {
                    let schema = query::schema_of_leaf(client).await?;
                    (script(&[UNINSTALL], &schema, false), "removed")
                }
            };
            let changed = client.batch_execute(&script);
            progress::waiting("changing the catalog", changed).await?;
            Ok(done)
        })
        .await
    })
    .await?;
    line(&format!("{done} leaf {VERSION} (plain)"))
}

fn install(schema: &str) -> String {
    // Of the extension's script, the two tables and their comments.
    let kinds = ["CREATE TABLE ", "COMMENT ON TABLE ", "COMMENT ON COLUMN "];
    let is_kept = |text: &str| {
        let (kind, name) = text.split_once("leaf.").unwrap_or_default();
        kinds.contains(&kind) && (name.starts_with("alloc") || name.starts_with("worker"))
    };
    let mut tables = String::new();
    for statement in split(EXTENSION).into_iter().filter(|it| is_kept(it)) {
        tables += &format!("{statement};\n");
    }
    let schema = format!("\"{}\"", schema.replace('"', "\"\""));
    script(&[SETTINGS, &tables, ROUTINES, END], &schema, true)
}

/// The text of `parts`, with the schema of the functions, quoted, and their names there filled in.
fn script(parts: &[&str], schema: &str, is_new: bool) -> String {
    let routines = ROUTINES.split("@extschema@.").skip(1);
    let routines: Vec<_> = routines.filter_map(|it| it.split('(').next()).collect();
    [BEGIN, &parts.concat()]
        .concat()
        .replace("@routines@", &routines.join(","))
        .replace("@extschema@", schema)
        .replace("@is_new@", &is_new.to_string())
        .replace("@version@", VERSION)
}
