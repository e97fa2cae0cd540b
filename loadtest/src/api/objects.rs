//! Objects that tests need often, with all that real ones carry.

use serde_json::{Value, json};

/// A slice of a Service's endpoints, all ready, as the EndpointSlice controller writes it. `endpoints` are the pods' names and
/// addresses; the family is that of the first.
pub fn endpoint_slice(
    namespace: &str,
    name: &str,
    service: &str,
    port_name: Option<&str>,
    port: u16,
    endpoints: &[(&str, &str)],
) -> Value {
    let family = if endpoints.first().is_some_and(|(_, ip)| ip.contains(':')) { "IPv6" } else { "IPv4" };
    let endpoint = |(pod, ip): &(&str, &str)| {
        json!({
            "addresses": [ip],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "node-1",
            "targetRef": {"kind": "Pod", "name": pod, "namespace": namespace, "uid": format!("uid-of-{pod}")},
            "zone": "zone-a",
        })
    };
    let endpoints: Vec<Value> = endpoints.iter().map(endpoint).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generateName": format!("{service}-"),
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "kubernetes.io/service-name": service,
            },
            "ownerReferences": [{"apiVersion": "v1", "blockOwnerDeletion": true, "controller": true, "kind": "Service",
                "name": service, "uid": format!("uid-of-{service}")}],
            "managedFields": [{
                "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "discovery.k8s.io/v1",
                "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:addressType": {},
                    "f:endpoints": {},
                    "f:metadata": {
                        "f:annotations": {"f:endpoints.kubernetes.io/last-change-trigger-time": {}},
                        "f:labels": {
                            "f:endpointslice.kubernetes.io/managed-by": {},
                            "f:kubernetes.io/service-name": {},
                        },
                        "f:ownerReferences": {".": {}, format!("k:{{\"uid\":\"uid-of-{service}\"}}"): {}},
                    },
                    "f:ports": {},
                },
            }],
        },
        "addressType": family,
        "endpoints": endpoints,
        // The controller writes an unnamed port's name as an empty string.
        "ports": [{"name": port_name.unwrap_or(""), "port": port, "protocol": "TCP"}],
    })
}

/// A pod that runs and is ready, in one container with these ports, as kubelet and `ReplicaSet` controller write it.
pub fn pod(namespace: &str, name: &str, labels: &[(&str, &str)], ip: &str, ports: &[(&str, u16)]) -> Value {
    let labels: Value = labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let owned: Value =
        labels.as_object().into_iter().flatten().map(|(key, _)| (format!("f:{key}"), json!({}))).collect();
    let port = |(name, number): &(&str, u16)| json!({"name": name, "containerPort": number, "protocol": "TCP"});
    let ports: Vec<Value> = ports.iter().map(port).collect();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "managedFields": [
                {
                    "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": owned},
                        "f:spec": {
                            "f:containers": {"k:{\"name\":\"main\"}":
                                {".": {}, "f:image": {}, "f:name": {}, "f:ports": {}, "f:resources": {}}},
                            "f:dnsPolicy": {}, "f:nodeName": {}, "f:restartPolicy": {}, "f:serviceAccountName": {},
                        },
                    },
                },
                {
                    "manager": "kubelet", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1", "subresource": "status",
                    "fieldsV1": {"f:status": {
                        "f:conditions": {
                            "k:{\"type\":\"ContainersReady\"}":
                                {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}},
                            "k:{\"type\":\"Ready\"}":
                                {".": {}, "f:lastTransitionTime": {}, "f:status": {}, "f:type": {}},
                        },
                        "f:hostIP": {}, "f:phase": {}, "f:podIP": {}, "f:podIPs": {}, "f:startTime": {},
                    }},
                },
            ],
        },
        "spec": {
            "containers": [{"name": "main", "image": "registry.example/main:1", "ports": ports, "resources": {}}],
            "dnsPolicy": "ClusterFirst",
            "nodeName": "node-1",
            "restartPolicy": "Always",
            "serviceAccountName": "default",
        },
        "status": {
            "conditions": [condition("Ready"), condition("ContainersReady")],
            "hostIP": "127.0.0.1",
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "startTime": "2026-01-01T00:00:00Z",
        },
    })
}
