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
pub(crate) use connector::{Certificates, Connector};

#[cfg(feature = "tls")]
mod connector {
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::{env, fmt, fs};

    use openssl::error::ErrorStack;
    use openssl::ssl::{
        SslConnector, SslConnectorBuilder, SslFiletype, SslMethod, SslVerifyMode, SslVersion,
    };
    use openssl::x509::X509;
    use openssl::x509::store::{X509Lookup, X509StoreBuilder};
    use openssl::x509::verify::X509VerifyFlags;
    use postgres_openssl::{MakeTlsConnector, TlsConnector, set_postgresql_alpn};
    use tokio_postgres::Socket;
    use tokio_postgres::config::Host;
    use tokio_postgres::tls::MakeTlsConnect;

    use super::{SslMode, Targets};
    use crate::Error;
    use crate::connection::options::{Options, bad};

    /// The files and other options of TLS.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct Certificates {
        /// `system` stands for those that the system trusts.
        roots: Option<String>,
        revoked: Option<String>,
        revoked_folder: Option<String>,
        own: Option<String>,
        own_key: Option<String>,
        /// Whether the client's certificate stays here.
        is_own_hidden: bool,
        is_name_hidden: bool,
        oldest: Option<SslVersion>,
        newest: Option<SslVersion>,
    }

    impl Certificates {
        pub(crate) fn of(options: &Options) -> Result<Certificates, Error> {
            let text = |name| options.get(name).map(str::to_owned);
            let versions = [
                ("TLSv1", Some(SslVersion::TLS1)),
                ("TLSv1.1", Some(SslVersion::TLS1_1)),
                ("TLSv1.2", Some(SslVersion::TLS1_2)),
                ("TLSv1.3", Some(SslVersion::TLS1_3)),
            ];
            let hidden = [("0", true), ("1", false)];
            let newest = options.choice("ssl_max_protocol_version", None, &versions)?;
            Ok(Certificates {
                roots: text("sslrootcert"),
                revoked: text("sslcrl"),
                revoked_folder: text("sslcrldir"),
                own: text("sslcert"),
                own_key: text("sslkey"),
                is_own_hidden: options.get("sslcertmode") == Some("disable"),
                is_name_hidden: options.choice("sslsni", false, &hidden)?,
                oldest: options.choice(
                    "ssl_min_protocol_version",
                    Some(SslVersion::TLS1_2),
                    &versions,
                )?,
                newest,
            })
        }
    }

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
        pub(crate) fn for_host(
            &self,
            host: &tokio_postgres::Config,
        ) -> Result<TlsConnector, Error> {
            let name = match host.get_hosts() {
                [Host::Tcp(name), ..] => name.as_str(),
                _ => "",
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

    /// Trusts the certificates of a file alone, without those that are revoked.
    fn trust(
        builder: &mut SslConnectorBuilder,
        file: &Path,
        certificates: &Certificates,
    ) -> Result<(), Error> {
        let unreadable = |what: &str, path: &Path, error: &dyn fmt::Display| {
            bad(format!(
                "could not read {what} file \"{}\": {error}",
                path.display()
            ))
        };
        let bad_roots = |error: &dyn fmt::Display| unreadable("root certificate", file, error);
        let pem = fs::read(file).map_err(|error| bad_roots(&error))?;
        let roots = X509::stack_from_pem(&pem).map_err(|error| bad_roots(&error))?;
        if roots.is_empty() {
            return Err(bad_roots(&"there is no certificate in PEM format"));
        }
        let mut store = X509StoreBuilder::new().map_err(|error| bad_roots(&error))?;
        for root in roots {
            store.add_cert(root).map_err(|error| bad_roots(&error))?;
        }
        let revoked = match (&certificates.revoked, &certificates.revoked_folder) {
            (None, None) => of_user("root.crl"),
            (file, _) => file.as_ref().map(PathBuf::from),
        };
        let flags = X509VerifyFlags::CRL_CHECK | X509VerifyFlags::CRL_CHECK_ALL;
        if let Some(file) = revoked.filter(|file| file.exists()) {
            let bad_list = |error| unreadable("certificate revocation list", &file, &error);
            let lookup = store.add_lookup(X509Lookup::file());
            let loaded = lookup.and_then(|list| list.load_crl_file(&file, SslFiletype::PEM));
            loaded.map_err(bad_list)?;
            store.set_flags(flags).map_err(bad_list)?;
        }
        if let Some(folder) = &certificates.revoked_folder {
            let bad_list =
                |error| unreadable("certificate revocation list", Path::new(folder), &error);
            let lookup = store.add_lookup(X509Lookup::hash_dir());
            let added = lookup.and_then(|list| list.add_dir(folder, SslFiletype::PEM));
            added.map_err(bad_list)?;
            store.set_flags(flags).map_err(bad_list)?;
        }
        builder.set_cert_store(store.build());
        Ok(())
    }

    /// Uses the client's certificate, if there is one.
    fn identify(
        builder: &mut SslConnectorBuilder,
        certificates: &Certificates,
    ) -> Result<(), Error> {
        let named = |given: &Option<String>, default| match given {
            Some(file) => Some(PathBuf::from(file)),
            None => of_user(default),
        };
        let certificate = named(&certificates.own, "postgresql.crt").filter(|file| file.exists());
        let (Some(certificate), Some(key)) =
            (certificate, named(&certificates.own_key, "postgresql.key"))
        else {
            return Ok(());
        };
        let (own, secret) = (certificate.display(), key.display());
        let metadata = fs::metadata(&key).map_err(|error| {
            bad(format!(
                "could not use the private key file \"{secret}\" of the certificate \"{own}\": {error}"
            ))
        })?;
        let others = match metadata.uid() {
            0 => 0o027,
            _ => 0o077,
        };
        if metadata.mode() & others != 0 {
            return Err(bad(format!(
                "other users have access to the private key file \"{secret}\"; run: chmod 600 '{secret}'"
            )));
        }
        let used = builder
            .set_certificate_chain_file(&certificate)
            .and_then(|()| builder.set_private_key_file(&key, SslFiletype::PEM))
            .and_then(|()| builder.check_private_key());
        used.map_err(|error| {
            bad(format!(
                "could not use the certificate \"{own}\" with the private key \"{secret}\": {error}"
            ))
        })
    }

    /// A file of the user, where libpq looks for it.
    fn of_user(name: &str) -> Option<PathBuf> {
        Some(env::home_dir()?.join(".postgresql").join(name))
    }
}
