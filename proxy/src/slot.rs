//! A tenant's place: the last good state, and what became of the last attempt to renew it.
//!
//! Files are polled and compared by content. The kubelet swaps symlinks under a mounted directory, which kills file watches; a poll
//! of some small files every ten seconds costs nothing and misses nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use arc_swap::ArcSwap;
use tracing::{info, warn};

use crate::kubeconfig;
use crate::pem::{self, File};
use crate::tenant::{Shared, Tenant, Trouble};

/// A tenant that is kept up to date.
pub(crate) struct Slot {
    path: PathBuf,
    current: ArcSwap<Tenant>,
    reload: Mutex<Reload>,
}

/// The last attempt to renew a tenant.
#[derive(Clone, Debug)]
pub(crate) struct Reload {
    /// When something had changed for the last time.
    pub(crate) at: SystemTime,
    /// What could not be used; empty if all was well.
    pub(crate) troubles: Vec<Trouble>,
    /// Of everything that was read.
    print: u64,
}

impl Slot {
    /// Loads the tenant described by a file.
    pub(crate) async fn load(shared: &Shared, path: &Path) -> Result<Self, Trouble> {
        let file = File::read(path);
        let config = parse(path, &file).map_err(|error| error.to_string())?;
        let name = name_of(&config, path);
        let print = fingerprint(&file, &config);
        let (tenant, troubles) = Tenant::load(shared, &name, Arc::new(config), None).await?;
        for trouble in &troubles {
            warn!(tenant = &*name, error = trouble, "this part of the configuration cannot be used");
        }
        let reload = Reload { at: SystemTime::now(), troubles, print };
        Ok(Self { path: path.into(), current: ArcSwap::from_pointee(tenant), reload: Mutex::new(reload) })
    }

    /// The tenant as of now. Whoever holds it finishes with it, whatever changes meanwhile.
    pub(crate) fn tenant(&self) -> Arc<Tenant> {
        self.current.load_full()
    }

    pub(crate) fn last_reload(&self) -> Reload {
        self.reload().clone()
    }

    /// Looks at the files, and renews the tenant if one of them has changed.
    pub(crate) async fn poll(&self, shared: &Shared) {
        let before = self.tenant();
        // The fingerprints are taken before anything is used: what changes meanwhile is seen next time.
        let file = File::read(&self.path);
        let print = fingerprint(&file, &before.config);
        if print == self.reload().print {
            return;
        }
        let mut reload = Reload { at: SystemTime::now(), troubles: Vec::new(), print };
        let config = match parse(&self.path, &file) {
            Ok(config) => Arc::new(config),
            Err(error) => {
                reload.troubles.push(format!("{}: {error}", self.path.display()));
                Arc::clone(&before.config)
            }
        };
        let new_print = fingerprint(&file, &config);
        match Tenant::load(shared, &before.name, config, Some(&before)).await {
            Ok((tenant, more)) => {
                reload.troubles.extend(more);
                reload.print = new_print;
                for (name, component) in &before.components {
                    if !tenant.components.contains_key(name) {
                        component.metrics.forget();
                    }
                }
                self.current.store(Arc::new(tenant));
            }
            Err(trouble) => reload.troubles.push(trouble),
        }
        let tenant = &*before.name;
        if reload.troubles.is_empty() {
            info!(tenant, "the configuration was reloaded");
        }
        for trouble in &reload.troubles {
            warn!(tenant, error = trouble, "a change cannot be used; the last good state stays in force");
        }
        *self.reload() = reload;
    }

    fn reload(&self) -> MutexGuard<'_, Reload> {
        // A panic while it was held ends the process, in release; in tests the value is as good as before.
        self.reload.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Alone in its process a tenant is called as its namespace, which is what people know it by; without one, as its file.
fn name_of(config: &sluice_config::Tenant, path: &Path) -> Arc<str> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    config.discovery.as_ref().map_or(stem, |discovery| discovery.namespace.clone()).into()
}

fn parse(path: &Path, file: &File) -> Result<sluice_config::Tenant, sluice_config::ConfigError> {
    sluice_config::read(path, file.bytes().map(<[u8]>::to_vec).map_err(std::io::Error::other))
}

/// Changes when the configuration does, or any file it names.
fn fingerprint(file: &File, config: &sluice_config::Tenant) -> u64 {
    let mut files = vec![file.clone()];
    files.extend(config.files().iter().map(|(_, file)| File::read(file)));
    let kubeconfigs = [
        config.authentication.token_review.as_ref().map(|review| &review.kubeconfig),
        config.discovery.as_ref().and_then(|discovery| discovery.kubeconfig.as_ref()),
    ];
    let named_in_them = kubeconfigs.into_iter().flatten().map(|path| kubeconfig::fingerprint(path));
    named_in_them.fold(pem::fingerprint(&files), |print, more| print.rotate_left(1) ^ more)
}
