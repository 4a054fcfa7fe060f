//! TLS: what is verified, and the certificate that the client shows. It is OpenSSL's, as libpq's
//! is, so that both trust the same servers.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use openssl::error::ErrorStack;
use openssl::ssl::{
    SslConnector, SslConnectorBuilder, SslFiletype, SslMethod, SslVerifyMode, SslVersion,
};
use openssl::x509::store::{X509Lookup, X509Store, X509StoreBuilder};
use postgres_openssl::{MakeTlsConnector, TlsConnector, set_postgresql_alpn};
use tokio_postgres::Socket;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;

use super::bad;
use super::files::{check, in_home};
use super::ssl_mode::SslMode;
use super::targets::{Target, Targets};
use crate::Error;

/// Makes TLS of connections.
#[derive(Clone)]
pub(crate) struct Connector(MakeTlsConnector);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connector").finish_non_exhaustive()
    }
}

/// The certificates that must have signed the server's.
enum Roots {
    System,
    File(PathBuf),
    /// Anything will do.
    None,
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
        let roots = Roots::named(targets).unwrap_or(Roots::System);
        Connector::with(targets, roots, targets.ssl_mode != SslMode::VerifyCa)
    }

    /// TLS that verifies what libpq verifies: what the server's certificate is signed with,
    /// if there is a file of roots, and with `sslmode=verify-full` its name.
    pub(crate) fn by_mode(targets: &Targets) -> Result<Connector, Error> {
        let of_user = || in_home(".postgresql/root.crt").map(Roots::File);
        let mut roots = Roots::named(targets)
            .or_else(of_user)
            .unwrap_or(Roots::System);
        if let Roots::File(file) = &roots
            && !file.exists()
        {
            if targets.ssl_mode >= SslMode::VerifyCa && targets.has_network_host() {
                return Err(bad(format!(
                    "root certificate file \"{}\" does not exist; provide the file, use the \
                     roots that the system trusts with sslrootcert=system, or change sslmode \
                     to disable the verification of the server's certificate",
                    file.display()
                )));
            }
            roots = Roots::None;
        }
        Connector::with(targets, roots, targets.ssl_mode == SslMode::VerifyFull)
    }

    fn with(targets: &Targets, roots: Roots, verifies_name: bool) -> Result<Connector, Error> {
        let failed = |error: ErrorStack| bad(format!("could not prepare TLS: {error}"));
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(failed)?;
        let oldest = Some(SslVersion::TLS1_2);
        builder.set_min_proto_version(oldest).map_err(failed)?;
        set_postgresql_alpn(&mut builder).map_err(failed)?;
        match roots {
            Roots::System => {}
            Roots::None => builder.set_verify(SslVerifyMode::NONE),
            Roots::File(file) => {
                check(&file)?;
                let (shown, read) = (file.display(), certificates(&file));
                builder.set_cert_store(read.map_err(|error| {
                    bad(format!(
                        "could not read root certificate file \"{shown}\": {error}"
                    ))
                })?);
            }
        }
        identify(&mut builder, targets)?;
        let mut connector = MakeTlsConnector::new(builder.build());
        connector.set_callback(move |connection, _| {
            connection.set_verify_hostname(verifies_name);
            Ok(())
        });
        Ok(Connector(connector))
    }

    /// For a connection to a host.
    pub(crate) fn for_host(&self, host: &Target) -> Result<TlsConnector, Error> {
        let name = match (&host.host, host.address) {
            (Host::Unix(_), Some(address)) => address.to_string(),
            _ => host.name(),
        };
        let mut connector = self.0.clone();
        let made = MakeTlsConnect::<Socket>::make_tls_connect(&mut connector, &name);
        made.map_err(|error| bad(format!("could not prepare TLS: {error}")))
    }
}

impl Roots {
    /// The roots that `sslrootcert` names.
    fn named(targets: &Targets) -> Option<Roots> {
        Some(match targets.files.get("sslrootcert")?.as_str() {
            "system" => Roots::System,
            file => Roots::File(file.into()),
        })
    }
}

/// The certificates of a file.
fn certificates(file: &Path) -> Result<X509Store, ErrorStack> {
    let mut store = X509StoreBuilder::new()?;
    let files = store.add_lookup(X509Lookup::file())?;
    files.load_cert_file(file, SslFiletype::PEM)?;
    Ok(store.build())
}

/// Uses the client's certificate, if there is one.
fn identify(builder: &mut SslConnectorBuilder, targets: &Targets) -> Result<(), Error> {
    let named = |key, default| {
        let given = targets.files.get(key).map(PathBuf::from);
        given.or_else(|| in_home(default))
    };
    let certificate = named("sslcert", ".postgresql/postgresql.crt");
    let key = named("sslkey", ".postgresql/postgresql.key");
    let (Some(certificate), Some(key)) = (certificate.filter(|file| file.exists()), key) else {
        return Ok(());
    };
    let (own, secret) = (certificate.display(), key.display());
    let unusable = |error: &dyn fmt::Display| {
        bad(format!(
            "could not use the certificate \"{own}\" with the private key \"{secret}\": {error}"
        ))
    };
    let metadata = fs::metadata(&key).map_err(|error| unusable(&error))?;
    let others = match metadata.uid() {
        0 => 0o027,
        _ => 0o077,
    };
    if metadata.mode() & others != 0 {
        return Err(bad(format!(
            "other users have access to the private key file \"{secret}\"; run: chmod 600 '{secret}'"
        )));
    }
    check(&certificate)?;
    check(&key)?;
    builder
        .set_certificate_chain_file(&certificate)
        .and_then(|()| builder.set_private_key_file(&key, SslFiletype::PEM))
        .and_then(|()| builder.check_private_key())
        .map_err(|error| unusable(&error))
}
