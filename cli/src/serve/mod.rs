//! `leafctl serve`: ids over HTTP, from buffers in memory. A request whose ids are at hand uses no
//! timer, and of locks only that of the list of tags, for reading.
//!
//! - [`args`]: the options.
//! - [`routes`]: the addresses, on [`answer`], [`query`] and [`problem`].
//! - [`app`]: what all requests share: [`tags`], [`tokens`], [`measures`].
//! - [`hosts`]: under which names the server may be called.
//! - [`connections`]: accepting and limiting them, on [`listeners`], [`timed`] and [`tls`].
//! - [`signals`], [`systemd`], [`logs`]: the process.

mod answer;
mod app;
mod args;
mod connections;
mod hosts;
mod listeners;
mod logs;
mod measures;
mod problem;
mod query;
mod routes;
mod signals;
mod systemd;
mod tags;
mod timed;
mod tls;
mod tokens;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use leaf_sdk::{Config, IdSource, Leaf, SnowflakeConfig};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use args::Args;

use args::MIN_STEP;

use app::App;
use connections::{Connections, Limits};
use hosts::Hosts;
use measures::Issued;
use tags::Tags;
use tls::Tls;
use tokens::Tokens;

use crate::failure::{Code, Failure};

/// File descriptors for other things than connections of clients.
const OTHER_FILES: u64 = 64;

/// How often ids of the named tags are tried to be fetched until that succeeds.
const PREPARE_AGAIN: Duration = Duration::from_millis(500);
/// How often to look whether the connection to the database is open.
const WATCHED_EVERY: Duration = Duration::from_secs(2);

/// Serves until a signal ends it.
pub async fn run(args: Args) -> Result<(), Failure> {
    logs::start(args.log_format, args.log_level);
    let tokens = tokens_of(&args)?;
    let tls = tls_of(&args)?;
    make_room_for_connections(&args);
    let listeners = listeners::open(args.listen).map_err(Failure::failed)?;
    let addresses = listeners.iter().map(TcpListener::local_addr);
    let addresses: Vec<_> = addresses
        .collect::<Result<_, _>>()
        .map_err(Failure::failed)?;
    check_access(&args, &addresses)?;
    let app = app_of(&args, tokens, &addresses)?;
    let hosts = Hosts::of(&args);
    let router = routes::router(app.clone(), hosts);
    let connections = Connections::new(router, tls.clone(), limits_of(&args));

    let (stop, stop_now) = (CancellationToken::new(), CancellationToken::new());
    let (file, of_app, of_tls) = (args.tokens.clone(), app.clone(), tls.clone());
    let reload = move || reload(file.as_deref(), &of_app, of_tls.as_deref());
    signals::obey(&stop, &stop_now, reload).map_err(Failure::failed)?;
    let preparing = tokio::spawn(prepare(app.clone()));
    let watching = tokio::spawn(watch(app.clone()));
    let watchdog = tokio::spawn(systemd::keep_watchdog());
    for address in addresses {
        tracing::info!(%address, tls = tls.is_some(), tokens = args.tokens.is_some(), "listening");
    }

    let left = connections
        .serve(listeners, &stop, &stop_now, args.grace)
        .await;
    preparing.abort();
    watching.abort();
    watchdog.abort();
    let closing = tokio::time::timeout(left, app.leaf.close_async());
    match stop_now.run_until_cancelled(closing).await {
        Some(Ok(Ok(()))) => tracing::info!("stopped"),
        Some(Ok(Err(error))) => tracing::warn!(%error, "stopped; ids that were not used are lost"),
        Some(Err(_)) => tracing::warn!(
            "stopped; ids that were not used are lost, because the database did not take them \
             back within --grace"
        ),
        None => return Err(Failure::silent(Code::Interrupted)),
    }
    Ok(())
}

fn tokens_of(args: &Args) -> Result<Option<Arc<Tokens>>, Failure> {
    let Some(file) = &args.tokens else {
        return Ok(None);
    };
    let tokens = Tokens::read(file).map_err(Failure::usage)?;
    Ok(Some(Arc::new(tokens)))
}

/// Refuses to serve everybody, unless that was asked for.
fn check_access(args: &Args, addresses: &[SocketAddr]) -> Result<(), Failure> {
    let is_open = |address: &&SocketAddr| !address.ip().is_loopback();
    match addresses.iter().find(is_open) {
        Some(open) if args.tokens.is_none() && !args.no_auth => Err(Failure::usage(format!(
            "{open} can be reached from other machines, and anybody could draw ids"
        ))
        .hint("name a file of tokens with --tokens, or allow it with --no-auth")),
        _ => Ok(()),
    }
}

fn tls_of(args: &Args) -> Result<Option<Arc<Tls>>, Failure> {
    match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Tls::read(certificate, key)
            .map(|tls| Some(Arc::new(tls)))
            .map_err(Failure::usage),
        _ => Ok(None),
    }
}

fn limits_of(args: &Args) -> Limits {
    Limits {
        connections: args.max_connections,
        header_timeout: args.io_timeout,
        io_timeout: args.io_timeout,
        idle_timeout: args.idle_timeout,
        answer_timeout: args.wait * 2 + args.io_timeout,
    }
}

/// Raises the limit on open files as far as the system allows.
fn make_room_for_connections(args: &Args) {
    let needed = u64::from(args.max_connections) + OTHER_FILES;
    match rlimit::increase_nofile_limit(needed) {
        Ok(limit) if limit < needed => {
            tracing::warn!(
                limit,
                needed,
                "the limit on open files allows fewer connections; raise LimitNOFILE"
            );
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "could not raise the limit on open files"),
    }
}

fn app_of(
    args: &Args,
    tokens: Option<Arc<Tokens>>,
    addresses: &[SocketAddr],
) -> Result<Arc<App>, Failure> {
    let recorded = measures::install().map_err(Failure::failed)?;
    let config: Config = args.connection.config()?;
    let config = config
        .steps(u64::from(MIN_STEP), u64::from(args.max_step))
        // Requests have --wait, and the end of the process has --grace.
        .timeout(args.wait.max(args.grace));
    let leaf = Leaf::new(config)?;
    let snowflake = leaf.snowflake(snowflake_of(args, addresses.first()))?;
    let tags = Tags::new(&leaf, &args.tags, args.wait);
    Ok(Arc::new(App {
        leaf,
        tags,
        snowflake,
        snowflakes_issued: Issued::of_snowflakes(),
        needs_worker_id: args.snowflake,
        tokens: ArcSwapOption::new(tokens),
        is_local: addresses.iter().all(|address| address.ip().is_loopback()),
        recorded,
        max_count: args.max_count,
        tinyid_segment: args.tinyid_segment,
        wait: args.wait,
        began: Instant::now(),
    }))
}

fn snowflake_of(args: &Args, address: Option<&SocketAddr>) -> SnowflakeConfig {
    let port = address.unwrap_or(&args.listen).port();
    let host = || format!("{}:{port}", gethostname::gethostname().to_string_lossy());
    let config = SnowflakeConfig::new(&args.node.clone().unwrap_or_else(host));
    match &args.cache {
        Some(file) => config.cache(file),
        None => config,
    }
}

/// Reads the files again. What was there before is kept if they are wrong.
fn reload(tokens: Option<&Path>, app: &App, tls: Option<&Tls>) {
    let mut has_failed = false;
    if let Some(file) = tokens {
        match Tokens::read(file) {
            Ok(tokens) => app.tokens.store(Some(Arc::new(tokens))),
            Err(error) => {
                tracing::warn!(error, "the earlier tokens are kept");
                has_failed = true;
            }
        }
    }
    if let Some(Err(error)) = tls.map(Tls::reload) {
        tracing::warn!(error, "the earlier certificate is kept");
        has_failed = true;
    }
    if !has_failed {
        tracing::info!("reloaded");
    }
}

/// Fetches ids of the named tags, each by itself, or connects if there is none, and then says that
/// the server is ready.
async fn prepare(app: Arc<App>) {
    let mut fetching: JoinSet<()> = app
        .tags
        .named()
        .map(|name| fetch(app.clone(), Requirement::Tag(name.to_owned())))
        .collect();
    if app.needs_worker_id {
        fetching.spawn(fetch(app.clone(), Requirement::WorkerId));
    }
    if fetching.is_empty() {
        fetching.spawn(fetch(app, Requirement::Connection));
    }
    while fetching.join_next().await.is_some() {}
    tracing::info!("ready");
    systemd::ready();
}

/// Connects whenever the connection to the database is closed: while buffers last, nobody else would
/// notice.
async fn watch(app: Arc<App>) {
    let mut is_away = false;
    loop {
        tokio::time::sleep(WATCHED_EVERY).await;
        // What comes of it is also kept for the state and the metrics.
        match app.leaf.connect_async().await {
            Err(error) if !is_away => {
                tracing::warn!(%error, "the database is away");
                is_away = true;
            }
            Ok(()) if is_away => {
                tracing::info!("the database is back");
                is_away = false;
            }
            _ => {}
        }
    }
}

/// What the server has to have before it is ready.
enum Requirement {
    Tag(String),
    WorkerId,
    Connection,
}

/// Fetches ids of a tag, leases, or connects, and repeats it until that succeeds.
async fn fetch(app: Arc<App>, required: Requirement) {
    let mut has_failed = false;
    loop {
        let fetched = match &required {
            Requirement::Tag(name) => app.tags.fetch(name).await,
            Requirement::WorkerId => app.snowflake.ready_async().await,
            Requirement::Connection => app.leaf.connect_async().await,
        };
        let Err(error) = fetched else {
            return;
        };
        if !has_failed {
            let tag = match &required {
                Requirement::Tag(name) => Some(name),
                _ => None,
            };
            tracing::warn!(tag, %error, "not ready yet");
        }
        has_failed = true;
        tokio::time::sleep(PREPARE_AGAIN).await;
    }
}
