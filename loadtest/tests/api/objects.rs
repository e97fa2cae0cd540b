//! One object: create, read, update, patch, delete.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};

use crate::{client, config_map, config_maps, control_plane, control_planes, refused, server};

#[tokio::test]
async fn a_created_object_has_what_the_server_adds() {
    let api = server().await;
    let planes = control_planes(&api).await;
    let created = planes.create(&PostParams::default(), &control_plane("a", &json!({"x": 1}))).await.unwrap();
    let metadata = &created.metadata;
    assert_eq!(metadata.uid.as_ref().unwrap().len(), 36);
    assert_eq!(metadata.generation, Some(1));
    assert!(metadata.creation_timestamp.is_some() && metadata.resource_version.is_some());
    let read = planes.get("a").await.unwrap();
    assert_eq!(read, created);
    let again = planes.create(&PostParams::default(), &control_plane("a", &json!({}))).await;
    assert_eq!(refused(again), (409, "AlreadyExists".into()));
    assert_eq!(refused(planes.get("b").await), (404, "NotFound".into()));
    assert!(planes.get_opt("b").await.unwrap().is_none());
}

#[tokio::test]
async fn names_are_generated_and_checked() {
    let api = server().await;
    let maps = config_maps(&api).await;
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "m-"}})).unwrap();
    let first = maps.create(&PostParams::default(), &map).await.unwrap().metadata.name.unwrap();
    let second = maps.create(&PostParams::default(), &map).await.unwrap().metadata.name.unwrap();
    assert!(first.starts_with("m-") && first.len() == 7 && first != second, "{first} {second}");
    for name in ["Upper", "a_b", "-a", ""] {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        assert_eq!(refused(maps.create(&PostParams::default(), &map).await), (422, "Invalid".into()), "{name}");
    }
    let elsewhere: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "a", "namespace": "o"}})).unwrap();
    assert_eq!(refused(maps.create(&PostParams::default(), &elsewhere).await).0, 400);
}

#[tokio::test]
async fn a_stale_update_conflicts() {
    let api = server().await;
    let planes = control_planes(&api).await;
    let first = planes.create(&PostParams::default(), &control_plane("a", &json!({"x": 1}))).await.unwrap();
    let mut changed = first.clone();
    changed.data["spec"]["x"] = json!(2);
    let second = planes.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(second.metadata.generation, Some(2));
    assert_eq!(second.metadata.uid, first.metadata.uid);
    assert_ne!(second.metadata.resource_version, first.metadata.resource_version);
    let stale = planes.replace("a", &PostParams::default(), &changed).await;
    assert_eq!(refused(stale), (409, "Conflict".into()));
    let unversioned = planes.replace("a", &PostParams::default(), &control_plane("a", &json!({}))).await;
    assert_eq!(refused(unversioned), (422, "Invalid".into()), "custom resources want a version");
    let missing = planes.replace("b", &PostParams::default(), &control_plane("b", &json!({}))).await;
    assert_eq!(refused(missing).0, 404);
}

#[tokio::test]
async fn built_in_objects_can_be_updated_whatever_their_version() {
    let api = server().await;
    api.apply(config_map("a", &json!({"v": "1"})));
    let maps = config_maps(&api).await;
    let map: ConfigMap = serde_json::from_value(config_map("a", &json!({"v": "2"}))).unwrap();
    let map = maps.replace("a", &PostParams::default(), &map).await.unwrap();
    assert_eq!(map.metadata.labels.unwrap()["v"], "2");
}

#[tokio::test]
async fn a_write_that_changes_nothing_is_none() {
    let api = server().await;
    let maps = config_maps(&api).await;
    api.apply(config_map("a", &json!({"v": "1"})));
    let version = api.resource_version();
    let map = maps.get("a").await.unwrap();
    maps.replace("a", &PostParams::default(), &map).await.unwrap();
    let patch = json!({"metadata": {"labels": {"v": "1"}}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    api.apply(config_map("a", &json!({"v": "1"})));
    assert_eq!(api.resource_version(), version);
}

#[tokio::test]
async fn patches_of_every_kind_change_what_they_say() {
    let api = server().await;
    let planes = control_planes(&api).await;
    planes.create(&PostParams::default(), &control_plane("a", &json!({"x": 1, "y": 1}))).await.unwrap();
    let merge = Patch::Merge(json!({"spec": {"x": null, "z": [1]}}));
    let merged = planes.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(merged.data["spec"], json!({"y": 1, "z": [1]}));
    let strategic = Patch::Strategic(json!({"spec": {"y": 2}}));
    let merged = planes.patch("a", &PatchParams::default(), &strategic).await.unwrap();
    assert_eq!(merged.data["spec"], json!({"y": 2, "z": [1]}));
    assert_eq!(merged.metadata.generation, Some(3));

    let client = client(&api).await;
    let path = "/apis/hypershift.openshift.io/v1beta1/namespaces/n/hostedcontrolplanes/a";
    let send = |patch: Value| {
        let request = http::Request::patch(path).header("content-type", "application/json-patch+json");
        client.request::<Value>(request.body(patch.to_string().into_bytes()).unwrap())
    };
    let steps = json!([{"op": "test", "path": "/spec/y", "value": 2}, {"op": "add", "path": "/spec/z/-", "value": 2}]);
    assert_eq!(send(steps.clone()).await.unwrap()["spec"], json!({"y": 2, "z": [1, 2]}));
    let failing = json!([{"op": "test", "path": "/spec/y", "value": 3}]);
    assert_eq!(refused(send(failing).await), (422, "Invalid".into()));
    let stale = Patch::Merge(json!({"metadata": {"resourceVersion": "1"}, "spec": {"y": 9}}));
    assert_eq!(refused(planes.patch("a", &PatchParams::default(), &stale).await), (409, "Conflict".into()));
}

#[tokio::test]
async fn the_status_is_only_written_by_its_subresource() {
    let api = server().await;
    let planes = control_planes(&api).await;
    let mut plane = control_plane("a", &json!({"x": 1}));
    plane.data["status"] = json!({"ready": true});
    let created = planes.create(&PostParams::default(), &plane).await.unwrap();
    assert_eq!(created.data.get("status"), None);

    let status = Patch::Merge(json!({"status": {"ready": true}, "spec": {"x": 2}, "metadata": {"labels": {"a": "b"}}}));
    let patched = planes.patch_status("a", &PatchParams::default(), &status).await.unwrap();
    assert_eq!(patched.data, json!({"spec": {"x": 1}, "status": {"ready": true}}));
    assert_eq!(patched.metadata.labels, None);
    assert_eq!(patched.metadata.generation, Some(1), "only the spec counts");
    assert_eq!(planes.get_status("a").await.unwrap(), patched);

    let mut replaced = patched.clone();
    replaced.data = json!({"spec": {"x": 2}, "status": {"ready": false}});
    let main = planes.replace("a", &PostParams::default(), &replaced).await.unwrap();
    assert_eq!(main.data, json!({"spec": {"x": 2}, "status": {"ready": true}}));
    assert_eq!(main.metadata.generation, Some(2));
    replaced.metadata.resource_version = main.metadata.resource_version;
    let status = planes.replace_status("a", &PostParams::default(), &replaced).await.unwrap();
    assert_eq!(status.data["status"], json!({"ready": false}));
    assert_eq!(api.count("update", "hostedcontrolplanes/status"), 1);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let api = server().await;
    let planes = control_planes(&api).await;
    let mut plane = control_plane("a", &json!({}));
    plane.metadata.finalizers = Some(vec!["sluice/x".into(), "sluice/y".into()]);
    planes.create(&PostParams::default(), &plane).await.unwrap();
    let waiting =
        planes.delete("a", &DeleteParams::default()).await.unwrap().left().expect("the object is still there");
    let deleted_at = waiting.metadata.deletion_timestamp.clone().unwrap();
    let again = planes.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    assert_eq!(again.metadata.resource_version, waiting.metadata.resource_version, "deleting twice changes nothing");

    let more = Patch::Merge(json!({"metadata": {"finalizers": ["sluice/x", "sluice/z"]}}));
    assert_eq!(refused(planes.patch("a", &PatchParams::default(), &more).await), (422, "Invalid".into()));
    let fewer = Patch::Merge(json!({"metadata": {"finalizers": ["sluice/y"]}}));
    let fewer = planes.patch("a", &PatchParams::default(), &fewer).await.unwrap();
    assert_eq!(fewer.metadata.deletion_timestamp, Some(deleted_at));
    let none = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    planes.patch("a", &PatchParams::default(), &none).await.unwrap();
    assert!(planes.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_delete_without_finalizers_is_done_at_once_if_the_preconditions_hold() {
    let api = server().await;
    let maps = config_maps(&api).await;
    let map = api.apply(config_map("a", &json!({})));
    let wanted = |uid: Option<&str>, version: Option<&str>| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        DeleteParams::default().preconditions(Preconditions { uid: owned(uid), resource_version: owned(version) })
    };
    assert_eq!(refused(maps.delete("a", &wanted(Some("other"), None)).await), (409, "Conflict".into()));
    assert_eq!(refused(maps.delete("a", &wanted(None, Some("1"))).await), (409, "Conflict".into()));
    let dry = DeleteParams { dry_run: true, ..DeleteParams::default() };
    maps.delete("a", &dry).await.unwrap();
    let right = wanted(map["metadata"]["uid"].as_str(), map["metadata"]["resourceVersion"].as_str());
    let status = maps.delete("a", &right).await.unwrap().right().expect("a status: it is gone");
    assert!(status.is_success());
    assert_eq!(status.details.unwrap().uid, map["metadata"]["uid"].as_str().unwrap());
    assert_eq!(refused(maps.delete("a", &DeleteParams::default()).await), (404, "NotFound".into()));
}

#[tokio::test]
async fn a_dry_run_stores_nothing() {
    let api = server().await;
    let planes = control_planes(&api).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let answered = planes.create(&dry, &control_plane("a", &json!({}))).await.unwrap();
    assert!(answered.metadata.uid.is_some());
    assert!(planes.get_opt("a").await.unwrap().is_none());
}

#[tokio::test]
async fn a_secret_turns_plain_text_into_data() {
    let api = server().await;
    let secrets: Api<Secret> = Api::namespaced(client(&api).await, "n");
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "s"}, "stringData": {"k": "plain"}})).unwrap();
    let secret = secrets.create(&PostParams::default(), &secret).await.unwrap();
    assert_eq!(secret.data.unwrap()["k"].0, b"plain");
    assert_eq!(secret.string_data, None);
}

#[tokio::test]
async fn the_simulation_writes_status_and_spec_at_once() {
    let api = server().await;
    api.apply(sluice_loadtest::api::pod("n", "p", &[("app", "etcd")], "127.0.0.9", &[("metrics", 9979)]));
    let pods: Api<Pod> = Api::namespaced(client(&api).await, "n");
    let pod = pods.get("p").await.unwrap();
    assert_eq!(pod.status.unwrap().pod_ip.unwrap(), "127.0.0.9");
    let managers: Vec<_> = pod.metadata.managed_fields.unwrap().into_iter().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["kube-controller-manager", "kubelet"], "the helper names all owners");
    let metadata = pods.get_metadata("p").await.unwrap();
    assert_eq!(metadata.metadata.labels.unwrap()["app"], "etcd");
    assert!(api.delete("v1", "Pod", "n", "p") && !api.delete("v1", "Pod", "n", "p"));
}
