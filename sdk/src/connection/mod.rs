//! How to connect. The driver's configuration has most options, and its own parser checks their
//! values; here is what it lacks.
//!
//! - [`string`]: connection strings, taken apart, because the driver refuses what it does not know.
//! - [`files`]: the service file and the password file.
//! - [`options`]: the values of the keywords, wherever they come from.
//! - [`targets`]: the hosts to try.
//! - [`ssl_mode`]: the values of `sslmode`.
//! - [`tls_use`]: which connections have TLS.
//! - `tls`: what is verified (feature `tls`).

mod files;
mod options;
mod ssl_mode;
mod string;
mod targets;
#[cfg(feature = "tls")]
mod tls;
mod tls_use;

pub(crate) use targets::{Needs, Target, Targets};
#[cfg(feature = "tls")]
pub(crate) use tls::Connector;
pub(crate) use tls_use::TlsUse;

fn bad(message: impl Into<String>) -> crate::Error {
    crate::Error::Config(message.into())
}
