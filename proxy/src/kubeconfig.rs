//! The way to a hosted API server, from a kubeconfig file.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::pem::{self, File};

/// An API server that does not take a connection within this is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A client with the identity in this file. Nothing is sent yet.
pub(crate) async fn client(path: &Path) -> Result<Client, String> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| explain(path, &error))?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| explain(path, &error))?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // A review has its own time, and a scraper that asks again.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether there is a kubeconfig in this file.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    Kubeconfig::read_from(path).map(drop).map_err(|error| explain(path, &error))
}

/// Changes when the file does, or one of the certificates and keys it names.
pub(crate) fn fingerprint(path: &Path) -> u64 {
    let mut files = vec![File::read(path)];
    if let Ok(kubeconfig) = Kubeconfig::read_from(path) {
        let clusters =
            kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref()?.certificate_authority.clone());
        let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
        let users = users.flat_map(|user| [user.client_certificate.clone(), user.client_key.clone()]).flatten();
        files.extend(clusters.chain(users).map(|file| File::read(Path::new(&file))));
    }
    pem::fingerprint(&files)
}

fn explain(path: &Path, error: &KubeconfigError) -> String {
    let name = path.display();
    match error {
        // What the parser says may quote the file, and with it a token.
        KubeconfigError::Parse(_) => format!("{name}: not a kubeconfig"),
        KubeconfigError::ReadConfig(error, _) => format!("{name}: {error}"),
        other => format!("{name}: {other}"),
    }
}
