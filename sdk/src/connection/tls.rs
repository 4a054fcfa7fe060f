//! Whether a connection has TLS, and what is verified.

use super::ssl_mode::{SslMode, TlsUse};
use super::targets::Targets;
use crate::Error;

impl Targets {
    /// An error if the options and the presence of a TLS configuration contradict each
    /// other.
    pub(crate) fn check_tls(&self, use_of_tls: TlsUse) -> Result<(), Error> {
        let name = self.ssl_mode.name();
        let problem = match use_of_tls {
            TlsUse::Always if self.ssl_mode == SslMode::Disable => {
                "sslmode \"disable\" contradicts the TLS configuration".into()
            }
            TlsUse::Always if self.has_socket() => {
                "there is no TLS over a Unix-domain socket; name hosts, or remove the TLS \
                 configuration"
                    .into()
            }
            // As in libpq, the mode is of no importance for Unix-domain sockets.
            TlsUse::Never if self.ssl_mode.is_strict() && self.has_network_host() => {
                format!("sslmode \"{name}\" requires Config::tls (feature \"tls\")")
            }
            TlsUse::Never if self.is_tls_direct() => {
                "sslnegotiation \"direct\" requires Config::tls (feature \"tls\")".into()
            }
            TlsUse::ByMode if self.is_tls_direct() && !self.ssl_mode.is_strict() => format!(
                "weak sslmode \"{name}\" may not be used with sslnegotiation=direct (use \
                 \"require\", \"verify-ca\" or \"verify-full\")"
            ),
            _ => return Ok(()),
        };
        Err(Error::Config(problem))
    }
}

#[cfg(feature = "tls")]
pub(crate) use connector::Connector;

#[cfg(feature = "tls")]
mod connector {
    use std::fmt;
    use std::path::PathBuf;

    use openssl::error::ErrorStack;
    use openssl::ssl::{SslConnector, SslMethod, SslVerifyMode};
    use postgres_openssl::{MakeTlsConnector, TlsConnector, set_postgresql_alpn};
    use tokio_postgres::Socket;
    use tokio_postgres::config::Host;
    use tokio_postgres::tls::MakeTlsConnect;

    use super::{SslMode, Targets};
    use crate::Error;
    use crate::connection::Target;
    use crate::connection::certificates::{identify, of_user, trust};
    use crate::connection::options::bad;

    /// Makes TLS of connections.
    #[derive(Clone)]
    pub(crate) struct Connector(MakeTlsConnector);

    impl fmt::Debug for Connector {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("Connector").finish_non_exhaustive()
        }
    }

    impl Connector {
        /// TLS that the caller has configured.
        pub(crate) fn new(connector: SslConnector) -> Connector {
            Connector(MakeTlsConnector::new(connector))
        }

        /// TLS that verifies the server's certificate with what `sslrootcert` names as roots, by
        /// default those of the system. The name in the certificate is verified, too, except with
        /// `sslmode=verify-ca`.
        pub(crate) fn verified(targets: &Targets) -> Result<Connector, Error> {
            let roots = match targets.certificates.roots.as_deref() {
                None | Some("system") => Roots::System,
                Some(file) => Roots::File(file.into()),
            };
            Connector::with(targets, roots, targets.ssl_mode != SslMode::VerifyCa)
        }

        /// TLS that verifies what libpq verifies: what the server's certificate is signed with,
        /// if there is a file of roots, and with `sslmode=verify-full` its name.
        pub(crate) fn by_mode(targets: &Targets) -> Result<Connector, Error> {
            let is_verified = matches!(targets.ssl_mode, SslMode::VerifyCa | SslMode::VerifyFull);
            let file = match targets.certificates.roots.as_deref() {
                Some("system") => None,
                Some(file) => Some(PathBuf::from(file)),
                None => of_user("root.crt"),
            };
            let roots = match file {
                None => Roots::System,
                Some(file) if file.exists() => Roots::File(file),
                Some(file) if is_verified && targets.has_network_host() => {
                    return Err(bad(format!(
                        "root certificate file \"{}\" does not exist; provide the file, use the \
                         roots that the system trusts with sslrootcert=system, or change sslmode \
                         to disable the verification of the server's certificate",
                        file.display()
                    )));
                }
                Some(_) => Roots::None,
            };
            Connector::with(targets, roots, targets.ssl_mode == SslMode::VerifyFull)
        }

        fn with(targets: &Targets, roots: Roots, verifies_name: bool) -> Result<Connector, Error> {
            let certificates = &targets.certificates;
            let failed = |error: ErrorStack| bad(format!("could not prepare TLS: {error}"));
            let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(failed)?;
            let (oldest, newest) = (certificates.oldest, certificates.newest);
            builder.set_min_proto_version(oldest).map_err(failed)?;
            builder.set_max_proto_version(newest).map_err(failed)?;
            set_postgresql_alpn(&mut builder).map_err(failed)?;
            match &roots {
                Roots::System => {}
                Roots::None => builder.set_verify(SslVerifyMode::NONE),
                Roots::File(file) => trust(&mut builder, file, certificates)?,
            }
            if !certificates.is_own_hidden {
                identify(&mut builder, certificates)?;
            }
            let mut connector = MakeTlsConnector::new(builder.build());
            let names_host = !certificates.is_name_hidden;
            connector.set_callback(move |connection, _| {
                connection.set_verify_hostname(verifies_name);
                connection.set_use_server_name_indication(names_host);
                Ok(())
            });
            Ok(Connector(connector))
        }

        /// For a connection to a host.
        pub(crate) fn for_host(&self, host: &Target) -> Result<TlsConnector, Error> {
            let name = match &host.host {
                Host::Tcp(name) => name.as_str(),
                Host::Unix(_) => "",
            };
            let mut connector = self.0.clone();
            let made = MakeTlsConnect::<Socket>::make_tls_connect(&mut connector, name);
            made.map_err(|error| bad(format!("could not prepare TLS: {error}")))
        }
    }

    /// What the server's certificate must be signed with.
    enum Roots {
        System,
        File(PathBuf),
        /// Anything will do.
        None,
    }
}
