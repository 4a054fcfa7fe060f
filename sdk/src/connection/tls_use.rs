//! Which connections have TLS.

use tokio_postgres::config::{SslMode as DriverMode, SslNegotiation};

use super::bad;
use super::ssl_mode::SslMode;
use super::targets::{Target, Targets};
use crate::Error;

/// Which connections have TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsUse {
    Never,
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    Always,
    /// Those for which `sslmode` says so.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    ByMode,
}

impl Targets {
    /// An error if the options and the presence of a TLS configuration contradict each
    /// other.
    pub(crate) fn check_tls(&self, use_of_tls: TlsUse) -> Result<(), Error> {
        let (mode, name) = (self.ssl_mode, self.ssl_mode.name());
        let is_strict = mode >= SslMode::Require;
        let is_direct = self.driver.get_ssl_negotiation() == SslNegotiation::Direct;
        Err(match use_of_tls {
            TlsUse::Always if mode == SslMode::Disable => {
                bad("sslmode \"disable\" contradicts the TLS configuration")
            }
            TlsUse::Always if !self.hosts.iter().all(Target::is_on_network) => bad(
                "there is no TLS over a Unix-domain socket; name hosts, or remove the TLS configuration",
            ),
            // As in libpq, the mode is of no importance for Unix-domain sockets.
            TlsUse::Never if is_strict && self.has_network_host() => bad(format!(
                "sslmode \"{name}\" requires Config::tls (feature \"tls\")"
            )),
            TlsUse::Never if is_direct => {
                bad("sslnegotiation \"direct\" requires Config::tls (feature \"tls\")")
            }
            TlsUse::ByMode if is_direct && !is_strict => bad(format!(
                "weak sslmode \"{name}\" may not be used with sslnegotiation=direct (use \
                 \"require\", \"verify-ca\" or \"verify-full\")"
            )),
            _ => return Ok(()),
        })
    }

    /// The driver's modes with which to try a host, one after the other, as libpq does.
    pub(crate) fn ssl_modes(&self, host: &Target, use_of_tls: TlsUse) -> &'static [DriverMode] {
        match (use_of_tls, self.ssl_mode) {
            (TlsUse::Never, _) | (TlsUse::ByMode, SslMode::Disable) => &[DriverMode::Disable],
            (TlsUse::Always, _) => &[DriverMode::Require],
            // A Unix-domain socket has no TLS.
            (TlsUse::ByMode, _) if !host.is_on_network() => &[DriverMode::Disable],
            (TlsUse::ByMode, SslMode::Allow) => &[DriverMode::Disable, DriverMode::Require],
            (TlsUse::ByMode, SslMode::Prefer) => &[DriverMode::Prefer, DriverMode::Disable],
            (TlsUse::ByMode, _) => &[DriverMode::Require],
        }
    }
}
