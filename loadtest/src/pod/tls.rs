//! How a pod speaks TLS.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::certificate::Issued;

/// Whether, and how, a pod speaks TLS.
#[derive(Clone, Debug)]
pub enum PodTls {
    /// Plain HTTP.
    Plain,
    /// The server shows a certificate, the client none.
    Tls {
        /// What the pod shows.
        issued: Issued,
    },
    /// Both show one; a client without a good one does not get through the handshake.
    Mutual {
        /// What the pod shows.
        issued: Issued,
        /// Whom the pod believes.
        client_ca_pem: String,
    },
}

impl PodTls {
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        let (issued, client_ca) = match self {
            Self::Plain => return None,
            Self::Tls { issued } => (issued, None),
            Self::Mutual { issued, client_ca_pem } => (issued, Some(client_ca_pem)),
        };
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3");
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a client CA that can verify"))
            }
        };
        let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).expect("a key in PEM");
        let mut config =
            builder.with_single_cert(certificates(&issued.cert_pem), key).expect("a certificate with its key");
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(TlsAcceptor::from(Arc::new(config)))
    }
}

/// The common name in a certificate's subject.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

/// All certificates of a PEM file.
pub(crate) fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(|certificate| certificate.expect("a certificate in PEM"))
        .collect()
}

/// Those certificates as the ones to trust.
pub(crate) fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem) {
        roots.add(certificate).expect("a certificate that can be trusted");
    }
    roots
}
