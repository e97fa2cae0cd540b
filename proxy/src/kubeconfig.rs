//! The way to a hosted API server, from a kubeconfig file.

use std::path::Path;

use kube::Client;
use kube::config::Kubeconfig;
use sluice_discovery::Source;

use crate::pem::{self, File};

/// A `TokenReview` has a few hundred bytes, and what a hosted API server may say besides is not worth more memory. A longer answer
/// counts as none.
const ANSWER_MOST: usize = 256 * 1024;

/// A client with the identity in this file. Nothing is sent yet.
pub(crate) async fn client(path: &Path) -> Result<Client, String> {
    Source::Kubeconfig(path.into()).client(Some(ANSWER_MOST)).await.map_err(|error| error.to_string())
}

/// Whether there is a kubeconfig in this file that could be used.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(client(path)).map(drop)
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
