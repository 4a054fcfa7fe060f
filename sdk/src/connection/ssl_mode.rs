//! The values of `sslmode`.

use super::bad;
use crate::Error;

/// The values of `sslmode`. From `Require` on, a connection without TLS is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// The mode of `sslmode`, which `sslrootcert=system` restricts.
    pub(super) fn of(name: Option<&str>, roots: Option<&str>) -> Result<SslMode, Error> {
        match (name, roots) {
            (None | Some("verify-full"), Some("system")) => Ok(SslMode::VerifyFull),
            (Some(name), Some("system")) => Err(bad(format!(
                "weak sslmode \"{name}\" may not be used with sslrootcert=system (use \"verify-full\")"
            ))),
            (None, _) => Ok(SslMode::Prefer),
            (Some(name), _) => {
                let mode = SslMode::NAMES.iter().find(|(other, _)| *other == name);
                let unknown = || bad(format!("invalid sslmode value: \"{name}\""));
                mode.map(|(_, mode)| *mode).ok_or_else(unknown)
            }
        }
    }

    /// As it is written.
    pub(super) fn name(self) -> &'static str {
        SslMode::NAMES[self as usize].0
    }
}
