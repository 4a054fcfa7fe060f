//! How to connect: the options of libpq and the hosts that they name.
//!
//! - [`string`]: connection strings.
//! - [`files`]: the service file and the password file.
//! - [`keywords`]: every keyword, and what the library makes of it.
//! - [`options`]: the values of the keywords, wherever they come from.
//! - [`hosts`]: the hosts that they name.
//! - [`targets`]: the hosts to try, each with the configuration of the driver.
//! - [`ssl_mode`]: the values of `sslmode`, and which connections have TLS.
//! - `certificates`: the files of TLS (feature `tls`).
//! - [`tls`]: whether the options allow TLS, and what is verified.

#[cfg(feature = "tls")]
mod certificates;
mod files;
mod hosts;
mod keywords;
mod options;
mod ssl_mode;
mod string;
mod targets;
mod tls;

pub(crate) use ssl_mode::TlsUse;
pub(crate) use targets::{Needs, Targets};
#[cfg(feature = "tls")]
pub(crate) use tls::Connector;
