use serde_json::{Value, json};

use super::*;
use crate::query::{Requirement, Selector};

const NAMESPACE: &str = "clusters-demo";

fn slice_in(namespace: &str, name: &str, service: &str, ports: &Value, endpoints: &Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {SERVICE_NAME: service},
            "managedFields": [{"manager": "kube-controller-manager", "fieldsV1": {"f:endpoints": {}}}],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }))
    .unwrap()
}

fn slice(name: &str, service: &str, ports: &Value, endpoints: &Value) -> EndpointSlice {
    slice_in(NAMESPACE, name, service, ports, endpoints)
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

fn selected(requirements: impl IntoIterator<Item = Requirement>, port: Port) -> Query {
    Query { namespace: NAMESPACE.into(), pods: Pods::Selected(Selector::new(requirements)), port }
}

fn has_app(app: &str) -> Requirement {
    Requirement::In("app".into(), vec![app.into()])
}

fn named(name: &str) -> Port {
    Port::Name(name.into())
}

/// What a list does.
fn reset<'a, K: Object>(index: &mut Index, objects: impl IntoIterator<Item = &'a K>) {
    let mut table = index.blank::<K>(NAMESPACE).unwrap();
    for object in objects {
        table.insert(object);
    }
    index.replace::<K>(NAMESPACE, table);
}

/// An index that knows that there is nothing yet.
fn listed<const N: usize>(queries: [Query; N]) -> (Index, [Arc<Snapshot>; N]) {
    let mut index = Index::default();
    let snapshots = queries.map(|query| index.watch(&query));
    if index.asked(Kind::Slices).next().is_some() {
        reset::<EndpointSlice>(&mut index, []);
    }
    if index.asked(Kind::Pods).next().is_some() {
        reset::<Pod>(&mut index, []);
    }
    (index, snapshots)
}

fn shown(snapshot: &Arc<Snapshot>) -> Vec<String> {
    let targets = snapshot.load_full().unwrap();
    targets.iter().map(|target| format!("{} {}", target.pod, target.address)).collect()
}

#[test]
fn nothing_is_known_before_the_list_and_then_all_at_once() {
    let mut index = Index::default();
    let snapshot = index.watch(&etcd_of(named("metrics")));
    assert!(index.lacks(Kind::Slices, NAMESPACE));
    // A watch across namespaces may tell of this one before it is listed; half of the truth is not told on.
    index.apply(&slice("b", "etcd-client", &metrics_port(), &json!([endpoint("etcd-2", "10.0.0.3")])));
    assert!(snapshot.load().is_none());
    let first = slice("a", "etcd-client", &metrics_port(), &json!([endpoint("etcd-0", "10.0.0.1")]));
    let second = slice("b", "etcd-client", &metrics_port(), &json!([endpoint("etcd-2", "10.0.0.3")]));
    reset(&mut index, [&first, &second]);
    assert_eq!(shown(&snapshot), ["etcd-0 10.0.0.1:9979", "etcd-2 10.0.0.3:9979"]);
    assert!(!index.lacks(Kind::Slices, NAMESPACE));
}

#[test]
fn a_service_s_slices_are_joined_and_sorted_by_pod() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
    assert!(shown(&snapshot).is_empty());
    index.apply(&slice("b", "etcd-client", &metrics_port(), &json!([endpoint("etcd-2", "10.0.0.3")])));
    index.apply(&slice(
        "a",
        "etcd-client",
        &metrics_port(),
        &json!([endpoint("etcd-1", "10.0.0.2"), endpoint("etcd-0", "10.0.0.1")]),
    ));
    index.apply(&slice("c", "other", &metrics_port(), &json!([endpoint("x", "10.0.0.9")])));
    let all = ["etcd-0 10.0.0.1:9979", "etcd-1 10.0.0.2:9979", "etcd-2 10.0.0.3:9979"];
    assert_eq!(shown(&snapshot), all);
    // The controller moves an endpoint from one slice to another: for a moment it is in both.
    index.apply(&slice(
        "b",
        "etcd-client",
        &metrics_port(),
        &json!([endpoint("etcd-2", "10.0.0.3"), endpoint("etcd-1", "10.0.0.2")]),
    ));
    assert_eq!(shown(&snapshot), all);
    index.delete(&slice("a", "etcd-client", &json!([]), &json!(null)));
    assert_eq!(shown(&snapshot), all[1..]);
    reset::<EndpointSlice>(&mut index, []);
    assert!(shown(&snapshot).is_empty());
}

#[test]
fn slices_are_split_and_joined_again_without_losing_a_pod() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
    let address = |pod: usize| format!("10.0.{}.{}", pod / 200, pod % 200 + 1);
    let of = |pods: std::ops::Range<usize>| -> Value {
        pods.map(|pod| endpoint(&format!("etcd-{pod:03}"), &address(pod))).collect()
    };
    let all: Vec<_> = (0..300).map(|pod| format!("etcd-{pod:03} {}:9979", address(pod))).collect();
    let apply = |index: &mut Index, name: &str, pods| {
        index.apply(&slice(name, "etcd-client", &metrics_port(), &of(pods)));
    };
    apply(&mut index, "one", 0..300);
    assert_eq!(shown(&snapshot), all);
    // As the controller does it: the new slice first, then the old one shrinks.
    apply(&mut index, "two", 100..300);
    assert_eq!(shown(&snapshot), all);
    apply(&mut index, "one", 0..100);
    assert_eq!(shown(&snapshot), all);
    apply(&mut index, "three", 0..200);
    apply(&mut index, "two", 200..300);
    index.delete(&slice("one", "etcd-client", &json!([]), &json!([])));
    assert_eq!(shown(&snapshot), all);
}

#[test]
fn ports_go_by_name_by_no_name_and_by_number() {
    let by = [named("metrics"), named(""), Port::Number(1234), named("absent")];
    let (mut index, snapshots) = listed(by.map(etcd_of));
    let ports = json!([
        {"name": "metrics", "port": 99999},
        {"name": null, "port": 6443},
        {"name": "metrics", "port": 53, "protocol": "UDP"},
        {"name": "metrics", "port": null},
        {"name": "metrics", "port": 9979},
    ]);
    index.apply(&slice("a", "etcd-client", &ports, &json!([endpoint("p", "10.0.0.1")])));
    assert_eq!(
        snapshots.each_ref().map(shown),
        [vec!["p 10.0.0.1:9979"], vec!["p 10.0.0.1:6443"], vec!["p 10.0.0.1:1234"], vec![]]
    );
    // Another slice of the same Service may give the name another number.
    let other = json!([{"name": "metrics", "port": 9980}]);
    index.apply(&slice("b", "etcd-client", &other, &json!([endpoint("q", "10.0.0.2")])));
    assert_eq!(shown(&snapshots[0]), ["p 10.0.0.1:9979", "q 10.0.0.2:9980"]);
}

#[test]
fn not_ready_is_scraped_and_gone_is_not() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
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
        {"addresses": null},
    ]);
    index.apply(&slice("a", "etcd-client", &metrics_port(), &endpoints));
    let pods: Vec<_> = snapshot.load_full().unwrap().iter().map(|target| target.pod.clone()).collect();
    assert_eq!(pods, ["10.0.0.7", "10.0.0.8", "leaving-but-serving", "no-conditions", "not-ready", "null-ready"]);
}

#[test]
fn a_pod_with_two_address_families_is_one_target() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
    let six = slice(
        "a-v6",
        "etcd-client",
        &metrics_port(),
        &json!([endpoint("etcd-0", "fd00::1"), endpoint("etcd-1", "fd00::2")]),
    );
    index.apply(&six);
    assert_eq!(shown(&snapshot), ["etcd-0 [fd00::1]:9979", "etcd-1 [fd00::2]:9979"]);
    index.apply(&slice("b-v4", "etcd-client", &metrics_port(), &json!([endpoint("etcd-0", "10.0.0.1")])));
    assert_eq!(shown(&snapshot), ["etcd-0 10.0.0.1:9979", "etcd-1 [fd00::2]:9979"]);
}

#[test]
fn a_slice_that_changes_its_service_leaves_the_old_one() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
    let endpoints = json!([endpoint("etcd-0", "10.0.0.1")]);
    index.apply(&slice("a", "etcd-client", &metrics_port(), &endpoints));
    assert_eq!(shown(&snapshot).len(), 1);
    index.apply(&slice("a", "another", &metrics_port(), &endpoints));
    assert!(shown(&snapshot).is_empty());
}

#[test]
fn a_namespace_sees_only_its_own() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
    let endpoints = json!([endpoint("etcd-0", "10.0.0.1")]);
    index.apply(&slice_in("clusters-other", "a", "etcd-client", &metrics_port(), &endpoints));
    assert!(shown(&snapshot).is_empty());
    assert!(!index.lacks(Kind::Slices, "clusters-other"), "nobody asks for it");
    assert_eq!(index.namespaces.len(), 1, "nothing is kept of it");
}

fn pod(name: &str, labels: &Value, status: &Value) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "initContainers": [{"ports": [{"name": "metrics", "containerPort": 1}]}],
            "containers": [{}, {"ports": null}, {"ports": [
                {"name": "metrics", "containerPort": 53, "protocol": "UDP"},
                {"name": "metrics", "containerPort": 8085, "protocol": "TCP"},
            ]}],
        },
        "status": status,
    }))
    .unwrap()
}

#[test]
fn pods_are_selected_by_labels_while_they_live() {
    let requirements = [
        Requirement::In("app".into(), vec!["autoscaler".into(), "ingress".into()]),
        Requirement::NotIn("tier".into(), vec!["test".into()]),
        Requirement::Exists("app".into()),
        Requirement::DoesNotExist("canary".into()),
    ];
    let (mut index, [snapshot]) = listed([selected(requirements, named("metrics"))]);
    let running = json!({"phase": "Running", "podIP": "10.0.0.1"});
    index.apply(&pod("good", &json!({"app": "autoscaler", "extra": "x"}), &running));
    index.apply(&pod("canary", &json!({"app": "ingress", "canary": ""}), &running));
    index.apply(&pod("test", &json!({"app": "ingress", "tier": "test"}), &running));
    index.apply(&pod("no-labels", &json!(null), &running));
    index.apply(&pod("pending", &json!({"app": "ingress"}), &json!({"phase": "Pending"})));
    index.apply(&pod("done", &json!({"app": "ingress"}), &json!({"phase": "Succeeded", "podIP": "10.0.0.4"})));
    assert_eq!(shown(&snapshot), ["good 10.0.0.1:8085"]);
    index.apply(&pod("pending", &json!({"app": "ingress"}), &json!({"phase": "Running", "podIP": "fd00::5"})));
    assert_eq!(shown(&snapshot), ["good 10.0.0.1:8085", "pending [fd00::5]:8085"]);
    index.apply(&pod("good", &json!({"app": "autoscaler"}), &json!({"phase": "Failed", "podIP": "10.0.0.1"})));
    index.delete(&pod("pending", &json!({}), &json!({})));
    assert!(shown(&snapshot).is_empty());
    reset(&mut index, [&pod("good", &json!({"app": "autoscaler"}), &running)]);
    assert_eq!(shown(&snapshot).len(), 1);
}

#[test]
fn container_ports_may_differ_between_pods_and_a_number_need_not_be_listed() {
    let queries = [selected([has_app("a")], named("metrics")), selected([has_app("a")], Port::Number(7))];
    let (mut index, [by_name, by_number]) = listed(queries);
    let mut other = pod("other", &json!({"app": "a"}), &json!({"phase": "Running", "podIP": "10.0.0.2"}));
    other.spec.containers[2].ports[1].number = Some(9090);
    index.apply(&pod("one", &json!({"app": "a"}), &json!({"phase": "Running", "podIP": "10.0.0.1"})));
    index.apply(&other);
    assert_eq!(shown(&by_name), ["one 10.0.0.1:8085", "other 10.0.0.2:9090"]);
    assert_eq!(shown(&by_number), ["one 10.0.0.1:7", "other 10.0.0.2:7"]);
}

#[test]
fn a_selector_by_another_label_waits_for_a_new_list_and_one_by_the_same_does_not() {
    let (mut index, [first]) = listed([selected([has_app("a")], named("metrics"))]);
    let running = json!({"phase": "Running", "podIP": "10.0.0.1"});
    let pods = [pod("a", &json!({"app": "a", "tier": "x"}), &running), pod("b", &json!({"app": "b"}), &running)];
    reset(&mut index, &pods);
    let same = index.watch(&selected([has_app("b")], named("metrics")));
    assert_eq!(shown(&same), ["b 10.0.0.1:8085"]);
    assert!(!index.lacks(Kind::Pods, NAMESPACE));
    let other = index.watch(&selected([Requirement::Exists("tier".into())], named("metrics")));
    assert!(other.load().is_none() && index.lacks(Kind::Pods, NAMESPACE));
    index.apply(&pods[1]);
    assert!(other.load().is_none());
    reset(&mut index, &pods);
    assert_eq!(shown(&other), ["a 10.0.0.1:8085"]);
    assert_eq!(shown(&first), ["a 10.0.0.1:8085"]);
}

#[test]
fn equal_queries_share_a_snapshot_and_go_with_the_last_user() {
    let query = etcd_of(named("metrics"));
    let (mut index, [snapshot]) = listed([query.clone()]);
    let again = index.watch(&query);
    assert!(Arc::ptr_eq(&snapshot, &again));
    index.forget(&query);
    index.apply(&slice("a", "etcd-client", &metrics_port(), &json!([endpoint("p", "10.0.0.1")])));
    assert_eq!(shown(&again), ["p 10.0.0.1:9979"]);
    index.forget(&query);
    assert!(index.namespaces.is_empty());
}

#[test]
fn what_nobody_asks_for_any_more_is_not_kept() {
    let pods = selected([has_app("a")], named("metrics"));
    let (mut index, _snapshots) = listed([etcd_of(named("metrics")), pods.clone()]);
    index.forget(&pods);
    assert!(index.namespaces[NAMESPACE].pods.is_none());
    assert_eq!(index.asked(Kind::Pods).count(), 0);
    index.watch(&pods);
    assert!(index.lacks(Kind::Pods, NAMESPACE));
}

#[test]
fn targets_that_do_not_change_are_not_replaced() {
    let (mut index, [snapshot]) = listed([etcd_of(named("metrics"))]);
    let endpoints = json!([endpoint("etcd-0", "10.0.0.1")]);
    let same = slice("a", "etcd-client", &metrics_port(), &endpoints);
    index.apply(&same);
    let before = snapshot.load_full().unwrap();
    index.apply(&same);
    reset(&mut index, [&same]);
    assert!(Arc::ptr_eq(&before, &snapshot.load_full().unwrap()));
}
