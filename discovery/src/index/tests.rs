use serde_json::{Value, json};

use super::*;
use crate::query::{Requirement, Selector};

const NAMESPACE: &str = "clusters-demo";

fn slice(name: &str, service: &str, ports: &Value, endpoints: &Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {SERVICE_NAME: service},
            "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:endpoints": {}}}],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }))
    .unwrap()
}

fn endpoint(pod: &str, address: &str) -> Value {
    json!({"addresses": [address], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": pod}})
}

fn metrics_port() -> Value {
    json!([{"name": "client", "port": 2379}, {"name": "metrics", "port": 9979, "protocol": "TCP"}])
}

fn etcd_of(port: Port) -> Query {
    Query { namespace: NAMESPACE.into(), pods: Pods::OfService("etcd-client".into()), port }
}

fn named(name: &str) -> Port {
    Port::Name(name.into())
}

fn shown(targets: &Targets) -> Vec<String> {
    targets.load().iter().map(|target| format!("{} {}", target.pod, target.address)).collect()
}

#[test]
fn a_service_s_slices_are_joined_and_sorted_by_pod() {
    let mut index = Index::default();
    let targets = index.watch(etcd_of(named("metrics")));
    assert!(shown(&targets).is_empty());
    index.apply_slice(&slice("b", "etcd-client", &metrics_port(), &json!([endpoint("etcd-2", "10.0.0.3")])));
    index.apply_slice(&slice(
        "a",
        "etcd-client",
        &metrics_port(),
        &json!([endpoint("etcd-1", "10.0.0.2"), endpoint("etcd-0", "10.0.0.1")]),
    ));
    index.apply_slice(&slice("c", "other", &metrics_port(), &json!([endpoint("x", "10.0.0.9")])));
    let all = ["etcd-0 10.0.0.1:9979", "etcd-1 10.0.0.2:9979", "etcd-2 10.0.0.3:9979"];
    assert_eq!(shown(&targets), all);
    // The controller moves an endpoint from one slice to another: for a moment it is in both.
    index.apply_slice(&slice(
        "b",
        "etcd-client",
        &metrics_port(),
        &json!([endpoint("etcd-2", "10.0.0.3"), endpoint("etcd-1", "10.0.0.2")]),
    ));
    assert_eq!(shown(&targets), all);
    index.delete_slice(&slice("a", "etcd-client", &json!([]), &json!(null)));
    assert_eq!(shown(&targets), all[1..]);
    index.reset_slices([]);
    assert!(shown(&targets).is_empty());
}

#[test]
fn ports_go_by_name_by_no_name_and_by_number() {
    let mut index = Index::default();
    let by = [named("metrics"), named(""), Port::Number(1234), named("absent")];
    let targets = by.map(|port| index.watch(etcd_of(port)));
    let ports =
        json!([{"port": 6443}, {"name": "metrics", "port": 9979}, {"name": "metrics", "port": 53, "protocol": "UDP"}]);
    index.apply_slice(&slice("a", "etcd-client", &ports, &json!([endpoint("p", "10.0.0.1")])));
    assert_eq!(
        targets.each_ref().map(shown),
        [vec!["p 10.0.0.1:9979"], vec!["p 10.0.0.1:6443"], vec!["p 10.0.0.1:1234"], vec![]]
    );
    // Another slice of the same Service may give the name another number.
    let other = json!([{"name": "metrics", "port": 9980}]);
    index.apply_slice(&slice("b", "etcd-client", &other, &json!([endpoint("q", "10.0.0.2")])));
    assert_eq!(shown(&targets[0]), ["p 10.0.0.1:9979", "q 10.0.0.2:9980"]);
}

#[test]
fn not_ready_is_scraped_and_gone_is_not() {
    let mut index = Index::default();
    let targets = index.watch(etcd_of(named("metrics")));
    let with = |pod: &str, address: &str, conditions: Value| json!({"addresses": [address], "conditions": conditions, "targetRef": {"kind": "Pod", "name": pod}});
    let endpoints = json!([
        with("no-conditions", "10.0.0.1", json!({})),
        with("null-ready", "10.0.0.2", json!({"ready": null, "serving": null, "terminating": null})),
        with("not-ready", "10.0.0.3", json!({"ready": false})),
        with("leaving-but-serving", "10.0.0.4", json!({"ready": false, "serving": true, "terminating": true})),
        with("leaving", "10.0.0.5", json!({"ready": false, "serving": false, "terminating": true})),
        with("nonsense", "not-an-address", json!({"ready": true})),
        {"addresses": ["10.0.0.7"]},
        {"addresses": ["10.0.0.8"], "targetRef": {"kind": "VirtualMachine", "name": "vm"}},
        {"addresses": []},
    ]);
    index.apply_slice(&slice("a", "etcd-client", &metrics_port(), &endpoints));
    let pods: Vec<_> = targets.load().iter().map(|target| target.pod.clone()).collect();
    assert_eq!(pods, ["10.0.0.7", "10.0.0.8", "leaving-but-serving", "no-conditions", "not-ready", "null-ready"]);
}

#[test]
fn a_pod_with_two_address_families_is_one_target() {
    let mut index = Index::default();
    let targets = index.watch(etcd_of(named("metrics")));
    let six = slice(
        "a-v6",
        "etcd-client",
        &metrics_port(),
        &json!([endpoint("etcd-0", "fd00::1"), endpoint("etcd-1", "fd00::2")]),
    );
    index.apply_slice(&six);
    assert_eq!(shown(&targets), ["etcd-0 [fd00::1]:9979", "etcd-1 [fd00::2]:9979"]);
    index.apply_slice(&slice("b-v4", "etcd-client", &metrics_port(), &json!([endpoint("etcd-0", "10.0.0.1")])));
    assert_eq!(shown(&targets), ["etcd-0 10.0.0.1:9979", "etcd-1 [fd00::2]:9979"]);
}

#[test]
fn a_slice_that_changes_its_service_leaves_the_old_one() {
    let mut index = Index::default();
    let targets = index.watch(etcd_of(named("metrics")));
    let endpoints = json!([endpoint("etcd-0", "10.0.0.1")]);
    index.apply_slice(&slice("a", "etcd-client", &metrics_port(), &endpoints));
    assert_eq!(targets.load().len(), 1);
    index.apply_slice(&slice("a", "another", &metrics_port(), &endpoints));
    assert!(shown(&targets).is_empty());
}

fn pod(name: &str, labels: &Value, status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "initContainers": [{"ports": [{"name": "metrics", "containerPort": 1}]}],
            "containers": [{}, {"ports": [{"name": "metrics", "containerPort": 8085}]}],
        },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn pods_are_selected_by_labels_while_they_live() {
    let mut index = Index::default();
    let selector = Selector::new([
        Requirement::In("app".into(), vec!["autoscaler".into(), "ingress".into()]),
        Requirement::NotIn("tier".into(), vec!["test".into()]),
        Requirement::Exists("app".into()),
        Requirement::DoesNotExist("canary".into()),
    ]);
    let targets =
        index.watch(Query { namespace: NAMESPACE.into(), pods: Pods::Selected(selector), port: named("metrics") });
    let running = json!({"phase": "Running", "podIP": "10.0.0.1"});
    index.apply_pod(&pod("good", &json!({"app": "autoscaler"}), &running));
    index.apply_pod(&pod("canary", &json!({"app": "ingress", "canary": ""}), &running));
    index.apply_pod(&pod("test", &json!({"app": "ingress", "tier": "test"}), &running));
    index.apply_pod(&pod("pending", &json!({"app": "ingress"}), &json!({"phase": "Pending"})));
    index.apply_pod(&pod("done", &json!({"app": "ingress"}), &json!({"phase": "Succeeded", "podIP": "10.0.0.4"})));
    assert_eq!(shown(&targets), ["good 10.0.0.1:8085"]);
    index.apply_pod(&pod("pending", &json!({"app": "ingress"}), &json!({"phase": "Running", "podIP": "10.0.0.5"})));
    assert_eq!(shown(&targets), ["good 10.0.0.1:8085", "pending 10.0.0.5:8085"]);
    index.apply_pod(&pod("good", &json!({"app": "autoscaler"}), &json!({"phase": "Failed", "podIP": "10.0.0.1"})));
    index.delete_pod(&pod("pending", &json!({}), &json!({})));
    assert!(shown(&targets).is_empty());
    index.reset_pods([&pod("good", &json!({"app": "autoscaler"}), &running)]);
    assert_eq!(targets.load().len(), 1);
}

#[test]
fn targets_that_do_not_change_are_not_replaced() {
    let mut index = Index::default();
    let targets = index.watch(etcd_of(named("metrics")));
    let endpoints = json!([endpoint("etcd-0", "10.0.0.1")]);
    index.apply_slice(&slice("a", "etcd-client", &metrics_port(), &endpoints));
    let before = targets.load();
    index.apply_slice(&slice("a", "etcd-client", &metrics_port(), &endpoints));
    assert!(Arc::ptr_eq(&before, &targets.load()));
}
