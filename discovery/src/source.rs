//! The way to an API server: the management cluster's, or a hosted one.

use std::path::PathBuf;

use http::Response;
use http_body_util::Limited;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::{AuthError, Body, ConfigExt};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

/// The most that a connection reads ahead. It is held as long as the connection, that is for ever; left alone it grows to 400 KiB for
/// one large object. Headers longer than this are an error; those of Kubernetes take one KiB.
const READ_BUFFER: usize = 32 << 10;

/// How to reach a cluster. By discovery it is read again before each attempt to connect after a failure, so that a file that
/// appears late or credentials that were renewed need no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// By the current context of a kubeconfig file.
    Kubeconfig(PathBuf),
    /// As a pod of that cluster.
    InCluster,
}

/// Why there is no way to the API server. None of them quotes a credential.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// No kubeconfig. What the parser says may quote the file, and with it a token.
    #[error("{0}: not a kubeconfig")]
    Unreadable(PathBuf),
    /// There is no such file, or one that it names.
    #[error("{0}: {1}")]
    File(PathBuf, #[source] std::io::Error),
    /// A kubeconfig that cannot be used.
    #[error("{0}: {1}")]
    Kubeconfig(PathBuf, #[source] KubeconfigError),
    /// The variables and files that a pod has are missing.
    #[error("not in a cluster: {0}")]
    InCluster(#[from] InClusterError),
    /// The program that the kubeconfig names for credentials. Its output may be a token.
    #[error("the kubeconfig's exec plugin failed")]
    Plugin,
    /// The credentials cannot be used.
    #[error("{0}")]
    Client(#[source] kube::Error),
}

impl From<kube::Error> for SourceError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Auth(AuthError::AuthExecRun { .. } | AuthError::AuthExecParse(_)) => Self::Plugin,
            other => Self::Client(other),
        }
    }
}

impl Source {
    /// A client, smaller than kube's own; nothing is sent yet. An answer longer than `most` bytes is an error: an API server that is not
    /// trusted must not be able to fill our memory.
    pub async fn client(&self, most: Option<usize>) -> Result<Client, SourceError> {
        let config = match self {
            Self::Kubeconfig(path) => {
                let explain = |error| match error {
                    KubeconfigError::Parse(_) => SourceError::Unreadable(path.clone()),
                    KubeconfigError::ReadConfig(error, _) => SourceError::File(path.clone(), error),
                    other => SourceError::Kubeconfig(path.clone(), other),
                };
                let kubeconfig = Kubeconfig::read_from(path).map_err(explain)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(explain)?
            }
            Self::InCluster => Config::incluster()?,
        };
        // As kube builds its own, but for the buffer, and for its retries: pauses are ours, and so is the word on why there is one.
        let connections = legacy::Client::builder(TokioExecutor::new())
            .http1_max_buf_size(READ_BUFFER)
            .build::<_, Body>(config.rustls_https_connector()?);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_response(move |answer: Response<_>| answer.map(|body| Limited::new(body, most.unwrap_or(usize::MAX))))
            .map_err(BoxError::from)
            .service(connections);
        Ok(Client::new(service, config.default_namespace))
    }
}
