//! Which resources the server knows.

use std::sync::Arc;

use serde_json::{Value, json};

/// A kind of object and where it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "four independent answers about a resource, not a state")]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    /// The version served. Versions of one kind are stored apart: nothing is converted.
    pub version: String,
    /// The name in paths.
    pub plural: String,
    /// The name in objects.
    pub kind: String,
    /// Whether objects are in namespaces.
    pub namespaced: bool,
    /// Whether there is a status subresource; if so, writes to the object itself leave the status alone.
    pub status: bool,
    /// Whether `metadata.generation` counts the changes of what is neither metadata nor status.
    pub generation: bool,
    /// Defined by a `CustomResourceDefinition`: items of lists carry their kind, and an update must say which resource version
    /// it is of.
    pub custom: bool,
}

impl Resource {
    /// As in `apiVersion`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As messages name it: `endpointslices.discovery.k8s.io`.
    pub(super) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The object of a bookmark. Kinds that are Go structs show their fields without `omitempty`, nulls included.
    pub(super) fn bookmark(&self) -> Value {
        let mut object = match self.kind.as_str() {
            "EndpointSlice" => json!({"addressType": "", "endpoints": null, "ports": null}),
            "Pod" => json!({"spec": {"containers": null}, "status": {}}),
            "Service" => json!({"spec": {}, "status": {"loadBalancer": {}}}),
            _ => json!({}),
        };
        object["kind"] = json!(self.kind);
        object["apiVersion"] = json!(self.api_version());
        object
    }
}

/// The resources known, built in and registered.
#[derive(Debug)]
pub(super) struct Registry(Vec<Arc<Resource>>);

impl Registry {
    pub(super) fn register(&mut self, resource: Resource) {
        let same = |known: &Arc<Resource>| {
            (&known.group, &known.version, &known.plural) == (&resource.group, &resource.version, &resource.plural)
        };
        self.0.retain(|known| !same(known));
        self.0.push(Arc::new(resource));
    }

    pub(super) fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.0.iter().find(|r| r.group == group && r.version == version && r.plural == plural).cloned()
    }

    pub(super) fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.0.iter().find(|r| r.kind == kind && r.api_version() == api_version).cloned()
    }

    pub(super) fn all(&self) -> &[Arc<Resource>] {
        &self.0
    }
}

impl Default for Registry {
    fn default() -> Self {
        let resource = |&(api_version, plural, kind, traits): &(&str, &str, &str, Traits)| {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            Arc::new(Resource {
                group: group.into(),
                version: version.into(),
                plural: plural.into(),
                kind: kind.into(),
                namespaced: !traits.contains(&"cluster"),
                status: traits.contains(&"status"),
                generation: traits.contains(&"generation"),
                custom: traits.contains(&"custom"),
            })
        };
        Self(BUILT_IN.iter().map(resource).collect())
    }
}

type Traits = &'static [&'static str];

const PLAIN: Traits = &[];
const CLUSTER: Traits = &["cluster"];
const STATUS: Traits = &["status"];
const COUNTED: Traits = &["generation"];
const COUNTED_STATUS: Traits = &["generation", "status"];
const CUSTOM: Traits = &["custom", "generation", "status"];

const BUILT_IN: &[(&str, &str, &str, Traits)] = &[
    ("v1", "configmaps", "ConfigMap", PLAIN),
    ("v1", "endpoints", "Endpoints", PLAIN),
    ("v1", "events", "Event", PLAIN),
    ("v1", "namespaces", "Namespace", &["cluster", "status"]),
    ("v1", "nodes", "Node", &["cluster", "status"]),
    ("v1", "pods", "Pod", COUNTED_STATUS),
    ("v1", "secrets", "Secret", PLAIN),
    ("v1", "serviceaccounts", "ServiceAccount", PLAIN),
    ("v1", "services", "Service", STATUS),
    ("apps/v1", "deployments", "Deployment", COUNTED_STATUS),
    ("apps/v1", "statefulsets", "StatefulSet", COUNTED_STATUS),
    ("coordination.k8s.io/v1", "leases", "Lease", PLAIN),
    ("discovery.k8s.io/v1", "endpointslices", "EndpointSlice", COUNTED),
    ("events.k8s.io/v1", "events", "Event", PLAIN),
    ("hypershift.openshift.io/v1beta1", "hostedclusters", "HostedCluster", CUSTOM),
    ("hypershift.openshift.io/v1beta1", "hostedcontrolplanes", "HostedControlPlane", CUSTOM),
    ("monitoring.coreos.com/v1", "podmonitors", "PodMonitor", CUSTOM),
    ("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor", CUSTOM),
    ("monitoring.rhobs/v1", "podmonitors", "PodMonitor", CUSTOM),
    ("monitoring.rhobs/v1", "servicemonitors", "ServiceMonitor", CUSTOM),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", COUNTED),
    ("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", COUNTED_STATUS),
    ("rbac.authorization.k8s.io/v1", "clusterrolebindings", "ClusterRoleBinding", CLUSTER),
    ("rbac.authorization.k8s.io/v1", "clusterroles", "ClusterRole", CLUSTER),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding", PLAIN),
    ("rbac.authorization.k8s.io/v1", "roles", "Role", PLAIN),
    ("route.openshift.io/v1", "routes", "Route", STATUS),
];
