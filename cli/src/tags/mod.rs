//! `tags`: creates, changes and drops tags, and lets columns draw from them.
//!
//! - [`arguments`]: the commands and what they take.
//! - [`list`]: the catalog as rows.

mod arguments;
mod list;

use leaf_sdk::calls::statement as functions;
use leaf_sdk::{Connection, NewStripe, NewTag, TagChange};
use tokio_postgres::Client;

use crate::connection::{Access, interruptible};
use crate::failure::Failure;
use crate::output::{Cell, Column, Format, Rows, line, progress};
use crate::query::{self, schema_of_leaf};
pub use arguments::TagsArgs;
use arguments::{
    Adopt, Align, Alter, Attach, Command, Create, Drop, Grant, Lock, Release, Restripe, Revoke,
};

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
    .map_err(|failure| failure.in_words(in_words_of_commands))
}

/// Functions and their arguments, which hints of the server name, as commands and options.
fn in_words_of_commands(text: &str) -> String {
    let text = text
        .replace("leaf_tag_", "leafctl tags ")
        .replace("leaf_column_", "leafctl tags ")
        .replace("lock_timeout", "--lock-timeout")
        .replace("leaf.stat_segment shows", "leafctl tags list shows");
    let mut words = Vec::new();
    let mut rest = text.split(' ').peekable();
    while let Some(word) = rest.next() {
        // "name => value", of which "true" needs no value.
        if rest.next_if_eq(&"=>").is_none() {
            words.push(word.to_owned());
            continue;
        }
        let (before, name) = word.rsplit_once('(').unwrap_or(("", word));
        words.extend((!before.is_empty()).then(|| before.to_owned()));
        let option = format!("--{}", name.replace('_', "-"));
        let value = rest.next().unwrap_or_default().replace(')', "");
        words.push(match value.strip_prefix("true") {
            Some(end) => option + end,
            None => format!("{option} {value}"),
        });
    }
    words.join(" ")
}

async fn carry_out(command: &Command, connection: &Connection) -> Result<(), Failure> {
    let client = connection.client();
    let schema = format!("{}.", schema_of_leaf(client).await?);
    match command {
        Command::List(args) => list::print(client, args).await,
        Command::Create(args) => create(client, &schema, args).await,
        Command::Alter(args) => alter(client, &schema, args).await,
        Command::Drop(args) => drop_tag(client, &schema, args).await,
        Command::Grant(args) => grant(client, &schema, args).await,
        Command::Revoke(args) => revoke(client, &schema, args).await,
        Command::Adopt(args) => adopt(client, &schema, args).await,
        Command::Release(args) => release(client, &schema, args).await,
        Command::Align(args) => align(client, &schema, args).await,
        Command::Attach(args) => attach(client, &schema, args).await,
        Command::Restripe(args) => restripe(client, &schema, args).await,
    }
}

/// The failure with the tag that may have been meant, of those that the role may draw from.
async fn with_similar(client: &Client, command: &Command, failure: Failure) -> Failure {
    /// How similar two names are of which one is an error in writing the other, from 0 to 1.
    const SIMILAR: f64 = 0.8;
    let sql = "SELECT biz_tag::text FROM leaf.stat_segment";
    let (Some(tag), Ok(tags)) = (command.tag(), query::all(client, sql, &[]).await) else {
        return failure;
    };
    let likeness = |name: &String| strsim::jaro_winkler(name, tag);
    let tags = tags.iter().map(|row| row.get::<_, String>(0));
    let nearest = tags
        .filter(|name| likeness(name) > SIMILAR)
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    match nearest {
        Some(name) => Failure::failed(format!("tag \"{tag}\" does not exist"))
            .hint(format!("did you mean \"{name}\"?")),
        None => failure,
    }
}

async fn create(client: &Client, schema: &str, args: &Create) -> Result<(), Failure> {
    let new = NewTag {
        step: args.step,
        start: args.start,
        max_value: args.max_value,
        description: args.description.clone(),
        if_not_exists: args.if_not_exists,
        max_step: args.max_step,
        stripes: args.stripes,
        stripe: args.stripe,
        stripe_width: args.stripe_width,
    };
    let create = functions::tag_create(schema, &args.tag, &new);
    create.execute(client).await?;
    line(&format!("created tag \"{}\"", args.tag))
}

async fn alter(client: &Client, schema: &str, args: &Alter) -> Result<(), Failure> {
    let change = TagChange {
        step: args.step,
        advance_to: args.advance_to,
        max_value: args.max_value,
        description: args.description.clone(),
        max_step: args.max_step,
    };
    let alter = functions::tag_alter(schema, &args.tag, &change);
    alter.execute(client).await?;
    line(&format!("altered tag \"{}\"", args.tag))
}

async fn drop_tag(client: &Client, schema: &str, args: &Drop) -> Result<(), Failure> {
    let drop = functions::tag_drop(schema, &args.tag, args.force, args.if_exists);
    drop.execute(client).await?;
    line(&match args.if_exists {
        true => format!("there is no tag \"{}\" now", args.tag),
        false => format!("dropped tag \"{}\"", args.tag),
    })
}

async fn grant(client: &Client, schema: &str, args: &Grant) -> Result<(), Failure> {
    for role in &args.roles {
        let grant = functions::tag_grant(schema, &args.tag, role);
        grant.execute(client).await?;
        line(&format!("\"{role}\" can draw from tag \"{}\"", args.tag))?;
    }
    Ok(())
}

async fn revoke(client: &Client, schema: &str, args: &Revoke) -> Result<(), Failure> {
    for role in &args.roles {
        let revoke = functions::tag_revoke(schema, &args.tag, role);
        revoke.execute(client).await?;
        line(&format!(
            "\"{role}\" can no longer draw from tag \"{}\" by a grant",
            args.tag
        ))?;
    }
    Ok(())
}

async fn adopt(client: &Client, schema: &str, args: &Adopt) -> Result<(), Failure> {
    let (table, column) = (&args.table, &args.column);
    let (tag, kind) = (args.tag.as_deref(), args.kind.to_string());
    let adopt = functions::column_adopt(schema, table, column, tag, &kind);
    begin(client, &args.lock).await?;
    let tag = adopt.execute(client).await?;
    client.batch_execute("COMMIT").await?;
    let from = match tag {
        Some(tag) => format!("tag \"{tag}\""),
        None => "snowflake ids".into(),
    };
    line(&format!("column {table}.{column} draws from {from}"))
}

async fn release(client: &Client, schema: &str, args: &Release) -> Result<(), Failure> {
    let (table, column) = (&args.table, &args.column);
    let release = functions::column_release(schema, table, column);
    begin(client, &args.lock).await?;
    let sequence = release.execute(client).await?;
    client.batch_execute("COMMIT").await?;
    let from = sequence.map_or("nothing of leaf".into(), |name| format!("sequence {name}"));
    line(&format!("column {table}.{column} draws from {from}"))
}

/// Begins a transaction that waits for locks as long as that.
async fn begin(client: &Client, lock: &Lock) -> Result<(), Failure> {
    let timeout = lock.lock_timeout.as_millis();
    let begin = format!("BEGIN; SET LOCAL lock_timeout = '{timeout}ms'");
    Ok(client.batch_execute(&begin).await?)
}

async fn align(client: &Client, schema: &str, args: &Align) -> Result<(), Failure> {
    let align = functions::tag_align(schema, args.tag.as_deref());
    let aligned = align.execute(client).await?;
    let columns = ["tag", "used_in", "highest", "position", "moved", "ignored"];
    let columns = columns.map(|name| Column { name, title: name });
    let mut rows = Rows::new(&columns, args.format)?;
    if aligned.is_empty() && args.format == Format::Table {
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

async fn attach(client: &Client, schema: &str, args: &Attach) -> Result<(), Failure> {
    let attach = functions::tag_attach(schema, &args.tag, args.upstream_tag.as_deref());
    attach.execute(client).await?;
    let upstream = args.upstream_tag.as_ref().unwrap_or(&args.tag);
    line(&format!(
        "tag \"{}\" is fed by tag \"{upstream}\" of the centre",
        args.tag
    ))
}

async fn restripe(client: &Client, schema: &str, args: &Restripe) -> Result<(), Failure> {
    let new = NewStripe {
        stripes: args.stripes,
        stripe: args.stripe,
        width: args.stripe_width,
    };
    let restripe = functions::tag_restripe(schema, &args.tag, args.from, &new);
    restripe.execute(client).await?;
    line(&format!(
        "from {} on, tag \"{}\" grants stripe {} of {}",
        args.from, args.tag, args.stripe, args.stripes
    ))
}

#[cfg(test)]
mod tests {
    use super::in_words_of_commands;

    #[test]
    fn hints_name_commands_and_options() {
        for (hint, words) in [
            (
                "use if_not_exists => true in leaf_tag_create, or drop the tag",
                "use --if-not-exists in leafctl tags create, or drop the tag",
            ),
            ("or use force => true.", "or use --force."),
            (
                "past it with leaf_tag_alter(advance_to => 501) or further",
                "past it with leafctl tags alter --advance-to 501 or further",
            ),
            (
                "Give both, such as stripes => 16, stripe => 3 for the fourth",
                "Give both, such as --stripes 16, --stripe 3 for the fourth",
            ),
        ] {
            assert_eq!(in_words_of_commands(hint), words);
        }
    }
}
