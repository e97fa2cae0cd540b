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
        let config = sluice_config::load(path).map_err(|error| error.to_string())?;
        let name = name_of(&config, path);
        let print = fingerprint(path, &config);
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
        let read = sluice_config::load(&self.path);
        let config = read.as_ref().unwrap_or(&before.config);
        let print = fingerprint(&self.path, config);
        if print == self.reload().print {
            return;
        }
        let mut troubles = Vec::new();
        let config = match read {
            Ok(config) => Arc::new(config),
            Err(error) => {
                troubles.push(format!("{}: {error}", self.path.display()));
                Arc::clone(&before.config)
            }
        };
        match Tenant::load(shared, &before.name, config, Some(&before)).await {
            Ok((tenant, more)) => {
                troubles.extend(more);
                for (name, component) in &before.components {
                    if !tenant.components.contains_key(name) {
                        component.metrics.forget();
                    }
                }
                self.current.store(Arc::new(tenant));
            }
            Err(trouble) => troubles.push(trouble),
        }
        let tenant = &*before.name;
        if troubles.is_empty() {
            info!(tenant, "the configuration was reloaded");
        }
        for trouble in &troubles {
            warn!(tenant, error = trouble, "a change cannot be used; the last good state stays in force");
        }
        *self.reload() = Reload { at: SystemTime::now(), troubles, print };
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

/// Changes when the configuration does, or any file it names.
fn fingerprint(path: &Path, config: &sluice_config::Tenant) -> u64 {
    let mut files = vec![File::read(path)];
    files.extend(config.files().iter().map(|(_, file)| File::read(file)));
    let review = config.authentication.token_review.as_ref();
    pem::fingerprint(&files) ^ review.map_or(0, |review| kubeconfig::fingerprint(&review.kubeconfig).rotate_left(1))
}
