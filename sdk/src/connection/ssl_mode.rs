//! The values of `sslmode`, and which connections have TLS.

use tokio_postgres::config::SslMode as DriverMode;

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

    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        let name = SslMode::NAMES.iter().find(|(_, mode)| *mode == self);
        name.map_or("", |(name, _)| name)
    }

    /// The driver's mode. It does not know the others.
    pub(super) fn of_driver(self) -> DriverMode {
        match self {
            SslMode::Disable | SslMode::Allow => DriverMode::Disable,
            SslMode::Prefer => DriverMode::Prefer,
            _ => DriverMode::Require,
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
