//! The values of `sslmode`, and which connections have TLS.

use tokio_postgres::config::SslMode as DriverMode;

use super::options::{Options, bad};
use crate::Error;

/// The values of `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SslMode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl SslMode {
    pub(super) const NAMES: [(&'static str, SslMode); 6] = [
        ("disable", SslMode::Disable),
        ("allow", SslMode::Allow),
        ("prefer", SslMode::Prefer),
        ("require", SslMode::Require),
        ("verify-ca", SslMode::VerifyCa),
        ("verify-full", SslMode::VerifyFull),
    ];

    /// What the options say, which `sslrootcert=system` restricts.
    pub(super) fn of(options: &Options) -> Result<SslMode, Error> {
        let mode = options.choice("sslmode", SslMode::Prefer, &SslMode::NAMES)?;
        match (options.get("sslrootcert"), options.get("sslmode")) {
            (Some("system"), None | Some("verify-full")) => Ok(SslMode::VerifyFull),
            (Some("system"), Some(mode)) => Err(bad(format!(
                "weak sslmode \"{mode}\" may not be used with sslrootcert=system (use \"verify-full\")"
            ))),
            _ => Ok(mode),
        }
    }

    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        let name = SslMode::NAMES.iter().find(|(_, mode)| *mode == self);
        name.map_or("", |(name, _)| name)
    }

    /// The driver's modes with which a host is tried, one after the other, as libpq does.
    pub(super) fn of_driver(self) -> &'static [DriverMode] {
        match self {
            SslMode::Disable => &[DriverMode::Disable],
            SslMode::Allow => &[DriverMode::Disable, DriverMode::Require],
            SslMode::Prefer => &[DriverMode::Prefer, DriverMode::Disable],
            _ => &[DriverMode::Require],
        }
    }

    /// Whether a connection without TLS is an error.
    pub(super) fn is_strict(self) -> bool {
        matches!(
            self,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull
        )
    }
}

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
