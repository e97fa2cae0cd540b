//! How a server is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// What the server is to be like.
#[derive(Clone, Debug)]
pub struct ApiOptions {
    /// Where it listens; port 0 takes a free one.
    pub address: SocketAddr,
    /// None for plain HTTP.
    pub tls: Option<ApiTls>,
    /// Bearer tokens that are let in. With none of them and no client certificates asked for everybody is let in.
    pub tokens: Vec<String>,
    /// Certificates of this authority (PEM) are let in; needs TLS.
    pub client_authority: Option<String>,
    /// What the kubeconfig says of its user; the first of `tokens` if none is given.
    pub user: Option<ApiUser>,
    /// The time between bookmarks: Kubernetes takes about a minute.
    pub bookmark_interval: Duration,
    /// The number of changes that are remembered; older resource versions are expired.
    pub history: usize,
    /// Whether objects can only be created in namespaces that exist, as in a real cluster. It is off, since most tests are
    /// about other things.
    pub namespaces_must_exist: bool,
}

/// The server's certificate, all in PEM.
#[derive(Clone, Debug)]
pub struct ApiTls {
    /// The certificate, and those between it and the authority.
    pub certificate: String,
    /// Its key.
    pub key: String,
    /// What clients are to trust: goes into the kubeconfig.
    pub authority: String,
}

/// The credentials in the kubeconfig.
#[derive(Clone, Debug)]
pub enum ApiUser {
    /// A bearer token.
    Token(String),
    /// A client certificate and its key, both in PEM.
    Certificate {
        /// The certificate.
        certificate: String,
        /// Its key.
        key: String,
    },
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            tls: None,
            tokens: Vec::new(),
            client_authority: None,
            user: None,
            bookmark_interval: Duration::from_mins(1),
            // As many as a watch cache of Kubernetes may hold for one resource.
            history: 100_000,
            namespaces_must_exist: false,
        }
    }
}
