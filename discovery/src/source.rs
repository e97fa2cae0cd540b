//! The way to the management cluster's API server.

use std::path::PathBuf;

use kube::client::{AuthError, ClientBuilder};
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::timing::Timing;

/// How to reach the management cluster. It is read again before each attempt to connect after a failure, so that a file that
/// appears late or credentials that were renewed need no restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// By the current context of a kubeconfig file.
    Kubeconfig(PathBuf),
    /// As a pod of that cluster.
    InCluster,
}

/// Why there is no way to the API server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    // What the parser says may quote the file, and with it a token.
    #[error("{0}: not a kubeconfig")]
    Unreadable(PathBuf),
    #[error("{0}: {1}")]
    Kubeconfig(PathBuf, #[source] KubeconfigError),
    #[error("not in a cluster: {0}")]
    InCluster(#[from] InClusterError),
    // Its output may be a token.
    #[error("the kubeconfig's exec plugin failed")]
    Plugin,
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
    /// A client; nothing is sent yet.
    pub(crate) async fn connect(&self, timing: &Timing) -> Result<Client, SourceError> {
        let mut config = match self {
            Self::Kubeconfig(path) => {
                let explain = |error| match error {
                    KubeconfigError::Parse(_) => SourceError::Unreadable(path.clone()),
                    other => SourceError::Kubeconfig(path.clone(), other),
                };
                let kubeconfig = Kubeconfig::read_from(path).map_err(explain)?;
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(explain)?
            }
            Self::InCluster => Config::incluster()?,
        };
        config.connect_timeout = Some(timing.answer);
        // Pauses are ours, and so is the word on why there is one.
        config.default_retry = false;
        Ok(ClientBuilder::try_from(config)?.build())
    }
}
