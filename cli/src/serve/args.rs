//! The options of `leafctl serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use crate::connection;
use crate::human;

/// How many ids are fetched at first.
pub const MIN_STEP: u32 = 1_000;

/// Serve ids over HTTP
///
/// Ids come from buffers in the memory of this process, which are refilled ahead of their use.
/// SIGTERM and SIGINT end it gracefully; SIGHUP makes it read the tokens and the certificate again.
#[derive(clap::Args, Debug)]
// The arguments of a connection are a group of the same name.
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub connection: connection::Args,

    /// Listen on this address. Port 0 chooses a free port, which the log names
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080",
        help_heading = "Serving"
    )]
    pub listen: SocketAddr,

    /// Serve only this tag, and fetch ids of it at the start. Can be repeated
    #[arg(long = "tag", value_name = "NAME", help_heading = "Serving")]
    pub tags: Vec<String>,

    /// Hand out at most this many ids per request
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Serving",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_count: u32,

    /// Fetch at most this many ids at once; a buffer is to last for 10 minutes, if this allows it
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100_000_000,
        help_heading = "Serving",
        value_parser = clap::value_parser!(u32).range(MIN_STEP as i64..=1_000_000_000)
    )]
    pub max_step: u32,

    /// Give TinyID's clients segments of this many ids
    #[arg(long, value_name = "N", default_value_t = 1_000, help_heading = "Serving",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub tinyid_segment: u32,

    /// The name under which the worker id of snowflake ids is leased; by default, the host name
    /// and the port
    #[arg(long, value_name = "NAME", help_heading = "Serving")]
    pub node: Option<String>,

    /// Lease a worker id at the start, not with the first request, and be ready only while there is one
    #[arg(long, help_heading = "Serving")]
    pub snowflake: bool,

    /// Keep the lease of the worker id in this file, so that a restart needs no database
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    pub cache: Option<PathBuf>,

    /// Ask for a token of this file, which also says what each token may do
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Access",
        conflicts_with = "no_auth"
    )]
    pub tokens: Option<PathBuf>,

    /// Serve everybody who reaches the address, even when it is not a loopback address
    #[arg(long, help_heading = "Access")]
    pub no_auth: bool,

    /// Without tokens, answer requests to this name, too, as other machines or a proxy call this one,
    /// and those of its pages. Can be repeated
    #[arg(long, value_name = "NAME", help_heading = "Access")]
    pub allow_host: Vec<String>,

    /// The certificate chain of the server, in PEM; with it, only TLS is spoken
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Access",
        requires = "tls_key"
    )]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Access",
        requires = "tls_cert"
    )]
    pub tls_key: Option<PathBuf>,

    /// Serve at most this many connections at once
    #[arg(long, value_name = "N", default_value_t = 10_000, help_heading = "Limits",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub max_connections: u32,

    /// How long a request waits for ids that are not at hand
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = human::time, help_heading = "Limits")]
    pub wait: Duration,

    /// How long a client may take to send the header of a request, and to take the answer
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = human::time, help_heading = "Limits")]
    pub io_timeout: Duration,

    /// How long a connection is kept open between two requests
    #[arg(long, value_name = "TIME", default_value = "75s", value_parser = human::time, help_heading = "Limits")]
    pub idle_timeout: Duration,

    /// How long the end may take after SIGTERM or SIGINT: requests may go on for three quarters of
    /// it, and the rest is left for returning ids
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = human::time, help_heading = "Limits")]
    pub grace: Duration,

    /// How a line of the log looks
    #[arg(long, value_enum, default_value_t = LogFormat::Text, help_heading = "Log")]
    pub log_format: LogFormat,

    /// What is logged: with debug, a line per request
    #[arg(long, value_enum, default_value_t = LogLevel::Info, help_heading = "Log")]
    pub log_level: LogLevel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}
