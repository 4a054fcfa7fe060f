//! How to connect: the options of libpq and the hosts that they name.
//!
//! - [`string`]: connection strings.
//! - [`files`]: the service file and the password file.
//! - [`options`]: the values of the keywords, wherever they come from, and the driver's
//!   configuration that most of them make.
//! - [`targets`]: the hosts to try.
//! - [`ssl_mode`]: the values of `sslmode`, and which connections have TLS.
//! - `certificates`: the files of TLS (feature `tls`).
//! - [`tls`]: whether the options allow TLS, and what is verified.

#[cfg(feature = "tls")]
mod certificates;
mod files;
mod options;
mod ssl_mode;
mod string;
mod targets;
mod tls;

pub(crate) use ssl_mode::TlsUse;
pub(crate) use targets::{Needs, Target, Targets};
#[cfg(feature = "tls")]
pub(crate) use tls::Connector;
