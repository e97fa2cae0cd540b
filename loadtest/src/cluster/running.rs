//! A component's pods, and what the management API server is told of them.

use std::collections::BTreeMap;

use super::body::body;
use super::component::{Component, FoundBy, Port, Trust};
use super::expected::{self, Expected};
use super::files::Trusted;
use super::network::Addresses;
use super::options::{ApiServerBody, ClusterOptions, MetricsSet};
use super::rules;
use crate::api::{self, ApiServer};
use crate::corpus::sample_lines;
use crate::pod::{Pod, PodOptions, PodTls};

pub(super) struct Running {
    pub(super) component: &'static Component,
    /// By name.
    pub(super) pods: BTreeMap<String, Pod>,
    /// The same for all pods.
    pub(super) port: u16,
    tls: PodTls,
    size: ApiServerBody,
    /// The number of the next pod.
    next: usize,
}

impl Running {
    pub(super) fn start(
        component: &'static Component,
        options: &ClusterOptions,
        trusted: &Trusted,
        addresses: &mut Addresses,
    ) -> Self {
        let count = options.pods.unwrap_or(component.pods);
        assert!(count > 0, "a component has at least one pod");
        let addresses = addresses.take(count);
        let mut running = Self {
            component,
            pods: BTreeMap::new(),
            port: addresses[0].port(),
            tls: trusted.pod_tls(component),
            size: options.api_server_body,
            next: 0,
        };
        for address in addresses {
            running.add(address);
        }
        running
    }

    /// Puts another pod in the place of one, and gives the old one and the name of the new one.
    pub(super) fn replace(&mut self, pod: &str, addresses: &mut Addresses) -> (Pod, String) {
        let old = self.pods.remove(pod).unwrap_or_else(|| panic!("there is no pod {pod:?}"));
        let new = self.add(addresses.take_with_port(self.port));
        (old, new)
    }

    /// Tells the API server which pods there are.
    pub(super) fn announce(&self, management: &ApiServer, namespace: &str) {
        let port_name = match self.component.found_by {
            FoundBy::Service(_, Port::Named(name)) => Some(name),
            FoundBy::Service(_, Port::Unnamed) => None,
            FoundBy::Service(_, Port::Number) | FoundBy::AppLabel => Some("metrics"),
        };
        for (name, pod) in &self.pods {
            let labels = [("app", self.component.name), ("hypershift.openshift.io/control-plane", "true")];
            // A container's port is always named, whatever the Service makes of it.
            let ports = [(port_name.unwrap_or("client"), self.port)];
            management.apply(api::pod(namespace, name, &labels, &pod.address().ip().to_string(), &ports));
        }
        if let FoundBy::Service(service, _) = self.component.found_by {
            let endpoints: Vec<(&str, String)> =
                self.pods.iter().map(|(name, pod)| (name.as_str(), pod.address().ip().to_string())).collect();
            let endpoints: Vec<(&str, &str)> = endpoints.iter().map(|(name, ip)| (*name, ip.as_str())).collect();
            let slice = format!("{service}-1");
            management.apply(api::endpoint_slice(namespace, &slice, service, port_name, self.port, &endpoints));
        }
    }

    /// How many samples all pods have.
    pub(super) fn samples(&self) -> usize {
        // The pods of a component have the same series.
        sample_lines(&body(self.component.name, self.size, 0)) * self.pods.len()
    }

    pub(super) fn expected(&self, set: MetricsSet) -> Expected {
        let rules = rules::rules(set, self.component.name);
        expected::expected(&body(self.component.name, self.size, 0), self.pods.len(), &rules)
    }

    fn add(&mut self, address: std::net::SocketAddr) -> String {
        let number = self.next;
        self.next += 1;
        let name = format!("{}-{number}", self.component.name);
        let body = body(self.component.name, self.size, number);
        let pod = Pod::start(PodOptions { address, body, tls: self.tls.clone() });
        self.pods.insert(name.clone(), pod);
        name
    }
}

impl Trusted {
    fn pod_tls(&self, component: &Component) -> PodTls {
        let names = [component.server_name];
        match component.trust {
            Trust::Mutual => PodTls::Mutual { issued: self.root.server(&names), client_ca_pem: self.root.cert_pem() },
            Trust::MutualEtcd => {
                PodTls::Mutual { issued: self.etcd.server(&names), client_ca_pem: self.etcd.cert_pem() }
            }
            Trust::ServerOnly => PodTls::Tls { issued: self.root.server(&names) },
            Trust::Nobody => PodTls::Plain,
        }
    }
}
