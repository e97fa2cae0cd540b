//! A projection of the watches: what is kept of slices and pods, and the targets that follow from it.
//!
//! Events change the index; after each the targets of the components concerned are worked out anew and swapped in. Objects
//! are never kept, only what a target is made of.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::object::{Endpoint, EndpointSlice, Pod};
use crate::query::{Pods, Port, Query};

/// A pod to scrape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The pod's name; for an endpoint without a pod its address.
    pub pod: String,
    /// Where it is scraped.
    pub address: SocketAddr,
}

/// The targets of one component, always at hand: reading them takes no lock and makes no call.
#[derive(Clone, Debug, Default)]
pub struct Targets(Arc<ArcSwap<Vec<Target>>>);

impl Targets {
    /// The targets as of now, by the pods' names, each pod once.
    pub fn load(&self) -> Arc<Vec<Target>> {
        self.0.load_full()
    }
}

/// What is known of slices and pods.
#[derive(Debug, Default)]
pub struct Index {
    /// By namespace and name.
    slices: BTreeMap<Key, SliceEntry>,
    pods: BTreeMap<Key, PodEntry>,
    components: Vec<(Query, Targets)>,
}

type Key = (String, String);

/// The label that says which Service a slice is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Debug)]
struct SliceEntry {
    service: String,
    endpoints: Vec<(String, IpAddr)>,
    ports: Vec<(String, u16)>,
}

#[derive(Debug)]
struct PodEntry {
    labels: BTreeMap<String, String>,
    address: IpAddr,
    ports: Vec<(String, u16)>,
}

impl Index {
    /// Adds a component; its targets follow the index from now on.
    pub fn watch(&mut self, query: Query) -> Targets {
        let targets = Targets::default();
        self.components.push((query, targets.clone()));
        self.refresh(|_| true);
        targets
    }

    /// A slice was added or changed.
    pub fn apply_slice(&mut self, slice: &EndpointSlice) {
        let key = (slice.metadata.namespace.clone(), slice.metadata.name.clone());
        let before = match SliceEntry::new(slice) {
            Some(entry) => self.slices.insert(key.clone(), entry),
            None => self.slices.remove(&key),
        };
        let now = self.slices.get(&key).map(|entry| entry.service.clone());
        let services = [before.map(|entry| entry.service), now];
        self.refresh_services(&key.0, &services);
    }

    /// A slice was deleted.
    pub fn delete_slice(&mut self, slice: &EndpointSlice) {
        let key = (slice.metadata.namespace.clone(), slice.metadata.name.clone());
        let before = self.slices.remove(&key).map(|entry| entry.service);
        self.refresh_services(&key.0, &[before, None]);
    }

    /// These are all slices there are: what a new list says after a watch was lost. The targets change once, not with each slice.
    pub fn reset_slices<'a>(&mut self, slices: impl IntoIterator<Item = &'a EndpointSlice>) {
        let entry = |slice: &EndpointSlice| {
            let key = (slice.metadata.namespace.clone(), slice.metadata.name.clone());
            SliceEntry::new(slice).map(|entry| (key, entry))
        };
        self.slices = slices.into_iter().filter_map(entry).collect();
        self.refresh(|query| matches!(query.pods, Pods::OfService(_)));
    }

    /// A pod was added or changed.
    pub fn apply_pod(&mut self, pod: &Pod) {
        let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        match PodEntry::new(pod) {
            Some(entry) => self.pods.insert(key.clone(), entry),
            None => self.pods.remove(&key),
        };
        self.refresh_selectors(&key.0);
    }

    /// A pod was deleted.
    pub fn delete_pod(&mut self, pod: &Pod) {
        self.pods.remove(&(pod.metadata.namespace.clone(), pod.metadata.name.clone()));
        self.refresh_selectors(&pod.metadata.namespace);
    }

    /// These are all pods there are.
    pub fn reset_pods<'a>(&mut self, pods: impl IntoIterator<Item = &'a Pod>) {
        let entry = |pod: &Pod| {
            PodEntry::new(pod).map(|entry| ((pod.metadata.namespace.clone(), pod.metadata.name.clone()), entry))
        };
        self.pods = pods.into_iter().filter_map(entry).collect();
        self.refresh(|query| matches!(query.pods, Pods::Selected(_)));
    }

    fn refresh_services(&self, namespace: &str, services: &[Option<String>]) {
        self.refresh(|query| match &query.pods {
            Pods::OfService(service) => {
                query.namespace == namespace && services.iter().flatten().any(|changed| changed == service)
            }
            Pods::Selected(_) => false,
        });
    }

    fn refresh_selectors(&self, namespace: &str) {
        self.refresh(|query| matches!(query.pods, Pods::Selected(_)) && query.namespace == namespace);
    }

    /// Works out the targets of the components concerned; swaps them only where they changed.
    fn refresh(&self, concerned: impl Fn(&Query) -> bool) {
        for (query, targets) in self.components.iter().filter(|(query, _)| concerned(query)) {
            let found = self.find(query);
            if **targets.0.load() != found {
                targets.0.store(Arc::new(found));
            }
        }
    }

    fn find(&self, query: &Query) -> Vec<Target> {
        // By pod, so that one in two slices or two address families is one target. Of several addresses the smallest: IPv4
        // before IPv6, and the same one every time.
        let mut found: BTreeMap<&str, SocketAddr> = BTreeMap::new();
        let mut add = |pod, address: IpAddr, port| {
            let address = SocketAddr::new(address, port);
            found.entry(pod).and_modify(|known| *known = address.min(*known)).or_insert(address);
        };
        let in_namespace = |key: &Key| key.0 == query.namespace;
        match &query.pods {
            Pods::OfService(service) => {
                for (_, slice) in
                    self.slices.iter().filter(|(key, slice)| in_namespace(key) && slice.service == *service)
                {
                    let Some(port) = find_port(&slice.ports, &query.port) else { continue };
                    for (pod, address) in &slice.endpoints {
                        add(pod, *address, port);
                    }
                }
            }
            Pods::Selected(selector) => {
                for (key, pod) in
                    self.pods.iter().filter(|(key, pod)| in_namespace(key) && selector.matches(&pod.labels))
                {
                    if let Some(port) = find_port(&pod.ports, &query.port) {
                        add(&key.1, pod.address, port);
                    }
                }
            }
        }
        found.into_iter().map(|(pod, address)| Target { pod: pod.into(), address }).collect()
    }
}

impl SliceEntry {
    /// `None` for a slice of no Service, or of names instead of addresses.
    fn new(slice: &EndpointSlice) -> Option<Self> {
        let service = slice.metadata.labels.get(SERVICE_NAME)?.clone();
        let endpoints = slice.endpoints.iter().filter_map(endpoint_of).collect();
        let is_tcp = |protocol: &Option<String>| protocol.as_ref().is_none_or(|protocol| protocol == "TCP");
        let ports = slice.ports.iter().filter(|port| is_tcp(&port.protocol)).filter_map(|port| {
            let name = port.name.clone().unwrap_or_default();
            port.port.map(|number| (name, number))
        });
        Some(Self { service, endpoints, ports: ports.collect() })
    }
}

/// Pod and address of an endpoint that can be scraped. One that is not ready can: Prometheus scrapes it too. One that is told
/// to stop and does not answer any more cannot.
fn endpoint_of(endpoint: &Endpoint) -> Option<(String, IpAddr)> {
    let conditions = endpoint.conditions;
    let serving = conditions.serving.or(conditions.ready).unwrap_or(true);
    if conditions.terminating == Some(true) && !serving {
        return None;
    }
    let address = endpoint.addresses.first()?;
    let pod = endpoint.target_ref.as_ref().filter(|target| target.kind == "Pod" && !target.name.is_empty());
    Some((pod.map_or(address, |pod| &pod.name).clone(), address.parse().ok()?))
}

impl PodEntry {
    /// `None` for a pod that has ended or has no address yet.
    fn new(pod: &Pod) -> Option<Self> {
        if matches!(pod.status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let address = pod.status.pod_ip.as_ref()?.parse().ok()?;
        let containers = pod.spec.containers.iter().flat_map(|container| &container.ports);
        let ports = containers.map(|port| (port.name.clone(), port.container_port)).collect();
        Some(Self { labels: pod.metadata.labels.clone(), address, ports })
    }
}

fn find_port(ports: &[(String, u16)], wanted: &Port) -> Option<u16> {
    match wanted {
        Port::Number(number) => Some(*number),
        Port::Name(name) => ports.iter().find(|(port, _)| port == name).map(|(_, number)| *number),
    }
}

#[cfg(test)]
mod tests;
