//! A tenant's components, made of its configuration.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use http::Uri;
use rustls::pki_types::ServerName;
use sluice_codec::{MergeOptions, Names};
use sluice_config::{LabelSelector, MatchExpression, Operator, Scheme, TlsConfig};
use sluice_discovery::{Pods, Port, Query, Requirement, Selector, Target, Targets};

use super::load::Loader;
use super::{Shared, Trouble, Watched};
use crate::component::Component;
use crate::metrics::TenantMetrics;
use crate::pem::{self, File};
use crate::upstream::{Transport, Upstream};

impl Loader<'_> {
    pub(super) fn components(
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
