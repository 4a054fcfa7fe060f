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
pub(crate) use verify::{client_config, client_config_by_mode};

#[cfg(feature = "tls")]
mod verify {
    use std::sync::Arc;

    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    };

    use super::{SslMode, Targets};
    use crate::Error;

    /// TLS with what `sslrootcert` names as roots, the system's by default. The name in
    /// the certificate is verified, too, except with `sslmode=verify-ca`.
    pub(crate) fn client_config(targets: &Targets) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = verifier(targets, &provider)?;
        let verifier = match targets.ssl_mode {
            SslMode::VerifyCa => any_name(&provider, Some(verifier)),
            _ => verifier,
        };
        with_verifier(provider, verifier)
    }

    /// TLS that verifies what libpq verifies with this `sslmode`: nothing with `prefer`, and
    /// with `require` only if `sslrootcert` names a file.
    pub(crate) fn client_config_by_mode(targets: &Targets) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = match (targets.ssl_mode, &targets.root_cert) {
            (SslMode::VerifyFull, _) => verifier(targets, &provider)?,
            (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => {
                any_name(&provider, Some(verifier(targets, &provider)?))
            }
            _ => any_name(&provider, None),
        };
        with_verifier(provider, verifier)
    }

    fn with_verifier(
        provider: Arc<CryptoProvider>,
        verifier: Arc<dyn ServerCertVerifier>,
    ) -> Result<ClientConfig, Error> {
        let builder = ClientConfig::builder_with_provider(provider);
        let config = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Config(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(config)
    }

    fn verifier(
        targets: &Targets,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let Some(file) = &targets.root_cert else {
            let system = rustls_platform_verifier::Verifier::new(provider.clone());
            let system = system.map_err(|error| Error::Config(error.to_string()))?;
            return Ok(Arc::new(system));
        };
        let bad = |error: &dyn std::fmt::Display| {
            Error::Config(format!(
                "could not use the root certificates in {file}: {error}"
            ))
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(file).map_err(|error| bad(&error))? {
            let certificate = certificate.map_err(|error| bad(&error))?;
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build();
        Ok(verifier.map_err(|error| bad(&error))?)
    }

    fn any_name(
        provider: &Arc<CryptoProvider>,
        issuer: Option<Arc<dyn ServerCertVerifier>>,
    ) -> Arc<dyn ServerCertVerifier> {
        let provider = provider.clone();
        Arc::new(AnyName { provider, issuer })
    }

    /// Verifies that the server has the key of its certificate and, if there is an issuer's
    /// verifier, who issued that, but not to whom.
    #[derive(Debug)]
    struct AnyName {
        provider: Arc<CryptoProvider>,
        issuer: Option<Arc<dyn ServerCertVerifier>>,
    }

    impl ServerCertVerifier for AnyName {
        fn verify_server_cert(
            &self,
            certificate: &CertificateDer<'_>,
            intermediates: &[CertificateDer<'_>],
            name: &ServerName<'_>,
            ocsp: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, rustls::Error> {
            let Some(issuer) = &self.issuer else {
                return Ok(ServerCertVerified::assertion());
            };
            // The name is checked last.
            match issuer.verify_server_cert(certificate, intermediates, name, ocsp, now) {
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName
                    | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                verified => verified,
            }
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls12_signature(message, certificate, signature, algorithms)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, certificate, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let algorithms = &self.provider.signature_verification_algorithms;
            algorithms.supported_schemes()
        }
    }
}
