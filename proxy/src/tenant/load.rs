//! A tenant's parts, made of files: what is as it was is taken over, and of what cannot be read the last good state.

use std::sync::Arc;

use sluice_discovery::{Discovery, Scope, Source};

use super::{Serving, Tenant, Trouble, Watched};
use crate::authenticate::{ClientTrust, Reviewer, ReviewerOptions, Tokens};
use crate::kubeconfig;
use crate::metrics::TenantMetrics;
use crate::pem::{self, Expiry, File};

/// A load in progress.
pub(super) struct Loader<'a> {
    pub(super) previous: Option<&'a Tenant>,
    pub(super) troubles: Vec<Trouble>,
    pub(super) expiries: Vec<Expiry>,
}

impl Loader<'_> {
    /// Each file once, however often it is named.
    pub(super) fn note_expiry(&mut self, file: &File) {
        self.expiries.extend(file.expiry().filter(|expiry| !self.expiries.contains(expiry)));
    }

    /// Who signs client certificates; `None` if they are no way in.
    pub(super) fn client_trust(&mut self, config: &sluice_config::Tenant) -> Result<Option<Arc<ClientTrust>>, Trouble> {
        let Some(section) = &config.authentication.client_certificate else { return Ok(None) };
        let ca = File::read(&section.ca_file);
        self.note_expiry(&ca);
        let print = pem::fingerprint([&ca]);
        let before = self.previous.and_then(|tenant| tenant.authenticator.certificates.as_ref());
        if let Some(before) = before.filter(|before| before.trust.print() == print) {
            return Ok(Some(Arc::clone(&before.trust)));
        }
        let trust = ca.roots().and_then(|roots| ClientTrust::new(roots, print));
        match (trust, before) {
            (Ok(trust), _) => Ok(Some(Arc::new(trust))),
            (Err(trouble), Some(before)) => {
                self.troubles.push(trouble);
                Ok(Some(Arc::clone(&before.trust)))
            }
            (Err(trouble), None) if config.authentication.token_review.is_some() => {
                self.troubles.push(trouble);
                Ok(None)
            }
            (Err(trouble), None) => Err(trouble),
        }
    }

    pub(super) fn serving(
        &mut self,
        config: &sluice_config::Tenant,
        clients: Option<&Arc<ClientTrust>>,
    ) -> Result<Serving, Trouble> {
        let (certificate, key) = (File::read(&config.serving.cert_file), File::read(&config.serving.key_file));
        self.note_expiry(&certificate);
        let print = pem::fingerprint([&certificate, &key]) ^ clients.map_or(0, |clients| clients.print());
        if let Some(tenant) = self.previous.filter(|tenant| tenant.serving.print == print) {
            return Ok(tenant.serving.clone());
        }
        match (pem::server_config(&certificate, &key, clients.map(|clients| &**clients)), self.previous) {
            (Ok(config), _) => Ok(Serving { config: Arc::new(config), clients: clients.cloned(), print }),
            (Err(trouble), Some(tenant)) => {
                self.troubles.push(trouble);
                Ok(tenant.serving.clone())
            }
            (Err(trouble), None) => Err(trouble),
        }
    }

    pub(super) async fn tokens(
        &mut self,
        config: &sluice_config::Tenant,
        metrics: &TenantMetrics,
    ) -> Result<Option<Tokens>, Trouble> {
        let Some(section) = &config.authentication.token_review else { return Ok(None) };
        let options = ReviewerOptions {
            audiences: section.audiences.clone(),
            cache_ttl: section.cache_ttl.0,
            refusal_ttl: section.refusal_ttl.0,
            reviews_per_second: config.limits.token_reviews_per_second,
        };
        let before =
            self.previous.and_then(|tenant| tenant.authenticator.tokens.as_ref()).map(|tokens| &tokens.reviewer);
        let reviewer = match before.filter(|reviewer| reviewer.options().audiences == options.audiences) {
            // What is remembered of tokens outlives a reload: metrics are wanted most when the API server is away.
            Some(reviewer) => {
                reviewer.tune(options);
                Arc::clone(reviewer)
            }
            None => Arc::new(Reviewer::new(options, metrics.clone()).ok_or("the system has no randomness to give")?),
        };
        let print = kubeconfig::fingerprint(&section.kubeconfig);
        if !reviewer.has_client(print) {
            match kubeconfig::client(&section.kubeconfig).await {
                Ok(client) => reviewer.set_client(client, print),
                Err(trouble) => self.troubles.push(trouble),
            }
        }
        Ok(Some(Tokens { reviewer, authorized: section.authorized.clone() }))
    }

    pub(super) fn discovery(&self, config: &sluice_config::Tenant) -> Option<Watched> {
        let section = config.discovery.as_ref()?;
        // A namespace without a component that needs it is not watched.
        config.components.values().find(|component| component.targets.is_empty())?;
        let source = section.kubeconfig.clone().map_or(Source::InCluster, Source::Kubeconfig);
        let print = section.kubeconfig.as_deref().map_or(0, kubeconfig::fingerprint);
        let before = self.previous.and_then(|tenant| tenant.discovery.as_ref());
        if let Some(before) = before.filter(|b| b.source == source && b.namespace == section.namespace) {
            if before.print != print {
                before.discovery.reconnect();
            }
            return Some(Watched { print, ..before.clone() });
        }
        let namespace = section.namespace.clone();
        let discovery = Discovery::start(source.clone(), Scope::Namespace(namespace.clone()));
        Some(Watched { source, print, namespace, discovery })
    }
}
