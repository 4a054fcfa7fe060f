//! `top`: tags, buffers and workers of one or several databases, live.
//!
//! - [`poll`]: reads the views of each database again and again.
//! - [`app`]: what is known, sorted and filtered; what keys change.
//! - [`keys`]: which key does what.
//! - [`screen`]: draws it.

mod app;
mod keys;
mod poll;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use crate::connection;
use crate::failure::Failure;
use app::{App, INTERVALS, Sort};
use poll::{Source, Update};
use screen::Theme;

/// Show tags, buffers and workers live
///
/// Members of pg_monitor see all tags, other roles the tags that they own. Press ? for the
/// keys. To watch several databases or servers, give -d several times, or -A for all databases
/// of a server.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Seconds between updates
    #[arg(short = 'n', long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    interval: f64,

    /// Watch all databases of the server that have the extension
    #[arg(short = 'A', long)]
    all_databases: bool,

    /// Show only tags whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,

    /// What to sort by
    #[arg(long, value_enum, default_value_t, value_name = "COLUMN")]
    sort: Sort,

    #[command(flatten)]
    connection: connection::Args,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let [shortest, longest] = INTERVALS;
    match (shortest..=longest).contains(&seconds) {
        true => Ok(seconds),
        false => Err(format!("must be between {shortest} and {longest}")),
    }
}

/// Shows tags, buffers and workers until a key ends it.
pub async fn run(args: &TopArgs) -> Result<(), Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::usage("top needs a terminal").hint("leafctl status prints once"));
    }
    let sources = open(args).await?;
    let (interval, intervals) = watch::channel(Duration::from_secs_f64(args.interval));
    let (updates, updated) = unbounded_channel();
    let server = server_of_all(&sources);
    let name = |source: &Source| match server {
        Some(_) => source.database.clone(),
        None => format!("{} on {}", source.database, source.hosts),
    };
    let names = sources.iter().map(name).collect();
    for (number, source) in sources.into_iter().enumerate() {
        tokio::spawn(source.poll(number, intervals.clone(), updates.clone()));
    }
    let app = App::new(server, names, args.sort, &args.filter, interval);
    let mut terminal = ratatui::try_init()?;
    let done = show(&mut terminal, app, updated).await;
    ratatui::restore();
    done
}

/// The server, if it is one.
fn server_of_all(sources: &[Source]) -> Option<String> {
    let first = sources.first()?;
    let is_one = sources.iter().all(|source| source.hosts == first.hosts);
    is_one.then(|| first.hosts.clone())
}

/// Connects to the databases. One of several that cannot be reached is tried again later.
async fn open(args: &TopArgs) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    let mut unreachable = None;
    for config in args.connection.configs()? {
        let opened = match args.all_databases {
            true => poll::all_databases(&args.connection, &config).await,
            false => Source::open(&args.connection, &config)
                .await
                .map(|source| vec![source]),
        };
        match opened {
            Ok(opened) => sources.extend(opened),
            Err(failure) if failure.is_unreachable() => {
                sources.push(Source::unreached(&config));
                unreachable = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
    }
    match unreachable {
        Some(failure) if !sources.iter().any(Source::is_connected) => Err(failure),
        _ => Ok(sources),
    }
}

async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut app: App,
    mut updated: UnboundedReceiver<Update>,
) -> Result<(), Failure> {
    let (keys, mut pressed) = unbounded_channel();
    thread::spawn(move || read_keys(&keys));
    let mut terminated = signal(SignalKind::terminate()).map_err(Failure::failed)?;
    let theme = Theme::of_terminal();
    while !app.is_over() {
        terminal.draw(|frame| screen::draw(frame, &app, &theme, jiff::Timestamp::now()))?;
        tokio::select! {
            event = pressed.recv() => match event {
                Some(Event::Key(key)) if key.kind != KeyEventKind::Release => keys::press(&mut app, key),
                Some(_) => {}
                None => return Ok(()),
            },
            update = updated.recv() => {
                let Some(update) = update else { return Ok(()) };
                app.update(update, Instant::now());
            }
            _ = terminated.recv() => return Ok(()),
        }
    }
    Ok(())
}

/// Reads keys, for which the terminal has to be waited for.
fn read_keys(keys: &UnboundedSender<Event>) {
    while let Ok(event) = event::read() {
        if keys.send(event).is_err() {
            return;
        }
    }
}
