//! Client certificates: whom they name, and whether they are still trusted.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Who signs the tenant's client certificates.
pub(crate) struct ClientTrust {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Two with the same CA file have the same.
    print: u64,
}

/// The certificate a connection came with, and the names in it.
pub(crate) struct PeerCertificate {
    /// Leaf first, as the client sent it.
    chain: Vec<CertificateDer<'static>>,
    names: Vec<String>,
    /// By whom it was verified in the handshake.
    verified_by: u64,
}

impl ClientTrust {
    pub(crate) fn new(roots: RootCertStore, print: u64) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // A client may come without a certificate: it may have a token, and if not it is told so in HTTP.
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).allow_unauthenticated();
        Ok(Self { verifier: verifier.build().map_err(|error| error.to_string())?, print })
    }

    pub(crate) fn print(&self) -> u64 {
        self.print
    }

    pub(crate) fn verifier(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::clone(&self.verifier)
    }

    /// The certificate of a connection whose handshake this verifier has let pass. One without a name that we can read has none.
    pub(crate) fn peer(&self, chain: &[CertificateDer<'_>]) -> Option<PeerCertificate> {
        let chain: Vec<_> = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let names = names_of(chain.first()?).unwrap_or_default();
        Some(PeerCertificate { chain, names, verified_by: self.print })
    }

    /// Whether the certificate is still good and names somebody who is listed. A connection may outlive its certificate, a
    /// resumed session the verification, and both the CA; so the chain is looked at again with each request where that can have happened.
    pub(crate) fn admits(&self, peer: &PeerCertificate, authorized: &[String]) -> bool {
        authorized.iter().any(|name| peer.names.contains(name)) && self.still_trusts(peer)
    }

    fn still_trusts(&self, peer: &PeerCertificate) -> bool {
        let Some((leaf, intermediates)) = peer.chain.split_first() else { return false };
        if peer.verified_by == self.print {
            return is_valid_now(leaf);
        }
        self.verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).is_ok()
    }
}

impl fmt::Debug for ClientTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTrust").field("print", &self.print).finish_non_exhaustive()
    }
}

fn is_valid_now(certificate: &CertificateDer<'_>) -> bool {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    X509Certificate::from_der(certificate).is_ok_and(|(_, certificate)| {
        let validity = certificate.validity();
        i64::try_from(now)
            .is_ok_and(|now| validity.not_before.timestamp() <= now && now <= validity.not_after.timestamp())
    })
}

/// The common names and the alternative names that are text.
fn names_of(certificate: &CertificateDer<'_>) -> Option<Vec<String>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let common = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let mut names: Vec<String> = common.map(String::from).collect();
    if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
        names.extend(alternative.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) | GeneralName::URI(name) | GeneralName::RFC822Name(name) => {
                Some((*name).to_string())
            }
            _ => None,
        }));
    }
    Some(names)
}
