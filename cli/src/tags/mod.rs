//! `tags`: creates, changes and drops tags, and lets columns draw from them.
//!
//! - [`arguments`]: the commands and what they take.
//! - [`list`]: the catalog as rows.

mod arguments;
mod list;

use leaf_sdk::Connection;
use leaf_sdk::calls::rows::{Answer, row};
use leaf_sdk::calls::statement::{Statement, call};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connection::{Access, interruptible};
use crate::failure::Failure;
use crate::output::{Cell, Column, Format, Rows, line, progress};
use crate::query::{self, schema_of_leaf};
pub use arguments::TagsArgs;
use arguments::{Adopt, Alter, Attach, Command, Create, Drop, Grant, Release, Revoke};

row! {
    /// A column whose default draws from a tag, as `leaf_tag_align` found it.
    struct Aligned {
        /// The tag, if the default names it as a constant.
        tag: Option<String> = "biz_tag",
        /// The column.
        used_in: String,
        /// Its largest value, if it has numbers.
        highest: Option<i64>,
        /// Where the tag stands now, if it exists.
        position: Option<i64>,
        /// Whether the tag had to be moved.
        moved: bool,
        /// Rows that were not counted, if there are any.
        ignored: Option<String>,
    }
}

/// Carries out a command.
pub async fn run(args: &TagsArgs) -> Result<(), Failure> {
    let access = match args.command {
        Command::List(_) => Access::Any,
        _ => Access::ReadWrite,
    };
    let connection = args.connection.open(access).await?;
    let what = args.command.name();
    interruptible(connection, async |connection| {
        let done = progress::waiting(what, carry_out(&args.command, connection)).await;
        match done {
            Err(failure) if failure.is_of_tag() => {
                Err(with_similar(connection.client(), &args.command, failure).await)
            }
            done => done,
        }
    })
    .await
}

/// The output once it is committed.
enum Done {
    Lines(Vec<String>),
    Aligned(Vec<Aligned>),
    Listed,
}

async fn carry_out(command: &Command, connection: &Connection) -> Result<(), Failure> {
    let client = connection.client();
    let (begin, table) = match command {
        Command::List(_) => ("BEGIN READ ONLY".to_owned(), None),
        Command::Adopt(Adopt { table, lock, .. })
        | Command::Release(Release { table, lock, .. }) => {
            let timeout = lock.lock_timeout.as_millis();
            let begin = format!("BEGIN; SET LOCAL lock_timeout = '{timeout}ms'");
            (begin, find_table(client, table).await?)
        }
        _ => ("BEGIN".to_owned(), None),
    };
    let work = async || within(client, command, table.as_deref()).await;
    match query::in_transaction(client, &begin, work).await? {
        Done::Lines(lines) => lines.iter().try_for_each(|text| line(text)),
        Done::Aligned(aligned) => match command {
            Command::Align(args) => print_aligned(aligned, args.format),
            _ => Ok(()),
        },
        Done::Listed => Ok(()),
    }
}

/// The OID of the table that a name means by the `search_path` of the session, if there is one.
async fn find_table(client: &Client, name: &str) -> Result<Option<String>, Failure> {
    let sql = "SELECT pg_catalog.to_regclass($1)::pg_catalog.oid::pg_catalog.text";
    let found = query::one(client, sql, &[(&name, Type::TEXT)]).await;
    // Its error says what is wrong with a name that is none.
    Ok(found.ok().and_then(|row| row.get(0)))
}

/// Carries a command out. `table` is the OID of the table that it changes, if it was found.
async fn within(client: &Client, command: &Command, table: Option<&str>) -> Result<Done, Failure> {
    let schema = format!("{}.", schema_of_leaf(client).await?);
    let table = match table {
        Some(oid) => {
            // With its schema, which is not on the search_path.
            let sql = "SELECT $1::oid::regclass::text";
            let name = query::one(client, sql, &[(&oid, Type::TEXT)]).await?;
            Some(name.get::<_, String>(0))
        }
        None => None,
    };
    let table = table.as_deref();
    let done = match command {
        Command::List(args) => {
            list::print(client, args).await?;
            return Ok(Done::Listed);
        }
        Command::Align(args) => {
            let align = call!(
                &schema,
                leaf_tag_align {
                    tag: Text = args.tag.clone()
                }
            );
            return Ok(Done::Aligned(execute(client, align).await?));
        }
        Command::Grant(args) => return grant(client, &schema, args).await,
        Command::Revoke(args) => return revoke(client, &schema, args).await,
        Command::Create(args) => create(client, &schema, args).await,
        Command::Alter(args) => alter(client, &schema, args).await,
        Command::Drop(args) => drop_tag(client, &schema, args).await,
        Command::Adopt(args) => adopt(client, &schema, table, args).await,
        Command::Release(args) => release(client, &schema, table, args).await,
        Command::Attach(args) => attach(client, &schema, args).await,
    };
    Ok(Done::Lines(vec![done?]))
}

async fn execute<T: Answer>(client: &Client, call: Statement<T>) -> Result<T, Failure> {
    Ok(call.execute(client).await?)
}

/// The failure with the tag that may have been meant, of those that the role owns.
async fn with_similar(client: &Client, command: &Command, failure: Failure) -> Failure {
    /// How similar two names are of which one is an error in writing the other, from 0 to 1.
    const SIMILAR: f64 = 0.8;
    let sql = "SELECT biz_tag::text FROM leaf.stat_segment";
    let tags = query::in_transaction(client, "BEGIN READ ONLY", async || {
        // This may have failed: the view could run the code of the role that has made it.
        schema_of_leaf(client).await?;
        query::all(client, sql, &[]).await
    });
    let (Some(tag), Ok(tags)) = (command.tag(), tags.await) else {
        return failure;
    };
    let likeness = |name: &String| strsim::jaro_winkler(name, tag);
    let tags: Vec<String> = tags.iter().map(|row| row.get(0)).collect();
    if tags.iter().any(|name| name == tag) {
        // It is something else that does not exist, such as a role.
        return failure;
    }
    let nearest = tags
        .into_iter()
        .filter(|name| likeness(name) > SIMILAR)
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match nearest {
        Some(name) => Failure::failed(format!("tag \"{tag}\" does not exist"))
            .hint(format!("did you mean \"{name}\"?")),
        None => failure,
    }
}

async fn create(client: &Client, schema: &str, args: &Create) -> Result<String, Failure> {
    let create = call!(
        schema,
        leaf_tag_create {
            tag: Text = args.tag.clone(),
            step: Integer = args.step,
            start: Bigint = args.start,
            max_value: Bigint = args.max_value,
            description: Text = args.description.clone(),
            if_not_exists: Boolean = args.if_not_exists,
            max_step: Integer = args.max_step,
            stripes: Integer = args.stripes,
            stripe: Integer = args.stripe,
            stripe_width: Bigint = args.stripe_width,
            cache: Integer = args.cache,
        }
    );
    execute::<()>(client, create).await?;
    Ok(format!("created tag \"{}\"", args.tag))
}

async fn alter(client: &Client, schema: &str, args: &Alter) -> Result<String, Failure> {
    let alter = call!(
        schema,
        leaf_tag_alter {
            tag: Text = args.tag.clone(),
            step: Integer = args.step,
            advance_to: Bigint = args.advance_to,
            max_value: Bigint = args.max_value,
            description: Text = args.description.clone(),
            max_step: Integer = args.max_step,
            cache: Integer = args.cache,
        }
    );
    execute::<()>(client, alter).await?;
    Ok(format!("altered tag \"{}\"", args.tag))
}

async fn drop_tag(client: &Client, schema: &str, args: &Drop) -> Result<String, Failure> {
    let drop = call!(
        schema,
        leaf_tag_drop {
            tag: Text = args.tag.clone(),
            force: Boolean = args.force,
            if_exists: Boolean = args.if_exists,
        }
    );
    execute::<()>(client, drop).await?;
    Ok(match args.if_exists {
        true => format!("there is no tag \"{}\" now", args.tag),
        false => format!("dropped tag \"{}\"", args.tag),
    })
}

async fn grant(client: &Client, schema: &str, args: &Grant) -> Result<Done, Failure> {
    let mut lines = Vec::new();
    for role in &args.roles {
        let (tag, role_name) = (args.tag.clone(), role.clone());
        let grant = call!(
            schema,
            leaf_tag_grant {
                tag: Text = tag,
                role: Name = role_name
            }
        );
        execute::<()>(client, grant).await?;
        lines.push(format!("\"{role}\" can draw from tag \"{}\"", args.tag));
    }
    Ok(Done::Lines(lines))
}

async fn revoke(client: &Client, schema: &str, args: &Revoke) -> Result<Done, Failure> {
    let mut lines = Vec::new();
    for role in &args.roles {
        let (tag, role_name) = (args.tag.clone(), role.clone());
        let revoke = call!(
            schema,
            leaf_tag_revoke {
                tag: Text = tag,
                role: Name = role_name
            }
        );
        execute::<()>(client, revoke).await?;
        lines.push(format!(
            "\"{role}\" can no longer draw from tag \"{}\" by a grant",
            args.tag
        ));
    }
    Ok(Done::Lines(lines))
}

async fn adopt(
    client: &Client,
    schema: &str,
    table: Option<&str>,
    args: &Adopt,
) -> Result<String, Failure> {
    let (named, column) = (&args.table, &args.column);
    let table = table.unwrap_or(named);
    let adopt = call!(
        schema,
        leaf_column_adopt {
            table: Regclass = table.to_owned(),
            column: Name = column.clone(),
            tag: Text = args.tag.clone(),
            kind: Text = args.kind.to_string(),
        }
    );
    let tag: Option<String> = execute(client, adopt).await?;
    let from = match tag {
        Some(tag) => format!("tag \"{tag}\""),
        None => "snowflake ids".into(),
    };
    Ok(format!("column {named}.{column} draws from {from}"))
}

async fn release(
    client: &Client,
    schema: &str,
    table: Option<&str>,
    args: &Release,
) -> Result<String, Failure> {
    let (named, column) = (&args.table, &args.column);
    let table = table.unwrap_or(named);
    let release = call!(
        schema,
        leaf_column_release {
            table: Regclass = table.to_owned(),
            column: Name = column.clone(),
        }
    );
    let sequence: Option<String> = execute(client, release).await?;
    let from = sequence.map_or("nothing of leaf".into(), |name| format!("sequence {name}"));
    Ok(format!("column {named}.{column} draws from {from}"))
}

fn print_aligned(aligned: Vec<Aligned>, format: Format) -> Result<(), Failure> {
    let columns = ["tag", "used_in", "highest", "position", "moved", "ignored"];
    let columns = columns.map(|name| Column { name, title: name });
    let mut rows = Rows::new(&columns, format)?;
    if aligned.is_empty() && format == Format::Table {
        return line("no default of a column draws from a tag");
    }
    for column in aligned {
        rows.push(&[
            Cell::or_null(column.tag, Cell::Text),
            Cell::Text(column.used_in),
            Cell::or_null(column.highest, Cell::Id),
            Cell::or_null(column.position, Cell::Id),
            Cell::Flag(column.moved),
            Cell::or_null(column.ignored, Cell::Text),
        ])?;
    }
    rows.end()
}

async fn attach(client: &Client, schema: &str, args: &Attach) -> Result<String, Failure> {
    let attach = call!(
        schema,
        leaf_tag_attach {
            tag: Text = args.tag.clone(),
            upstream_tag: Text = args.upstream_tag.clone(),
        }
    );
    execute::<()>(client, attach).await?;
    let upstream = args.upstream_tag.as_ref().unwrap_or(&args.tag);
    Ok(format!(
        "tag \"{}\" is fed by tag \"{upstream}\" of the centre",
        args.tag
    ))
}
