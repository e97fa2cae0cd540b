//! Lists: scope, selectors, pages, versions; and discovery.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, VersionMatch};
use kube::discovery::{Discovery, Scope};
use serde_json::{Value, json};
use sluice_loadtest::api::{ApiOptions, ApiServer, endpoint_slice};

use crate::{client, config_map, config_maps, refused, server};

fn names<K: kube::ResourceExt>(objects: impl IntoIterator<Item = K>) -> Vec<String> {
    objects.into_iter().map(|object| object.name_any()).collect()
}

#[tokio::test]
async fn a_list_is_of_one_namespace_or_of_all() {
    let api = server().await;
    for (namespace, name) in [("b", "1"), ("a", "2"), ("a", "1")] {
        api.apply(endpoint_slice(namespace, name, "etcd", None, 2379, &[("etcd-0", "127.0.0.2")]));
    }
    let all: Api<EndpointSlice> = Api::all(client(&api).await);
    let list = all.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.metadata.resource_version, Some(api.resource_version().to_string()));
    let found: Vec<_> = list.items.into_iter().map(|slice| slice.metadata).collect();
    let found: Vec<_> = found.into_iter().map(|m| (m.namespace.unwrap(), m.name.unwrap())).collect();
    assert_eq!(found, [("a", "1"), ("a", "2"), ("b", "1")].map(|(a, b)| (a.to_owned(), b.to_owned())));
    let one: Api<EndpointSlice> = Api::namespaced(client(&api).await, "b");
    assert_eq!(names(one.list(&ListParams::default()).await.unwrap()), ["1"]);
    let none: Api<EndpointSlice> = Api::namespaced(client(&api).await, "c");
    assert!(none.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn selectors_choose() {
    let api = server().await;
    for (name, labels) in [("a", json!({"app": "x", "tier": "1"})), ("b", json!({"app": "y"})), ("c", json!({}))] {
        api.apply(config_map(name, &labels));
    }
    let maps = config_maps(&api).await;
    for (selector, expected) in [
        ("app=x", vec!["a"]),
        ("app in (x, y)", vec!["a", "b"]),
        ("app notin (x)", vec!["b", "c"]),
        ("!app", vec!["c"]),
        ("app,tier!=1", vec!["b"]),
    ] {
        let list = maps.list(&ListParams::default().labels(selector)).await.unwrap();
        assert_eq!(names(list), expected, "{selector}");
    }
    assert_eq!(names(maps.list(&ListParams::default().fields("metadata.name=b")).await.unwrap()), ["b"]);
    assert_eq!(refused(maps.list(&ListParams::default().labels("a b c")).await).0, 400);
    assert_eq!(refused(maps.list(&ListParams::default().fields("data.x=b")).await).0, 400);
}

#[tokio::test]
async fn pages_show_one_state_whatever_happens_between_them() {
    let api = server().await;
    for name in ["a", "b", "c", "d", "e"] {
        api.apply(config_map(name, &json!({"v": "1"})));
    }
    let maps = config_maps(&api).await;
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(names(first.items), ["a", "b"]);
    assert_eq!(first.metadata.remaining_item_count, Some(3));

    api.delete("v1", "ConfigMap", "n", "c");
    api.apply(config_map("d", &json!({"v": "2"})));
    api.apply(config_map("dd", &json!({})));
    let next = ListParams::default().limit(2).continue_token(&first.metadata.continue_.unwrap());
    let second = maps.list(&next).await.unwrap();
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    assert_eq!(second.items[1].metadata.labels.as_ref().unwrap()["v"], "1");
    assert_eq!(names(second.items), ["c", "d"]);

    api.compact();
    let next = ListParams::default().limit(2).continue_token(&second.metadata.continue_.unwrap());
    let Err(kube::Error::Api(status)) = maps.list(&next).await else { panic!("the state is forgotten") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let go_on = status.metadata.unwrap().continue_.unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&go_on)).await.unwrap();
    assert_eq!(names(rest.items), ["dd", "e"], "in the newest state");
}

#[tokio::test]
async fn a_version_says_how_new_a_list_must_be() {
    let api = server().await;
    let old = api.apply(config_map("a", &json!({})))["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    api.apply(config_map("b", &json!({})));
    let maps = config_maps(&api).await;
    for params in [ListParams::default().at("0"), ListParams::default().at(&old), ListParams::default().match_any()] {
        assert_eq!(names(maps.list(&params).await.unwrap()), ["a", "b"], "{params:?}");
    }
    let exact = ListParams::default().at(&old).matching(VersionMatch::Exact);
    assert_eq!(names(maps.list(&exact).await.unwrap()), ["a"]);
    let future = ListParams::default().at("1000").matching(VersionMatch::NotOlderThan);
    assert_eq!(refused(maps.list(&future).await), (504, "Timeout".into()));
    api.compact();
    assert_eq!(refused(maps.list(&exact).await), (410, "Expired".into()));
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let api = server().await;
    for (name, labels) in [("a", json!({"x": "1"})), ("b", json!({"x": "1"})), ("c", json!({}))] {
        api.apply(config_map(name, &labels));
    }
    let maps = config_maps(&api).await;
    let deleted = maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("x")).await.unwrap();
    assert_eq!(names(deleted.left().unwrap()), ["a", "b"]);
    assert_eq!(names(maps.list(&ListParams::default()).await.unwrap()), ["c"]);
}

#[tokio::test]
async fn items_of_built_in_kinds_do_not_say_their_kind() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let plane = serde_json::to_value(crate::control_plane("p", &json!({}))).unwrap();
    api.apply(plane);
    let client = client(&api).await;
    let get = |path: &str| client.request::<Value>(http::Request::get(path).body(Vec::new()).unwrap());
    let maps = get("/api/v1/configmaps").await.unwrap();
    assert_eq!((&maps["kind"], &maps["items"][0]["kind"]), (&json!("ConfigMapList"), &Value::Null));
    let planes = get("/apis/hypershift.openshift.io/v1beta1/hostedcontrolplanes").await.unwrap();
    assert_eq!(planes["items"][0]["kind"], "HostedControlPlane");
    let gvk = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let dynamic: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
    assert_eq!(names(dynamic.list(&ListParams::default()).await.unwrap()), ["a"]);
    let metadata = Api::<ConfigMap>::all(client.clone()).list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(names(metadata), ["a"]);
}

#[tokio::test]
async fn what_is_served_can_be_discovered() {
    let api = server().await;
    api.register("example.com", "v1", "gadgets", "Gadget", false);
    let client = client(&api).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "33");
    for discovery in [
        Discovery::new(client.clone()).run().await.unwrap(),
        Discovery::new(client.clone()).run_aggregated().await.unwrap(),
    ] {
        let gvk = GroupVersionKind::gvk("hypershift.openshift.io", "v1beta1", "HostedControlPlane");
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
        assert_eq!((resource.plural.as_str(), capabilities.scope), ("hostedcontrolplanes", Scope::Namespaced));
        let (resource, capabilities) =
            discovery.resolve_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget")).unwrap();
        assert_eq!((resource.plural.as_str(), capabilities.scope), ("gadgets", Scope::Cluster));
        assert!(discovery.resolve_gvk(&GroupVersionKind::gvk("", "v1", "Pod")).is_some());
    }
    let gadgets: Api<DynamicObject> =
        Api::all_with(client, &ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Gadget")));
    api.apply(json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}));
    assert_eq!(names(gadgets.list(&ListParams::default()).await.unwrap()), ["g"]);
}

#[tokio::test]
async fn what_is_not_served_is_not_found() {
    let api = server().await;
    let client = client(&api).await;
    for path in ["/apis/example.com/v1/gadgets", "/api/v1/gadgets", "/api/v1/namespaces/n/pods/p/dance", "/nowhere"] {
        let got = client.request::<Value>(http::Request::get(path).body(Vec::new()).unwrap()).await;
        assert_eq!(refused(got), (404, "NotFound".into()), "{path}");
    }
    for path in ["/readyz", "/livez", "/healthz"] {
        let got = client.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await;
        assert_eq!(got.unwrap(), "ok", "{path}");
    }
}

#[tokio::test]
async fn a_namespace_can_be_required() {
    let options = ApiOptions { namespaces_must_exist: true, ..ApiOptions::default() };
    let api = ApiServer::start(options).await;
    let maps = config_maps(&api).await;
    let map: ConfigMap = serde_json::from_value(config_map("a", &json!({}))).unwrap();
    assert_eq!(refused(maps.create(&kube::api::PostParams::default(), &map).await), (404, "NotFound".into()));
    api.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}));
    maps.create(&kube::api::PostParams::default(), &map).await.unwrap();
}
