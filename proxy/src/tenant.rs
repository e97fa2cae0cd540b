//! One hosted control plane: everything that belongs to it hangs off one value, which a reload replaces as a whole.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use http::Uri;
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use sluice_codec::{MergeOptions, Names};
use sluice_config::{LabelSelector, MatchExpression, Operator, Scheme, TlsConfig};
use sluice_discovery::{Discovery, Pods, Port, Query, Requirement, Scope, Selector, Source, Target, Targets};
use tokio::sync::Semaphore;

use crate::authenticate::{Authenticator, Certificates, ClientTrust, Reviewer, ReviewerOptions, Tokens};
use crate::component::Component;
use crate::kubeconfig;
use crate::metrics::{Families, TenantMetrics};
use crate::pem::{self, Expiry, File};
use crate::upstream::{Transport, Upstream};

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

/// A load in progress.
struct Loader<'a> {
    previous: Option<&'a Tenant>,
    troubles: Vec<Trouble>,
    expiries: Vec<Expiry>,
}

impl Loader<'_> {
    /// Each file once, however often it is named.
    fn note_expiry(&mut self, file: &File) {
        self.expiries.extend(file.expiry().filter(|expiry| !self.expiries.contains(expiry)));
    }

    /// Who signs client certificates; `None` if they are no way in.
    fn client_trust(&mut self, config: &sluice_config::Tenant) -> Result<Option<Arc<ClientTrust>>, Trouble> {
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

    fn serving(
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

    async fn tokens(
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

    fn discovery(&self, config: &sluice_config::Tenant) -> Option<Watched> {
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

    fn components(
        &mut self,
        shared: &Shared,
        tenant: &Arc<str>,
        config: &sluice_config::Tenant,
        watched: Option<&Watched>,
        metrics: &TenantMetrics,
    ) -> BTreeMap<Arc<str>, Arc<Component>> {
        // Most components have the same CA and identity: they share one TLS configuration, trust store and sessions.
        let mut transports = Transports::default();
        let mut components = BTreeMap::new();
        for (name, section) in &config.components {
            let before = self.previous.and_then(|tenant| tenant.components.get(name.as_str()));
            let rules = match section.rules() {
                Ok(rules) => rules,
                // The check has compiled them before; if this one differs, the component has no gate and is not served.
                Err(error) => {
                    self.troubles.push(format!("components.{name}: {error}"));
                    continue;
                }
            };
            let upstream = self.upstream(name, section, before.map(|component| &*component.upstream), &mut transports);
            let component = Component {
                name: Arc::from(name.as_str()),
                tenant: Arc::clone(tenant),
                proxy: Arc::clone(&shared.proxy),
                emit_up: config.emit_up,
                labels: section.labels.clone(),
                pod_labels: config.pod_labels.clone(),
                options: MergeOptions {
                    rules: Arc::new(rules),
                    honor_labels: section.honor_labels,
                    names: Names::Legacy,
                    limits: section.limits.into(),
                },
                targets: targets(section, watched),
                upstream: Arc::new(upstream),
                scheme: if section.scheme == Scheme::Https { "https" } else { "http" },
                timeout: section.timeout.0,
                metrics: before.map_or_else(|| metrics.component(name), |component| component.metrics.clone()),
                history: before.map(|component| Arc::clone(&component.history)).unwrap_or_default(),
            };
            components.insert(Arc::clone(&component.name), Arc::new(component));
        }
        components
    }

    fn upstream(
        &mut self,
        name: &str,
        section: &sluice_config::Component,
        before: Option<&Upstream>,
        transports: &mut Transports,
    ) -> Upstream {
        let uri = uri(section);
        let (transport, print) = match (&uri, section.scheme, &section.tls_config) {
            (Err(trouble), _, _) => (Transport::Broken(trouble.clone()), 0),
            (_, Scheme::Http, _) | (_, _, None) => (Transport::Plain, 0),
            (_, Scheme::Https, Some(tls)) => self.tls(tls, before, transports),
        };
        if let Transport::Broken(trouble) = &transport {
            self.troubles.push(format!("components.{name}: {trouble}"));
        }
        Upstream { uri: uri.unwrap_or_default(), transport, print }
    }

    fn tls(&mut self, tls: &TlsConfig, before: Option<&Upstream>, transports: &mut Transports) -> (Transport, u64) {
        let server_name = match server_name(tls.server_name.as_deref()) {
            Ok(server_name) => server_name,
            Err(trouble) => return (Transport::Broken(trouble), 0),
        };
        let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(File::read);
        let (Some(ca), certificate, key) = (read(&tls.ca_file), read(&tls.cert_file), read(&tls.key_file)) else {
            return (Transport::Broken("tlsConfig.caFile is missing".into()), 0);
        };
        let print = pem::fingerprint([Some(&ca), certificate.as_ref(), key.as_ref()].into_iter().flatten());
        if !transports.contains_key(&print) {
            for file in [Some(&ca), certificate.as_ref()].into_iter().flatten() {
                self.note_expiry(file);
            }
        }
        let before_config = before.and_then(Upstream::tls_config);
        let config = transports.entry(print).or_insert_with(|| match (before, before_config) {
            (Some(before), Some(config)) if before.print == print => Ok(Arc::clone(config)),
            _ => pem::client_config(&ca, certificate.as_ref().zip(key.as_ref())).map(Arc::new),
        });
        match (config, before_config) {
            (Ok(config), _) => (Transport::Tls { config: Arc::clone(config), server_name }, print),
            (Err(trouble), Some(config)) => {
                self.troubles.push(trouble.clone());
                let print = before.map_or(0, |before| before.print);
                (Transport::Tls { config: Arc::clone(config), server_name }, print)
            }
            (Err(trouble), None) => (Transport::Broken(trouble.clone()), 0),
        }
    }
}

/// TLS configurations of one load, by the fingerprint of their files.
type Transports = BTreeMap<u64, Result<Arc<rustls::ClientConfig>, Trouble>>;

fn targets(section: &sluice_config::Component, watched: Option<&Watched>) -> Targets {
    let pods = match (&section.service, &section.pod_selector) {
        (Some(service), _) => Pods::OfService(service.clone()),
        (None, Some(selector)) => Pods::Selected(selector_of(selector)),
        (None, None) => return fixed(&section.targets),
    };
    let port = match &section.port {
        Some(sluice_config::Port::Number(number)) => Port::Number(*number),
        Some(sluice_config::Port::Name(name)) => Port::Name(name.clone()),
        None => Port::Name(String::new()),
    };
    match watched {
        Some(watched) => watched.discovery.targets(Query { namespace: watched.namespace.clone(), pods, port }),
        // The check asks for discovery where it is needed.
        None => Targets::fixed(Vec::new()),
    }
}

fn fixed(targets: &[sluice_config::Target]) -> Targets {
    Targets::fixed(targets.iter().map(|t| Target { pod: t.pod.clone(), address: t.address }).collect())
}

fn selector_of(selector: &LabelSelector) -> Selector {
    let labels = selector.match_labels.iter().map(|(key, value)| Requirement::In(key.clone(), vec![value.clone()]));
    let expressions = selector.match_expressions.iter().map(|expression| {
        let MatchExpression { key, operator, values } = expression.clone();
        match operator {
            Operator::In => Requirement::In(key, values),
            Operator::NotIn => Requirement::NotIn(key, values),
            Operator::Exists => Requirement::Exists(key),
            Operator::DoesNotExist => Requirement::DoesNotExist(key),
        }
    });
    Selector::new(labels.chain(expressions))
}

/// The name that pods' certificates must have.
pub(crate) fn server_name(name: Option<&str>) -> Result<Option<ServerName<'static>>, Trouble> {
    let parsed = name.map(|name| ServerName::try_from(name.to_string())).transpose();
    parsed.map_err(|_| format!("tlsConfig.serverName: {:?} is no DNS name or address", name.unwrap_or_default()))
}

/// The path with the parameters as its query.
pub(crate) fn uri(section: &sluice_config::Component) -> Result<Uri, Trouble> {
    let mut text = section.path.clone();
    let pairs = section.params.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    for (number, (key, value)) in pairs.enumerate() {
        text.push(if number == 0 { '?' } else { '&' });
        escape_into(&mut text, key);
        text.push('=');
        escape_into(&mut text, value);
    }
    Uri::try_from(text).map_err(|error| format!("path: {error}"))
}

/// What is not a letter, a digit or one of `-._~` as `%XX`.
fn escape_into(text: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(byte.into());
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
}
