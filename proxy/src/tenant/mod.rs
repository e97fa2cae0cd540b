//! One hosted control plane: everything that belongs to it hangs off one value, which a reload replaces as a whole.

mod components;
mod load;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::ServerConfig;
use sluice_discovery::{Discovery, Source};
use tokio::sync::Semaphore;

pub(crate) use components::{server_name, uri};

use self::load::Loader;
use crate::authenticate::{Authenticator, Certificates, ClientTrust};
use crate::component::Component;
use crate::metrics::{Families, TenantMetrics};
use crate::pem::Expiry;

/// A tenant, as of one load of its configuration and files.
pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    pub(crate) config: Arc<sluice_config::Tenant>,
    pub(crate) serving: Serving,
    pub(crate) authenticator: Authenticator,
    pub(crate) components: BTreeMap<Arc<str>, Arc<Component>>,
    /// Permits for `limits.concurrentScrapes`.
    pub(crate) scrapes: Arc<Semaphore>,
    /// Permits for `limits.connections`.
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) discovery: Option<Watched>,
    pub(crate) metrics: TenantMetrics,
    pub(crate) expiries: Vec<Expiry>,
}

/// TLS towards scrapers.
#[derive(Clone)]
pub(crate) struct Serving {
    pub(crate) config: Arc<ServerConfig>,
    /// Whose client certificates pass the handshake. The authenticator may have a newer one, if a new CA came with a
    /// serving certificate that cannot be used; then that one has the last word.
    pub(crate) clients: Option<Arc<ClientTrust>>,
    /// Of the serving certificate, its key and the client CA.
    print: u64,
}

/// The watches of a tenant's namespace.
#[derive(Clone)]
pub(crate) struct Watched {
    source: Source,
    /// Of the kubeconfig, if there is one.
    print: u64,
    namespace: String,
    pub(crate) discovery: Discovery,
}

/// What all tenants share.
pub(crate) struct Shared {
    pub(crate) families: Families,
    /// Our own pod's name.
    pub(crate) proxy: Arc<str>,
}

/// A part of a tenant that could not be renewed (then the last good one stays) or made at all (then it is broken).
pub(crate) type Trouble = String;

impl Tenant {
    /// Makes a tenant of its configuration and the files it names. What is as it was in `previous` is taken over, and so is the
    /// last good state of what cannot be read. Fails only if there is nothing to serve with.
    pub(crate) async fn load(
        shared: &Shared,
        name: &Arc<str>,
        config: Arc<sluice_config::Tenant>,
        previous: Option<&Tenant>,
    ) -> Result<(Self, Vec<Trouble>), Trouble> {
        let mut loader = Loader { previous, troubles: Vec::new(), expiries: Vec::new() };
        let metrics =
            previous.map_or_else(|| TenantMetrics::new(&shared.families, name), |tenant| tenant.metrics.clone());
        let clients = loader.client_trust(&config)?;
        let serving = loader.serving(&config, clients.as_ref())?;
        let tokens = loader.tokens(&config, &metrics).await?;
        let certificates = match (clients, &config.authentication.client_certificate) {
            (Some(trust), Some(section)) => Some(Certificates { trust, authorized: section.authorized.clone() }),
            _ => None,
        };
        let discovery = loader.discovery(&config);
        let components = loader.components(shared, name, &config, discovery.as_ref(), &metrics);
        let limits = config.limits;
        let permits = |count: u32, before: Option<(&Arc<Semaphore>, u32)>| match before {
            // Who holds one still counts.
            Some((semaphore, same)) if same == count => Arc::clone(semaphore),
            _ => Arc::new(Semaphore::new(count as usize)),
        };
        let before = |pick: fn(&Tenant) -> (&Arc<Semaphore>, u32)| previous.map(pick);
        let scrapes = permits(limits.concurrent_scrapes, before(|t| (&t.scrapes, t.config.limits.concurrent_scrapes)));
        let connections = permits(limits.connections, before(|t| (&t.connections, t.config.limits.connections)));
        let tenant = Self {
            name: Arc::clone(name),
            serving,
            authenticator: Authenticator { tokens, certificates },
            components,
            scrapes,
            connections,
            discovery,
            metrics,
            expiries: loader.expiries,
            config,
        };
        Ok((tenant, loader.troubles))
    }

    /// Whether a client that asks for this name in TLS means this tenant. A tenant alone in its process may leave out its names, and
    /// is meant by whoever asks for none.
    pub(crate) fn answers_to(&self, server_name: Option<&str>) -> bool {
        let names = &self.config.hostnames;
        names.is_empty() || server_name.is_none_or(|asked| names.iter().any(|name| name.eq_ignore_ascii_case(asked)))
    }
}
