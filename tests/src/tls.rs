//! Certificates for a server of this machine, and clients that trust it.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;

/// A server's certificate and key, and the authority that issued it.
#[derive(Clone)]
pub struct Tls {
    pub(crate) certificate: String,
    pub(crate) key: String,
    authority: String,
    roots: RootCertStore,
}

impl Tls {
    /// For a server on 127.0.0.1, issued by an authority of its own.
    pub fn new() -> Tls {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = || KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        let server = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        let server_key = key();
        let certificate = server
            .signed_by(&server_key, &authority)
            .expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).expect("a root");
        Tls {
            certificate: certificate.pem(),
            key: server_key.serialize_pem(),
            authority: authority.pem(),
            roots,
        }
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
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The configuration of a client that trusts this authority alone.
    pub fn client(&self) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider's versions")
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth()
    }
}

impl Default for Tls {
    fn default() -> Self {
        Tls::new()
    }
}
