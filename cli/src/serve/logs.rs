//! The log: lines on standard error. Neither addresses with their query strings nor tokens are
//! ever logged. An event is one line, whatever callers and servers have put into its texts.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, filter, fmt};

use super::args::{LogFormat, LogLevel};
use crate::human::printable;

/// Logs of the program and of the client library from this level on, of others warnings.
pub fn start(format: LogFormat, level: LogLevel) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let targets = filter::Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("leafctl", level)
        .with_target("leaf_sdk", level);
    let fields = format::debug_fn(|line, field, value| {
        let value = printable(&format!("{value:?}"));
        match field.name() {
            "message" => write!(line, "{value}"),
            name => write!(line, "{name}={value}"),
        }
    });
    let fields = fields.delimited(" ");
    let lines = fmt::layer().with_writer(io::stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(false).fmt_fields(fields).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // A second start in one process keeps the first log.
    let _ = Registry::default()
        .with(lines.with_filter(targets))
        .try_init();
}
