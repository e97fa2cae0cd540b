//! EndpointSlices and Pods as far as we need them. What else an object carries, `managedFields` above all, is skipped while it is
//! read and never takes memory.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An object's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// `discovery.k8s.io/v1` `EndpointSlice`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Name, namespace and the label that says which Service it is of.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// The Service's backends, or some of them.
    #[serde(deserialize_with = "null_as_default")]
    pub endpoints: Vec<Endpoint>,
    /// The ports they all have.
    #[serde(deserialize_with = "null_as_default")]
    pub ports: Vec<EndpointPort>,
}

/// A backend of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// All of one endpoint; the first is the one to use.
    pub addresses: Vec<String>,
    /// What it is doing.
    pub conditions: Conditions,
    /// The pod behind it, if there is one.
    pub target_ref: Option<TargetRef>,
}

/// What an endpoint is doing; what is not said is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Gets traffic; unknown means yes.
    pub ready: Option<bool>,
    /// Would answer; unknown means as `ready`.
    pub serving: Option<bool>,
    /// Has been told to stop.
    pub terminating: Option<bool>,
}

/// A reference to another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TargetRef {
    /// `Pod` for what we look for.
    pub kind: String,
    /// The pod's name.
    pub name: String,
}

/// A port of a slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// No name at all and an empty one are the same.
    pub name: Option<String>,
    /// The port of the pods.
    pub port: Option<u16>,
    /// `TCP` when it is not said.
    pub protocol: Option<String>,
}

/// `v1` `Pod`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Name, namespace and the labels selectors look at.
    pub metadata: Metadata,
    /// Its containers' ports.
    pub spec: PodSpec,
    /// Its address and whether it lives.
    pub status: PodStatus,
}

/// The part of a pod's specification that names ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodSpec {
    /// Init containers have ended when there is something to scrape.
    pub containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// What it says it listens on.
    pub ports: Vec<ContainerPort>,
}

/// A container's port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// How a `PodMonitor` calls it.
    pub name: String,
    /// Its number.
    pub container_port: u16,
}

/// A pod's state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// The address in the cluster's first address family.
    #[serde(rename = "podIP")]
    pub pod_ip: Option<String>,
}

/// Go writes an empty list as `null`.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
