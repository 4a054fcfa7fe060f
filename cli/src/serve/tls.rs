//! TLS towards clients.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The certificate of the server, which can be replaced while it runs.
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    config: ArcSwap<ServerConfig>,
}

impl Tls {
    /// # Errors
    /// What is wrong with the files, in a line.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, String> {
        let config = ArcSwap::from(config(certificate, key)?);
        Ok(Tls {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            config,
        })
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// As [`read`](Tls::read); the earlier certificate is kept.
    pub fn reload(&self) -> Result<(), String> {
        self.config.store(config(&self.certificate, &self.key)?);
        Ok(())
    }

    pub async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.config.load_full())
            .accept(stream)
            .await
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, String> {
    let cannot_read = |what: &str, path: &Path, error: String| {
        format!(
            "could not read the {what} in \"{}\": {error}",
            path.display()
        )
    };
    let chain =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain =
        chain.map_err(|error| cannot_read("certificate", certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(cannot_read(
            "certificate",
            certificate,
            "there is none in PEM format".into(),
        ));
    }
    let secret = PrivateKeyDer::from_pem_file(key);
    let secret = secret.map_err(|error| cannot_read("key", key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder
        .map_err(|error| error.to_string())?
        .with_no_client_auth();
    let config = config.with_single_cert(chain, secret);
    let mut config =
        config.map_err(|error| format!("the certificate and the key cannot be used: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
