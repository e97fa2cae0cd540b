//! Server-side apply.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{config_map, config_maps, control_plane, control_planes, refused, server};

fn map(data: &Value) -> Patch<Value> {
    Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}))
}

fn data(map: &ConfigMap) -> Value {
    json!(map.data)
}

#[tokio::test]
async fn what_is_applied_is_created_and_then_merged() {
    let api = server().await;
    let maps = config_maps(&api).await;
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let created = maps.patch("a", &one, &map(&json!({"x": "1", "y": "1"}))).await.unwrap();
    assert!(created.metadata.uid.is_some());
    let merged = maps.patch("a", &two, &map(&json!({"z": "1"}))).await.unwrap();
    assert_eq!(data(&merged), json!({"x": "1", "y": "1", "z": "1"}));
    let managers: Vec<_> = merged.metadata.managed_fields.unwrap();
    let managers: Vec<_> = managers.into_iter().map(|m| (m.manager.unwrap(), m.operation.unwrap())).collect();
    assert_eq!(managers, [("one", "Apply"), ("two", "Apply")].map(|(a, b)| (a.to_owned(), b.to_owned())));

    let fewer = maps.patch("a", &one, &map(&json!({"x": "1"}))).await.unwrap();
    assert_eq!(data(&fewer), json!({"x": "1", "z": "1"}), "what one no longer applies is gone, two's is not");
}

#[tokio::test]
async fn applying_the_same_again_writes_nothing() {
    let api = server().await;
    let maps = config_maps(&api).await;
    let params = PatchParams::apply("one").force();
    let first = maps.patch("a", &params, &map(&json!({"x": "1"}))).await.unwrap();
    let again = maps.patch("a", &params, &map(&json!({"x": "1"}))).await.unwrap();
    assert_eq!(first, again);
}

#[tokio::test]
async fn a_differing_field_of_another_manager_conflicts_unless_forced() {
    let api = server().await;
    let maps = config_maps(&api).await;
    maps.patch("a", &PatchParams::apply("one"), &map(&json!({"x": "1"}))).await.unwrap();
    let two = PatchParams::apply("two");
    let Err(kube::Error::Api(status)) = maps.patch("a", &two, &map(&json!({"x": "2"}))).await else {
        panic!("must conflict")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let causes = status.details.unwrap().causes;
    assert_eq!(causes[0].field, ".data.x");
    assert_eq!(causes[0].reason, "FieldManagerConflict");
    assert!(causes[0].message.contains("\"one\""), "{}", causes[0].message);
    maps.patch("a", &two, &map(&json!({"x": "1"}))).await.expect("the same value is no conflict");

    let forced = maps.patch("a", &two.clone().force(), &map(&json!({"x": "2"}))).await.unwrap();
    assert_eq!(data(&forced), json!({"x": "2"}));
    let gone = maps.patch("a", &PatchParams::apply("one"), &map(&json!({}))).await.unwrap();
    assert_eq!(data(&gone), json!({"x": "2"}), "one has lost it");
}

#[tokio::test]
async fn what_an_update_changed_conflicts_too() {
    let api = server().await;
    let maps = config_maps(&api).await;
    maps.patch("a", &PatchParams::apply("one"), &map(&json!({"x": "1"}))).await.unwrap();
    let edit = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    maps.patch("a", &edit, &Patch::Merge(json!({"data": {"x": "edited"}}))).await.unwrap();
    let back = maps.patch("a", &PatchParams::apply("one"), &map(&json!({"x": "1"}))).await;
    assert_eq!(refused(back), (409, "Conflict".into()));
    let back = maps.patch("a", &PatchParams::apply("one").force(), &map(&json!({"x": "1"}))).await.unwrap();
    assert_eq!(data(&back), json!({"x": "1"}));
}

#[tokio::test]
async fn the_status_has_managers_of_its_own() {
    let api = server().await;
    let planes = control_planes(&api).await;
    let params = PatchParams::apply("one");
    let plane = |extra: Value| {
        let mut plane = serde_json::to_value(control_plane("a", &json!({"x": 1}))).unwrap();
        plane.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        Patch::Apply(plane)
    };
    let condition = |kind: &str| json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
    assert_eq!(refused(planes.patch_status("a", &params, &plane(condition("A"))).await).0, 404);
    let created = planes.patch("a", &params, &plane(condition("A"))).await.unwrap();
    assert_eq!(created.data, json!({"spec": {"x": 1}}));
    planes.patch_status("a", &params, &plane(condition("A"))).await.unwrap();
    let two = PatchParams::apply("two");
    let both = planes.patch_status("a", &two, &plane(condition("B"))).await.unwrap();
    assert_eq!(both.data["status"]["conditions"].as_array().unwrap().len(), 2);
    let main = planes.patch("a", &params, &plane(json!({}))).await.unwrap();
    assert_eq!(main.data, both.data, "applying the object leaves the status alone");
    assert_eq!(main.metadata.generation, Some(1));
}

#[tokio::test]
async fn an_apply_says_what_it_is_and_who() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let maps = config_maps(&api).await;
    let nobody = PatchParams { field_manager: None, ..PatchParams::apply("x") };
    let params = PatchParams::apply("x");
    let sent = maps.patch("a", &nobody, &map(&json!({}))).await;
    assert_eq!(refused(sent).0, 422);
    let untyped = Patch::Apply(json!({"metadata": {"name": "a"}}));
    assert_eq!(refused(maps.patch("a", &params, &untyped).await).0, 400);
    assert_eq!(refused(maps.patch("b", &params, &map(&json!({}))).await).0, 400, "the names differ");
}
