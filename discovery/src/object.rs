//! EndpointSlices and Pods as far as we need them. What else an object carries, `managedFields` above all, is skipped while it is
//! read and never takes memory. A field that is not what it should be counts as not given.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::lenient::{lenient, lenient_structs};

/// An object's identity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    #[serde(deserialize_with = "lenient")]
    pub(crate) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) namespace: String,
    /// Where a watch goes on after this object.
    #[serde(deserialize_with = "lenient")]
    pub(crate) resource_version: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) labels: BTreeMap<String, String>,
}

/// `discovery.k8s.io/v1` `EndpointSlice`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointSlice {
    /// With the label that says which Service it is of.
    #[serde(deserialize_with = "lenient")]
    pub(crate) metadata: Metadata,
    /// The Service's backends, or some of them.
    #[serde(deserialize_with = "lenient")]
    pub(crate) endpoints: Vec<Endpoint>,
    /// The ports they all have.
    #[serde(deserialize_with = "lenient")]
    pub(crate) ports: Vec<EndpointPort>,
}

/// A backend of a Service.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    /// All of one endpoint; the first is the one to use.
    #[serde(deserialize_with = "lenient")]
    pub(crate) addresses: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub(crate) conditions: Conditions,
    /// The pod behind it, if there is one.
    #[serde(deserialize_with = "lenient")]
    pub(crate) target_ref: TargetRef,
}

/// What an endpoint is doing; what is not said is unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    /// Gets traffic; unknown means yes.
    #[serde(deserialize_with = "lenient")]
    pub(crate) ready: Option<bool>,
    /// Would answer; unknown means as `ready`.
    #[serde(deserialize_with = "lenient")]
    pub(crate) serving: Option<bool>,
    /// Has been told to stop.
    #[serde(deserialize_with = "lenient")]
    pub(crate) terminating: Option<bool>,
}

/// A reference to another object; of an empty kind where there is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    #[serde(deserialize_with = "lenient")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(crate) name: String,
}

/// A port of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EndpointPort {
    /// No name at all and an empty one are the same.
    #[serde(deserialize_with = "lenient")]
    pub(crate) name: String,
    /// The port of the pods.
    #[serde(deserialize_with = "lenient")]
    pub(crate) port: Option<u16>,
    /// `TCP` when it is not said.
    #[serde(deserialize_with = "lenient")]
    pub(crate) protocol: String,
}

/// `v1` `Pod`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    /// With the labels that selectors look at.
    #[serde(deserialize_with = "lenient")]
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "lenient")]
    pub(crate) spec: PodSpec,
    #[serde(deserialize_with = "lenient")]
    pub(crate) status: PodStatus,
}

/// The part of a pod's specification that names ports.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodSpec {
    /// Init containers have ended when there is something to scrape.
    #[serde(deserialize_with = "lenient")]
    pub(crate) containers: Vec<Container>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    /// What it says it listens on.
    #[serde(deserialize_with = "lenient")]
    pub(crate) ports: Vec<ContainerPort>,
}

/// A container's port.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerPort {
    /// How a `PodMonitor` calls it.
    #[serde(deserialize_with = "lenient")]
    pub(crate) name: String,
    #[serde(rename = "containerPort", deserialize_with = "lenient")]
    pub(crate) number: Option<u16>,
    /// `TCP` when it is not said.
    #[serde(deserialize_with = "lenient")]
    pub(crate) protocol: String,
}

/// A pod's state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(deserialize_with = "lenient")]
    pub(crate) phase: String,
    /// The address in the cluster's first address family; empty before there is one.
    #[serde(rename = "podIP", deserialize_with = "lenient")]
    pub(crate) pod_ip: String,
}

lenient_structs!(
    Metadata,
    EndpointSlice,
    Endpoint,
    Conditions,
    TargetRef,
    EndpointPort,
    Pod,
    PodSpec,
    Container,
    ContainerPort,
    PodStatus,
);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_null_or_of_another_type_counts_as_not_given() {
        let odd = [
            json!({"metadata": null, "endpoints": null, "ports": null}),
            json!({"metadata": "x", "endpoints": "x", "ports": {"a": [1, {"b": null}]}}),
            json!({"metadata": {"name": 1, "namespace": null, "labels": ["x"]}, "endpoints": [null, 1, "x", [[]]], "ports": [true]}),
            json!({"metadata": {"labels": null}, "endpoints": [{"addresses": null, "conditions": null, "targetRef": null}]}),
        ];
        for slice in odd {
            let slice = serde_json::from_value::<EndpointSlice>(slice).unwrap();
            assert_eq!(slice.metadata.name, "");
            assert!(slice.metadata.labels.is_empty());
            assert!(slice.endpoints.iter().all(|endpoint| endpoint.addresses.is_empty()));
            assert!(slice.ports.iter().all(|port| port.port.is_none()));
        }
        let pod = json!({"spec": {"containers": [{"ports": null}, null, {}]}, "status": null});
        let pod = serde_json::from_value::<Pod>(pod).unwrap();
        assert_eq!((pod.spec.containers.len(), pod.status.pod_ip.as_str()), (3, ""));
    }

    #[test]
    fn one_bad_field_leaves_the_others() {
        let slice = json!({
            "metadata": {"name": "a", "labels": {"good": "1", "bad": 2}},
            "endpoints": [{"addresses": ["10.0.0.1", 7], "conditions": {"ready": "yes", "serving": true}}],
            "ports": [{"name": "a", "port": 99999}, {"name": "b", "port": -1}, {"name": null, "port": 80.5}, {"name": "d", "port": 80}],
        });
        let slice = serde_json::from_value::<EndpointSlice>(slice).unwrap();
        assert_eq!(slice.metadata.name, "a");
        assert_eq!(slice.metadata.labels["good"], "1");
        assert_eq!(slice.endpoints[0].addresses[0], "10.0.0.1");
        let conditions = slice.endpoints[0].conditions;
        assert_eq!((conditions.ready, conditions.serving), (None, Some(true)));
        let ports: Vec<_> = slice.ports.iter().map(|port| port.port).collect();
        assert_eq!(ports, [None, None, None, Some(80)]);
    }
}
