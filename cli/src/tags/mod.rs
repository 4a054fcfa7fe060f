//! `tags`: creates, changes and drops tags, and lets columns draw from them.
//!
//! - [`arguments`]: the commands and what they take.
//! - [`list`]: the catalog as rows.
//! - [`call`]: a call of one of leaf's functions.

mod arguments;
mod call;
mod list;

use leaf_sdk::Connection;
use tokio_postgres::Client;

use crate::connection::{Access, interruptible};
use crate::failure::Failure;
use crate::output::{Cell, Column, Format, Rows, line, progress};
pub use arguments::TagsArgs;
use arguments::{
    Adopt, Align, Alter, Attach, Command, Create, Drop, Grant, Release, Restripe, Revoke,
};
use call::Call;

/// Carries out a command.
pub async fn run(args: &TagsArgs) -> Result<(), Failure> {
    let access = match args.command {
        Command::List(_) => Access::Any,
        _ => Access::ReadWrite,
    };
    let connection = args.connection.open(access).await?;
    let what = args.command.name();
    interruptible(connection, async |connection| {
        progress::waiting(what, carry_out(&args.command, connection)).await
    })
    .await
}

async fn carry_out(command: &Command, connection: &Connection) -> Result<(), Failure> {
    let client = connection.client();
    match command {
        Command::List(args) => list::print(client, args).await,
        Command::Create(args) => create(client, args).await,
        Command::Alter(args) => alter(client, args).await,
        Command::Drop(args) => drop_tag(client, args).await,
        Command::Grant(args) => grant(client, args).await,
        Command::Revoke(args) => revoke(client, args).await,
        Command::Adopt(args) => adopt(client, args).await,
        Command::Release(args) => release(client, args).await,
        Command::Align(args) => align(client, args).await,
        Command::Attach(args) => attach(client, args).await,
        Command::Restripe(args) => restripe(client, args).await,
    }
}

async fn create(client: &Client, args: &Create) -> Result<(), Failure> {
    Call::of("leaf_tag_create")
        .text("tag", Some(&args.tag))
        .integer("step", args.step)
        .bigint("start", args.start)
        .bigint("max_value", args.max_value)
        .text("description", args.description.as_ref())
        .flag("if_not_exists", args.if_not_exists)
        .integer("max_step", args.max_step)
        .integer("stripes", args.stripes)
        .integer("stripe", args.stripe)
        .bigint("stripe_width", args.stripe_width)
        .execute(client)
        .await?;
    line(&format!("created tag \"{}\"", args.tag))
}

async fn alter(client: &Client, args: &Alter) -> Result<(), Failure> {
    Call::of("leaf_tag_alter")
        .text("tag", Some(&args.tag))
        .integer("step", args.step)
        .bigint("advance_to", args.advance_to)
        .bigint("max_value", args.max_value)
        .text("description", args.description.as_ref())
        .integer("max_step", args.max_step)
        .execute(client)
        .await?;
    line(&format!("altered tag \"{}\"", args.tag))
}

async fn drop_tag(client: &Client, args: &Drop) -> Result<(), Failure> {
    Call::of("leaf_tag_drop")
        .text("tag", Some(&args.tag))
        .flag("force", args.force)
        .execute(client)
        .await?;
    line(&format!("dropped tag \"{}\"", args.tag))
}

async fn grant(client: &Client, args: &Grant) -> Result<(), Failure> {
    for role in &args.roles {
        Call::of("leaf_tag_grant")
            .text("tag", Some(&args.tag))
            .name("role", role)
            .execute(client)
            .await?;
        line(&format!("\"{role}\" can draw from tag \"{}\"", args.tag))?;
    }
    Ok(())
}

async fn revoke(client: &Client, args: &Revoke) -> Result<(), Failure> {
    for role in &args.roles {
        Call::of("leaf_tag_revoke")
            .text("tag", Some(&args.tag))
            .name("role", role)
            .execute(client)
            .await?;
        line(&format!(
            "\"{role}\" can no longer draw from tag \"{}\" by a grant",
            args.tag
        ))?;
    }
    Ok(())
}

async fn adopt(client: &Client, args: &Adopt) -> Result<(), Failure> {
    let row = Call::of("leaf_column_adopt")
        .regclass(&args.table)
        .name("\"column\"", &args.column)
        .text("tag", args.tag.as_ref())
        .text("kind", Some(&args.kind.to_string()))
        .row(client)
        .await?;
    let tag: Option<String> = row.get(0);
    let from = match tag {
        Some(tag) => format!("tag \"{tag}\""),
        None => "snowflake ids".into(),
    };
    let (table, column) = (&args.table, &args.column);
    line(&format!("column {table}.{column} draws from {from}"))
}

async fn release(client: &Client, args: &Release) -> Result<(), Failure> {
    let row = Call::of("leaf_column_release")
        .regclass(&args.table)
        .name("\"column\"", &args.column)
        .returning("::text")
        .row(client)
        .await?;
    let sequence: Option<String> = row.get(0);
    let from = sequence.map_or("nothing of leaf".into(), |name| format!("sequence {name}"));
    let (table, column) = (&args.table, &args.column);
    line(&format!("column {table}.{column} draws from {from}"))
}

async fn align(client: &Client, args: &Align) -> Result<(), Failure> {
    let aligned = Call::of("leaf_tag_align").text("tag", args.tag.as_ref());
    let aligned = aligned.table(client).await?;
    let columns = ["tag", "used_in", "highest", "position", "moved", "ignored"];
    let columns = columns.map(|name| Column { name, title: name });
    let mut rows = Rows::new(&columns, args.format)?;
    if aligned.is_empty() && args.format == Format::Table {
        return line("no default of a column draws from a tag");
    }
    for column in aligned {
        rows.push(&[
            Cell::or_null(column.get("biz_tag"), Cell::Text),
            Cell::Text(column.get("used_in")),
            Cell::or_null(column.get("highest"), Cell::Id),
            Cell::or_null(column.get("position"), Cell::Id),
            Cell::Flag(column.get("moved")),
            Cell::or_null(column.get("ignored"), Cell::Text),
        ])?;
    }
    rows.end()
}

async fn attach(client: &Client, args: &Attach) -> Result<(), Failure> {
    Call::of("leaf_tag_attach")
        .text("tag", Some(&args.tag))
        .text("upstream_tag", args.upstream_tag.as_ref())
        .execute(client)
        .await?;
    let upstream = args.upstream_tag.as_ref().unwrap_or(&args.tag);
    line(&format!(
        "tag \"{}\" is fed by tag \"{upstream}\" of the centre",
        args.tag
    ))
}

async fn restripe(client: &Client, args: &Restripe) -> Result<(), Failure> {
    Call::of("leaf_tag_restripe")
        .text("tag", Some(&args.tag))
        .integer("stripes", Some(args.stripes))
        .integer("stripe", Some(args.stripe))
        .bigint("\"from\"", Some(args.from))
        .bigint("stripe_width", args.stripe_width)
        .execute(client)
        .await?;
    line(&format!(
        "from {} on, tag \"{}\" grants stripe {} of {}",
        args.from, args.tag, args.stripe, args.stripes
    ))
}
