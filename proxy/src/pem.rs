//! Certificates and keys from PEM files, and the TLS configurations made of them.

use std::hash::{BuildHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ahash::RandomState;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authenticate::ClientTrust;

/// Sessions remembered for each component's pods: some pods, some tickets each. One that is forgotten costs a full handshake.
const RESUMED_PODS: usize = 16;

/// A file's content, or why it cannot be read.
#[derive(Clone)]
pub(crate) struct File {
    path: PathBuf,
    content: Result<Vec<u8>, String>,
}

/// When a certificate in a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiry {
    pub(crate) file: PathBuf,
    /// Seconds of Unix time.
    pub(crate) at: i64,
}

impl File {
    pub(crate) fn read(path: &Path) -> Self {
        Self { path: path.into(), content: std::fs::read(path).map_err(|error| error.to_string()) }
    }

    /// What is in it, or why it cannot be read.
    pub(crate) fn bytes(&self) -> Result<&[u8], String> {
        self.content.as_deref().map_err(Clone::clone)
    }

    fn content(&self) -> Result<&[u8], String> {
        self.content.as_deref().map_err(|error| self.blame(error))
    }

    fn blame(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.path.display())
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.content()?).collect();
        let certificates = certificates.map_err(|error| self.blame(&error))?;
        if certificates.is_empty() { Err(self.blame(&"no certificate in it")) } else { Ok(certificates) }
    }

    fn key(&self) -> Result<PrivateKeyDer<'static>, String> {
        // The parser's errors never quote the file.
        PrivateKeyDer::from_pem_slice(self.content()?).map_err(|error| self.blame(&error))
    }

    /// The authorities in it. A bundle may have some that we cannot use; one that we can is enough.
    pub(crate) fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(self.certificates()?);
        if usable == 0 { Err(self.blame(&"no certificate authority in it")) } else { Ok(roots) }
    }

    /// When the first certificate in it ends, if it has one.
    pub(crate) fn expiry(&self) -> Option<Expiry> {
        let certificates = self.certificates().ok()?;
        let (_, certificate) = X509Certificate::from_der(certificates.first()?).ok()?;
        Some(Expiry { file: self.path.clone(), at: certificate.validity().not_after.timestamp() })
    }
}

/// The same for the same files with the same content (or the same error), and only for them.
pub(crate) fn fingerprint<'a>(files: impl IntoIterator<Item = &'a File>) -> u64 {
    // Fixed keys, so that a fingerprint is the same from poll to poll; nobody gains by a collision of files they own.
    let mut hasher = RandomState::with_seeds(1, 2, 3, 4).build_hasher();
    for file in files {
        let content = file.content.as_deref().unwrap_or_else(|error| error.as_bytes());
        hasher.write(file.path.as_os_str().as_encoded_bytes());
        hasher.write_usize(content.len());
        hasher.write_u8(file.content.is_ok().into());
        hasher.write(content);
    }
    hasher.finish()
}

/// TLS towards scrapers, with HTTP/2 and HTTP/1.1.
pub(crate) fn server_config(
    certificate: &File,
    key: &File,
    clients: Option<&ClientTrust>,
) -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let verifier = clients.map_or_else(WebPkiClientVerifier::no_client_auth, ClientTrust::verifier);
    let builder = versions.map_err(|error| error.to_string())?.with_client_cert_verifier(verifier);
    let mut config =
        builder.with_single_cert(certificate.certificates()?, key.key()?).map_err(|error| certificate.blame(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Sessions are kept by the clients, in tickets: nothing to hold for a tenant that is idle. A new configuration has
    // a new key, so a session does not outlive the client CA it was verified with.
    config.ticketer = ring::Ticketer::new().map_err(|error| error.to_string())?;
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    // Two would do for Prometheus; each costs a kilobyte on the wire.
    config.send_tls13_tickets = 1;
    Ok(config)
}

/// TLS towards pods.
pub(crate) fn client_config(ca: &File, identity: Option<(&File, &File)>) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| error.to_string())?.with_root_certificates(ca.roots()?);
    let mut config = match identity {
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificate.certificates()?, key.key()?)
            .map_err(|error| certificate.blame(&error))?,
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::in_memory_sessions(RESUMED_PODS);
    Ok(config)
}
