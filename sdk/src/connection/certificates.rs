//! The files of TLS, those of libpq, and its other options.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fmt, fs};

use openssl::ssl::{SslConnectorBuilder, SslFiletype, SslVersion};
use openssl::x509::X509;
use openssl::x509::store::{X509Lookup, X509StoreBuilder};
use openssl::x509::verify::X509VerifyFlags;

use super::options::{Options, bad};
use crate::Error;

/// The files and other options of TLS.
#[derive(Clone, Debug, Default)]
pub(super) struct Certificates {
    /// `system` stands for those that the system trusts.
    pub(super) roots: Option<String>,
    revoked: Option<String>,
    revoked_folder: Option<String>,
    own: Option<String>,
    own_key: Option<String>,
    /// Whether the client's certificate stays here.
    pub(super) is_own_hidden: bool,
    pub(super) is_name_hidden: bool,
    pub(super) oldest: Option<SslVersion>,
    pub(super) newest: Option<SslVersion>,
}

impl Certificates {
    pub(super) fn of(options: &Options) -> Result<Certificates, Error> {
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

/// Trusts the certificates of a file alone, without those that are revoked.
pub(super) fn trust(
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
        let bad_list = |error| unreadable("certificate revocation list", Path::new(folder), &error);
        let lookup = store.add_lookup(X509Lookup::hash_dir());
        let added = lookup.and_then(|list| list.add_dir(folder, SslFiletype::PEM));
        added.map_err(bad_list)?;
        store.set_flags(flags).map_err(bad_list)?;
    }
    builder.set_cert_store(store.build());
    Ok(())
}

/// Uses the client's certificate, if there is one.
pub(super) fn identify(
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
pub(super) fn of_user(name: &str) -> Option<PathBuf> {
    Some(env::home_dir()?.join(".postgresql").join(name))
}
