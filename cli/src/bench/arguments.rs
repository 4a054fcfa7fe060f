//! What is drawn, and for how long.

use std::path::PathBuf;

use clap::Args;

use crate::connection;
use crate::output::Format;

/// Measure how fast ids are drawn, and check that all differ
///
/// Without --tag, it draws from a tag that it creates and drops afterwards. Progress lines, on
/// standard error, have the format of pgbench.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Draw from this tag
    #[arg(long, value_name = "TAG", conflicts_with_all = ["snowflake", "nextval"])]
    pub tag: Option<String>,

    /// Draw snowflake ids
    #[arg(long)]
    pub snowflake: bool,

    /// Call nextval of this sequence instead, to compare with
    #[arg(long, value_name = "SEQUENCE", conflicts_with_all = ["snowflake", "buffered", "batch"])]
    pub nextval: Option<String>,

    /// Draw through the buffers of the client library in this process, instead of a statement
    /// per call
    #[arg(long)]
    pub buffered: bool,

    /// Ids per call
    #[arg(long, value_name = "IDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,

    /// Number of clients, each with its own connection or, with --buffered, its own thread
    #[arg(short, long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub clients: u16,

    /// Duration in seconds
    #[arg(short = 'T', long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    pub time: f64,

    /// Show progress every so many seconds
    #[arg(short = 'P', long, value_name = "SECONDS", value_parser = seconds)]
    pub progress: Option<f64>,

    /// Save the summary in this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,

    /// Compare with a summary that was saved
    #[arg(long, value_name = "FILE")]
    pub compare: Option<PathBuf>,

    /// Output format of the summary
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,

    #[command(flatten)]
    pub connection: connection::Args,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 1e6 => Ok(seconds),
        _ => Err("must be a number of seconds above 0".into()),
    }
}

impl BenchArgs {
    /// Whether ids of a tag are drawn.
    pub fn needs_tag(&self) -> bool {
        !self.snowflake && self.nextval.is_none()
    }
}
