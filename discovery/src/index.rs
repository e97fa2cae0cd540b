//! A projection of the watches: what is kept of slices and pods, and the targets that follow from it.
//!
//! Events change the index; after each the targets of the queries concerned are worked out anew and swapped in. Objects are
//! never kept, only what a target is made of, and only of namespaces that somebody asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::lenient::Lenient;
use crate::object::{Endpoint, EndpointSlice, Metadata, Pod};
use crate::query::{Kind, Pods, Port, Query};
use crate::targets::{Snapshot, Target};

/// What is known of slices and pods, by namespace. A namespace is here as long as a query names it.
#[derive(Debug, Default)]
pub(crate) struct Index {
    namespaces: BTreeMap<String, Namespace>,
}

/// What is known of one namespace; of a kind of objects nothing until they were listed.
#[derive(Debug, Default)]
pub(crate) struct Namespace {
    components: Vec<Component>,
    slices: Option<Table<SliceEntry>>,
    pods: Option<Table<PodEntry>>,
}

#[derive(Debug)]
struct Component {
    query: Query,
    snapshot: Arc<Snapshot>,
    /// How often the query was asked and not yet forgotten.
    users: usize,
}

/// All objects of one kind in a namespace.
#[derive(Debug)]
pub(crate) struct Table<E> {
    /// The labels that were kept. A query that looks at others needs a new list.
    label_keys: BTreeSet<String>,
    /// By the object's name.
    entries: BTreeMap<String, E>,
}

/// The label that says which Service a slice is of.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A kind of objects that the index knows how to keep.
pub(crate) trait Object: Lenient + DeserializeOwned + Clone + Send + 'static {
    const KIND: Kind;
    /// What is kept of it.
    type Entry: PartialEq + Send;

    fn metadata(&self) -> &Metadata;
    /// `None` for one that cannot be scraped.
    fn entry(&self, label_keys: &BTreeSet<String>) -> Option<Self::Entry>;
    fn table(namespace: &mut Namespace) -> &mut Option<Table<Self::Entry>>;
}

impl Index {
    /// Adds a query; its snapshot follows the index until it is forgotten. Equal queries have one snapshot.
    pub(crate) fn watch(&mut self, query: &Query) -> Arc<Snapshot> {
        let namespace = self.namespaces.entry(query.namespace.clone()).or_default();
        if let Some(known) = namespace.components.iter_mut().find(|component| component.query == *query) {
            known.users += 1;
            return Arc::clone(&known.snapshot);
        }
        let snapshot = Arc::new(Snapshot::from_pointee(namespace.find(query)));
        namespace.components.push(Component { query: query.clone(), snapshot: Arc::clone(&snapshot), users: 1 });
        snapshot
    }

    /// Takes back one `watch`.
    pub(crate) fn forget(&mut self, query: &Query) {
        let Some(namespace) = self.namespaces.get_mut(&query.namespace) else { return };
        if let Some(component) = namespace.components.iter_mut().find(|component| component.query == *query) {
            component.users -= 1;
        }
        namespace.components.retain(|component| component.users > 0);
        if !namespace.asks(Kind::Slices) {
            namespace.slices = None;
        }
        if !namespace.asks(Kind::Pods) {
            namespace.pods = None;
        }
        if namespace.components.is_empty() {
            self.namespaces.remove(&query.namespace);
        }
    }

    /// The namespaces in which somebody asks for this kind.
    pub(crate) fn asked(&self, kind: Kind) -> impl Iterator<Item = &str> {
        self.namespaces.iter().filter(move |(_, namespace)| namespace.asks(kind)).map(|(name, _)| name.as_str())
    }

    /// An empty table for a new list of this namespace, with all that its queries look at; `None` if nobody asks for it.
    pub(crate) fn blank<K: Object>(&self, namespace: &str) -> Option<Table<K::Entry>> {
        let namespace = self.namespaces.get(namespace).filter(|namespace| namespace.asks(K::KIND))?;
        Some(Table { label_keys: namespace.label_keys().map(str::to_owned).collect(), entries: BTreeMap::new() })
    }

    /// Whether what the namespace's queries ask for is not, or not all, in the index.
    pub(crate) fn lacks(&self, kind: Kind, namespace: &str) -> bool {
        self.namespaces.get(namespace).is_some_and(|namespace| namespace.asks(kind) && !namespace.covers(kind))
    }

    /// These are all objects of the namespace: what a list says. The targets change once, not with each object.
    pub(crate) fn replace<K: Object>(&mut self, namespace: &str, table: Table<K::Entry>) {
        if let Some(namespace) = self.namespaces.get_mut(namespace).filter(|namespace| namespace.asks(K::KIND)) {
            *K::table(namespace) = Some(table);
            namespace.refresh(K::KIND);
        }
    }

    /// An object was added or changed.
    pub(crate) fn apply<K: Object>(&mut self, object: &K) {
        self.change(object, |table| table.insert(object));
    }

    /// An object was deleted.
    pub(crate) fn delete<K: Object>(&mut self, object: &K) {
        self.change(object, |table| table.entries.remove(&object.metadata().name).is_some());
    }

    /// Objects of a namespace that was not listed yet are left to its list.
    fn change<K: Object>(&mut self, object: &K, change: impl FnOnce(&mut Table<K::Entry>) -> bool) {
        let Some(namespace) = self.namespaces.get_mut(&object.metadata().namespace) else { return };
        if K::table(namespace).as_mut().is_some_and(change) {
            namespace.refresh(K::KIND);
        }
    }
}

impl<E: PartialEq> Table<E> {
    /// Whether anything that is kept has changed.
    pub(crate) fn insert<K: Object<Entry = E>>(&mut self, object: &K) -> bool {
        let name = &object.metadata().name;
        match object.entry(&self.label_keys) {
            Some(entry) if self.entries.get(name) == Some(&entry) => false,
            Some(entry) => {
                self.entries.insert(name.clone(), entry);
                true
            }
            None => self.entries.remove(name).is_some(),
        }
    }
}

impl Namespace {
    fn asks(&self, kind: Kind) -> bool {
        self.components.iter().any(|component| component.query.kind() == kind)
    }

    fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.components.iter().flat_map(|component| component.query.label_keys())
    }

    fn covers(&self, kind: Kind) -> bool {
        match kind {
            Kind::Slices => self.slices.is_some(),
            Kind::Pods => {
                self.pods.as_ref().is_some_and(|pods| self.label_keys().all(|key| pods.label_keys.contains(key)))
            }
        }
    }

    /// Works out the targets of the queries concerned; swaps them only where they changed.
    fn refresh(&self, kind: Kind) {
        for Component { query, snapshot, .. } in self.components.iter().filter(|one| one.query.kind() == kind) {
            let Some(found) = self.find(query) else { continue };
            if snapshot.load().as_deref() != Some(&found) {
                snapshot.store(Some(Arc::new(found)));
            }
        }
    }

    /// `None` as long as nobody can tell.
    fn find(&self, query: &Query) -> Option<Vec<Target>> {
        // By pod, so that one in two slices or two address families is one target. Of several addresses the smallest: IPv4
        // before IPv6, and the same one every time.
        let mut found: BTreeMap<&str, SocketAddr> = BTreeMap::new();
        let mut add = |pod, address: IpAddr, port| {
            let address = SocketAddr::new(address, port);
            found.entry(pod).and_modify(|known| *known = address.min(*known)).or_insert(address);
        };
        match &query.pods {
            Pods::OfService(service) => {
                let slices = self.slices.as_ref()?.entries.values();
                for slice in slices.filter(|slice| slice.service == *service) {
                    let Some(port) = find_port(&slice.ports, &query.port) else { continue };
                    for (pod, address) in &slice.endpoints {
                        add(pod, *address, port);
                    }
                }
            }
            Pods::Selected(selector) => {
                let pods = self.pods.as_ref()?;
                if !query.label_keys().all(|key| pods.label_keys.contains(key)) {
                    return None;
                }
                for (name, pod) in pods.entries.iter().filter(|(_, pod)| selector.matches(&pod.labels)) {
                    if let Some(port) = find_port(&pod.ports, &query.port) {
                        add(name, pod.address, port);
                    }
                }
            }
        }
        Some(found.into_iter().map(|(pod, address)| Target { pod: pod.into(), address }).collect())
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct SliceEntry {
    service: String,
    /// Pod and address.
    endpoints: Box<[(String, IpAddr)]>,
    ports: Box<[(String, u16)]>,
}

impl Object for EndpointSlice {
    const KIND: Kind = Kind::Slices;
    type Entry = SliceEntry;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// `None` for a slice of no Service.
    fn entry(&self, _: &BTreeSet<String>) -> Option<SliceEntry> {
        let service = self.metadata.labels.get(SERVICE_NAME)?.clone();
        let endpoints = self.endpoints.iter().filter_map(endpoint_of).collect();
        let ports = self.ports.iter().filter(|port| is_tcp(&port.protocol));
        let ports = ports.filter_map(|port| Some((port.name.clone(), port.port?))).collect();
        Some(SliceEntry { service, endpoints, ports })
    }

    fn table(namespace: &mut Namespace) -> &mut Option<Table<SliceEntry>> {
        &mut namespace.slices
    }
}

/// Pod and address of an endpoint that can be scraped. One that is not ready can: Prometheus scrapes it too. One that is told
/// to stop and does not answer any more cannot, nor one with a name instead of an address.
fn endpoint_of(endpoint: &Endpoint) -> Option<(String, IpAddr)> {
    let conditions = endpoint.conditions;
    let serving = conditions.serving.or(conditions.ready).unwrap_or(true);
    if conditions.terminating == Some(true) && !serving {
        return None;
    }
    let address = endpoint.addresses.first()?;
    let target = &endpoint.target_ref;
    let pod = if target.kind == "Pod" && !target.name.is_empty() { &target.name } else { address };
    Some((pod.clone(), address.parse().ok()?))
}

#[derive(Debug, PartialEq)]
pub(crate) struct PodEntry {
    /// Only those that a query looks at: all of them would be most of what an idle proxy holds.
    labels: Box<[(String, String)]>,
    address: IpAddr,
    ports: Box<[(String, u16)]>,
}

impl Object for Pod {
    const KIND: Kind = Kind::Pods;
    type Entry = PodEntry;

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// `None` for a pod that has ended or has no address yet.
    fn entry(&self, label_keys: &BTreeSet<String>) -> Option<PodEntry> {
        if matches!(self.status.phase.as_str(), "Succeeded" | "Failed") {
            return None;
        }
        let address = self.status.pod_ip.parse().ok()?;
        let labels = self.metadata.labels.iter().filter(|(key, _)| label_keys.contains(*key));
        let labels = labels.map(|(key, value)| (key.clone(), value.clone())).collect();
        let ports = self.spec.containers.iter().flat_map(|container| &container.ports);
        let ports = ports.filter(|port| is_tcp(&port.protocol));
        let ports = ports.filter_map(|port| Some((port.name.clone(), port.number?))).collect();
        Some(PodEntry { labels, address, ports })
    }

    fn table(namespace: &mut Namespace) -> &mut Option<Table<PodEntry>> {
        &mut namespace.pods
    }
}

fn is_tcp(protocol: &str) -> bool {
    matches!(protocol, "" | "TCP")
}

fn find_port(ports: &[(String, u16)], wanted: &Port) -> Option<u16> {
    match wanted {
        Port::Number(number) => Some(*number),
        Port::Name(name) => ports.iter().find(|(port, _)| port == name).map(|(_, number)| *number),
    }
}

#[cfg(test)]
mod tests;
