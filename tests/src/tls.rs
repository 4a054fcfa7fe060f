//! Certificates for a server of this machine, and clients that trust it.

use openssl::asn1::Asn1Time;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::store::X509StoreBuilder;
use openssl::x509::{X509, X509Name};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    SanType,
};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// A server's certificate and key, and the authority that issued it.
#[derive(Clone)]
pub struct Tls {
    pub(crate) certificate: String,
    pub(crate) key: String,
    authority: Arc<CertifiedIssuer<'static, KeyPair>>,
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Tls {
    /// For a server on 127.0.0.1, which is also `localhost`, issued by an authority of its own.
    pub fn new() -> Tls {
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        let mut server = named("localhost");
        server.subject_alt_names = vec![
            SanType::DnsName("localhost".try_into().expect("a name")),
            SanType::IpAddress([127, 0, 0, 1].into()),
        ];
        let server_key = key();
        let certificate = server.signed_by(&server_key, &authority);
        Tls {
            certificate: certificate.expect("a certificate").pem(),
            key: server_key.serialize_pem(),
            authority: Arc::new(authority),
        }
    }

    /// For `localhost`, as PostgreSQL's manual has it signed by an authority: without extensions.
    pub fn signed_as_in_the_manual() -> Tls {
        let tls = Tls::new();
        let key = PKey::private_key_from_pem(tls.key.as_bytes()).expect("a key");
        let authority = X509::from_pem(tls.authority().as_bytes()).expect("a certificate");
        let signing = tls.authority.key().serialize_pem();
        let signing = PKey::private_key_from_pem(signing.as_bytes()).expect("a key");
        let make = || {
            let mut name = X509Name::builder()?;
            name.append_entry_by_text("CN", "localhost")?;
            let mut made = X509::builder()?;
            // The first version counts from 0.
            made.set_version(0)?;
            made.set_subject_name(&name.build())?;
            made.set_issuer_name(authority.subject_name())?;
            made.set_not_before(Asn1Time::days_from_now(0)?.as_ref())?;
            made.set_not_after(Asn1Time::days_from_now(365)?.as_ref())?;
            made.set_pubkey(&key)?;
            made.sign(&signing, MessageDigest::sha256())?;
            made.build().to_pem()
        };
        let certificate = make().expect("a certificate");
        let certificate = String::from_utf8(certificate).expect("PEM");
        Tls { certificate, ..tls }
    }

    /// For `localhost`, as PostgreSQL's manual has it signed by itself: its own authority.
    pub fn self_signed() -> Tls {
        let mut params = named("localhost");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        Tls {
            certificate: authority.pem(),
            key: authority.key().serialize_pem(),
            authority: Arc::new(authority),
        }
    }

    /// A certificate and key of the authority for a client, a role of the server.
    pub fn of_client(&self, role: &str) -> (String, String) {
        let key = key();
        let certificate = named(role).signed_by(&key, &*self.authority);
        (
            certificate.expect("a certificate").pem(),
            key.serialize_pem(),
        )
    }

    /// The server's certificate, as the content of a file.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The server's key, as the content of a file.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The authority's certificate, as the content of a file.
    pub fn authority(&self) -> String {
        self.authority.pem()
    }

    /// The configuration of a client library that trusts this authority alone.
    pub fn connector(&self) -> SslConnector {
        let mut roots = X509StoreBuilder::new().expect("a store");
        let authority = X509::from_pem(self.authority().as_bytes()).expect("a certificate");
        roots.add_cert(authority).expect("a root");
        let mut builder = SslConnector::builder(SslMethod::tls_client()).expect("OpenSSL");
        builder.set_cert_store(roots.build());
        builder.build()
    }

    /// The same for a client of HTTP.
    pub fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider's versions")
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

impl Default for Tls {
    fn default() -> Self {
        Tls::new()
    }
}
