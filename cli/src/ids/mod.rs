//! `decode` and `encode`: ids, their fields and their other forms, without a server.
//!
//! - [`forms`]: numbers and texts.

mod forms;

use std::io::{self, BufRead};

use clap::Args;
use jiff::Timestamp;
use leaf_core::snowflake::{BadLayout, Fields, Layout, Scheme};
use leaf_core::time::WallTime;

use crate::failure::{Code, Failure};
use crate::human;
use crate::output::{Cell, Column, Format, Rows};
use forms::Form;

/// Show the fields of ids
///
/// Takes ids as numbers, or as texts of leaf_id_text, from the arguments or from
/// standard input, one per line. Needs no server. The fields are those of a snowflake id of
/// the layout; for ids of a tag, they have no meaning.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// What the ids are given as
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    from: Form,

    #[command(flatten)]
    common: Common,
}

/// Show ids in their other forms, or make a snowflake id of its fields
///
/// Takes ids as numbers, from the arguments or from standard input, one per line, or with
/// --time the fields of one snowflake id. Needs no server.
#[derive(Debug, Args)]
pub struct EncodeArgs {
    /// Make the id of this instant, such as 2026-11-22T10:00:00Z, instead
    #[arg(long, value_name = "TIMESTAMP", conflicts_with = "ids")]
    time: Option<Timestamp>,

    /// The worker id of the id to make
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "time")]
    worker: u32,

    /// The sequence of the id to make
    #[arg(long, value_name = "NUMBER", default_value_t = 0, requires = "time")]
    sequence: u32,

    #[command(flatten)]
    common: Common,
}

/// The arguments of both.
#[derive(Debug, Args)]
struct Common {
    /// Ids; without any, they are read from standard input
    #[arg(allow_negative_numbers = true)]
    ids: Vec<String>,

    #[command(flatten)]
    scheme: SchemeArgs,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// How snowflake ids are divided into fields.
#[derive(Debug, Args)]
struct SchemeArgs {
    /// The layout
    #[arg(long, default_value = "leaf", value_parser = layout,
          help = format!("The layout: {}", Layout::forms()))]
    layout: Layout,

    /// The instant from which time is counted; by default the layout's own
    #[arg(long, value_name = "TIMESTAMP")]
    epoch: Option<Timestamp>,
}

fn layout(text: &str) -> Result<Layout, BadLayout> {
    text.parse()
}

impl SchemeArgs {
    fn scheme(&self) -> Scheme {
        let default = Scheme::of(self.layout);
        let epoch = self.epoch.map(wall_time);
        Scheme {
            epoch: epoch.unwrap_or(default.epoch),
            ..default
        }
    }
}

fn wall_time(at: Timestamp) -> WallTime {
    WallTime::from_unix_us(at.as_microsecond())
}

fn timestamp(at: WallTime) -> Option<Timestamp> {
    Timestamp::from_microsecond(at.unix_us()).ok()
}

const fn column(name: &'static str) -> Column {
    Column { name, title: name }
}

/// Shows the fields of ids.
pub fn decode(args: &DecodeArgs) -> Result<(), Failure> {
    let scheme = args.common.scheme.scheme();
    let columns = ["id", "created_at", "worker_id", "sequence", "text"].map(column);
    let mut rows = Rows::new(&columns, args.common.format)?;
    let good = each(&args.common.ids, |given| {
        let id = args.from.parse(given)?;
        let fields = scheme.decode(id);
        let created_at = fields.and_then(|fields| timestamp(fields.created_at));
        rows.push(&[
            Cell::Id(id),
            Cell::or_null(created_at, Cell::Instant),
            Cell::or_null(fields, |fields| Cell::Count(fields.worker_id.into())),
            Cell::or_null(fields, |fields| Cell::Count(fields.sequence.into())),
            Cell::or_null(leaf_core::id_text::encode(id), Cell::Text),
        ])
    });
    rows.end()?;
    good
}

/// Shows ids in their other forms.
pub fn encode(args: &EncodeArgs) -> Result<(), Failure> {
    let ids = match args.time {
        Some(time) => &vec![made(args, time)?.to_string()],
        None => &args.common.ids,
    };
    let columns = ["id", "text"].map(column);
    let mut rows = Rows::new(&columns, args.common.format)?;
    let good = each(ids, |given| {
        let id = Form::Number.parse(given)?;
        let text = leaf_core::id_text::encode(id);
        rows.push(&[Cell::Id(id), Cell::or_null(text, Cell::Text)])
    });
    rows.end()?;
    good
}

/// The id with these fields.
fn made(args: &EncodeArgs, time: Timestamp) -> Result<i64, Failure> {
    let scheme = args.common.scheme.scheme();
    let fields = Fields {
        created_at: wall_time(time),
        worker_id: args.worker,
        sequence: args.sequence,
    };
    scheme.encode(fields).ok_or_else(|| {
        let layout = scheme.layout;
        let instant = |at| timestamp(at).map_or_else(|| "the end of time".into(), human::instant);
        let (begin, end) = (instant(scheme.epoch), instant(scheme.ends_at()));
        Failure::usage(format!(
            "a field is out of the range of layout {layout}: worker ids are below {}, sequences \
             below {}, and times from {begin} until {end}",
            layout.worker_ids(),
            layout.ids_per_tick(),
        ))
    })
}

/// Does something with each id that is given, or each line of standard input. Those that are
/// wrong are reported, and do not stop the others.
fn each(
    given: &[String],
    mut work: impl FnMut(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut wrong = 0;
    let mut tried = |what: String, text: &str| match work(text) {
        Err(failure) if failure.is_of_input() => {
            failure.about(what).report();
            wrong += 1;
            Ok(())
        }
        other => other,
    };
    if given.is_empty() {
        for (line, number) in io::stdin().lock().lines().zip(1..) {
            let line = line.map_err(|error| Failure::failed(error).about("standard input"))?;
            if !line.trim().is_empty() {
                tried(format!("line {number}"), line.trim())?;
            }
        }
    }
    for text in given {
        tried(format!("\"{text}\""), text)?;
    }
    match wrong {
        0 => Ok(()),
        _ => Err(Failure::silent(Code::Failed)),
    }
}
