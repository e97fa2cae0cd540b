//! Single watches, event by event.

use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Error, ResourceExt};
use serde_json::json;
use sluice_loadtest::api::{ApiOptions, ApiServer, endpoint_slice};

use crate::{client, config_map, config_maps, refused, server, soon};

type Watch = BoxStream<'static, Result<WatchEvent<ConfigMap>, Error>>;

async fn watch(api: &ApiServer, params: &WatchParams, version: &str) -> Watch {
    config_maps(api).await.watch(params, version).await.unwrap().boxed()
}

/// The next event but bookmarks, in a word.
async fn next(watch: &mut Watch) -> String {
    loop {
        let event = soon("an event", watch.next()).await;
        let named = |kind: &str, map: &ConfigMap| format!("{kind} {}", map.name_any());
        return match event {
            None => "end".into(),
            Some(Err(error)) => format!("broken: {}", causes(&error)),
            Some(Ok(WatchEvent::Bookmark(_))) => continue,
            Some(Ok(WatchEvent::Added(map))) => named("added", &map),
            Some(Ok(WatchEvent::Modified(map))) => named("modified", &map),
            Some(Ok(WatchEvent::Deleted(map))) => named("deleted", &map),
            Some(Ok(WatchEvent::Error(status))) => format!("error {} {}", status.code, status.reason),
        };
    }
}

fn causes(error: &dyn std::error::Error) -> String {
    let rest = error.source().map(causes).unwrap_or_default();
    format!("{error}: {rest}")
}

fn quick_bookmarks() -> ApiOptions {
    ApiOptions { bookmark_interval: Duration::from_millis(20), ..ApiOptions::default() }
}

#[tokio::test]
async fn a_watch_tells_what_comes_after_its_version_and_nothing_before() {
    let api = server().await;
    let a = api.apply(config_map("a", &json!({})));
    api.apply(config_map("b", &json!({})));
    let mut watch = watch(&api, &WatchParams::default(), a["metadata"]["resourceVersion"].as_str().unwrap()).await;
    assert_eq!(next(&mut watch).await, "added b");
    api.apply(config_map("a", &json!({"x": "1"})));
    api.apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "other"}}));
    api.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d", "namespace": "n"}}));
    api.delete("v1", "ConfigMap", "n", "b");
    assert_eq!(next(&mut watch).await, "modified a");
    assert_eq!(next(&mut watch).await, "deleted b");
    assert_eq!(api.watches_of("configmaps"), 1);
    drop(watch);
    api.wait_for_watches("configmaps", 0).await;
}

#[tokio::test]
async fn a_deletion_has_a_version_of_its_own() {
    let api = server().await;
    let a = api.apply(config_map("a", &json!({})));
    let mut watch = watch(&api, &WatchParams::default(), a["metadata"]["resourceVersion"].as_str().unwrap()).await;
    api.delete("v1", "ConfigMap", "n", "a");
    let Some(WatchEvent::Deleted(map)) = soon("the deletion", watch.try_next()).await.unwrap() else {
        panic!("deleted")
    };
    assert_eq!(map.resource_version().unwrap(), api.resource_version().to_string());
}

#[tokio::test]
async fn without_a_version_a_watch_begins_with_what_is_there() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    for version in ["", "0"] {
        let mut watch = watch(&api, &WatchParams::default(), version).await;
        assert_eq!(next(&mut watch).await, "added a", "{version:?}");
    }
}

#[tokio::test]
async fn to_a_selector_objects_come_and_go_with_their_labels() {
    let api = server().await;
    api.apply(config_map("a", &json!({"on": "no"})));
    let version = api.resource_version().to_string();
    let mut watch = watch(&api, &WatchParams::default().labels("on=yes"), &version).await;
    for on in ["yes", "yes", "no", "yes"] {
        api.apply(config_map("a", &json!({"on": on, "time": api.resource_version().to_string()})));
    }
    api.apply(config_map("b", &json!({})));
    api.delete("v1", "ConfigMap", "n", "b");
    api.delete("v1", "ConfigMap", "n", "a");
    for expected in ["added a", "modified a", "deleted a", "added a", "deleted a"] {
        assert_eq!(next(&mut watch).await, expected);
    }
    let fields = WatchParams::default().fields("metadata.name=c");
    let mut one = config_maps(&api).await.watch(&fields, &version).await.unwrap().boxed();
    api.apply(config_map("b", &json!({})));
    api.apply(config_map("c", &json!({})));
    assert_eq!(next(&mut one).await, "added c");
}

#[tokio::test]
async fn bookmarks_carry_the_version_of_the_moment() {
    let api = ApiServer::start(quick_bookmarks()).await;
    let start = api.apply(config_map("a", &json!({})))["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let slices: Api<EndpointSlice> = Api::namespaced(client(&api).await, "n");
    let mut watch = slices.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    api.apply(config_map("a", &json!({"x": "1"})));
    let newest = api.resource_version().to_string();
    let reached = async {
        loop {
            match watch.next().await.unwrap().unwrap() {
                WatchEvent::Bookmark(bookmark) if bookmark.metadata.resource_version == newest => break bookmark,
                WatchEvent::Bookmark(_) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    assert_eq!(soon("a bookmark of the newest version", reached).await.types.kind, "EndpointSlice");
    let mut silent =
        config_maps(&api).await.watch(&WatchParams::default().disable_bookmarks(), &newest).await.unwrap().boxed();
    api.apply(endpoint_slice("n", "s", "etcd", None, 2379, &[]));
    soon("a bookmark elsewhere", watch.next()).await.unwrap().unwrap();
    api.apply(config_map("b", &json!({})));
    let first = soon("an event", silent.next()).await.unwrap().unwrap();
    assert!(matches!(first, WatchEvent::Added(_)), "{first:?}");
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let params = WatchParams::streaming_lists();
    let mut watch = config_maps(&api).await.watch(&params, "").await.unwrap().boxed();
    assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    let Some(Ok(WatchEvent::Bookmark(bookmark))) = soon("the bookmark", watch.next()).await else { panic!("bookmark") };
    assert_eq!(bookmark.metadata.annotations["k8s.io/initial-events-end"], "true");
    assert_eq!(bookmark.metadata.resource_version, api.resource_version().to_string());
    let path = "/api/v1/configmaps?watch=1&sendInitialEvents=true";
    let sent = client(&api).await.request_text(http::Request::get(path).body(Vec::new()).unwrap()).await;
    assert_eq!(refused(sent), (422, "Invalid".into()), "resourceVersionMatch is required with it");
}

#[tokio::test]
async fn an_old_version_is_gone_in_the_stream_or_by_the_status() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let old = api.resource_version().to_string();
    api.apply(config_map("b", &json!({})));
    api.compact();
    let mut expired = watch(&api, &WatchParams::default(), &old).await;
    assert_eq!(next(&mut expired).await, "error 410 Expired");
    assert_eq!(next(&mut expired).await, "end");
    api.refuse_expired_watches(true);
    let refusal = config_maps(&api).await.watch(&WatchParams::default(), &old).await.map(|_| "a stream");
    assert_eq!(refused(refusal), (410, "Expired".into()));
    let newest = api.resource_version().to_string();
    let mut running = watch(&api, &WatchParams::default(), &newest).await;
    api.apply(config_map("c", &json!({})));
    assert_eq!(next(&mut running).await, "added c");
}

#[tokio::test]
async fn a_history_that_is_full_forgets_its_beginning() {
    let api = ApiServer::start(ApiOptions { history: 3, ..ApiOptions::default() }).await;
    let first = api.apply(config_map("a", &json!({})))["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for name in ["b", "c", "d"] {
        api.apply(config_map(name, &json!({})));
    }
    let mut whole = watch(&api, &WatchParams::default(), &first).await;
    assert_eq!(next(&mut whole).await, "added b");
    api.apply(config_map("e", &json!({})));
    let mut expired = watch(&api, &WatchParams::default(), &first).await;
    assert_eq!(next(&mut expired).await, "error 410 Expired");
}

#[tokio::test]
async fn watches_end_break_expire_and_time_out() {
    let api = server().await;
    let version = api.resource_version().to_string();
    let mut ended = watch(&api, &WatchParams::default(), &version).await;
    api.end_watches();
    assert_eq!(next(&mut ended).await, "end");

    let mut expired = watch(&api, &WatchParams::default(), &version).await;
    api.expire_watches();
    assert_eq!(next(&mut expired).await, "error 410 Expired");
    assert_eq!(next(&mut expired).await, "end");

    let mut dropped = watch(&api, &WatchParams::default(), &version).await;
    api.drop_watches();
    let last = next(&mut dropped).await;
    assert!(last.starts_with("broken") && last.contains("reset"), "{last}");

    let mut short = watch(&api, &WatchParams::default().timeout(1), &version).await;
    assert_eq!(next(&mut short).await, "end");
    api.wait_for_watches("configmaps", 0).await;
}

#[tokio::test]
async fn a_frozen_watch_stays_open_and_says_nothing() {
    let api = ApiServer::start(quick_bookmarks()).await;
    let version = api.resource_version().to_string();
    let mut frozen = watch(&api, &WatchParams::default(), &version).await;
    api.freeze_watches(true);
    api.apply(config_map("a", &json!({})));
    api.end_watches();
    let maps = config_maps(&api).await;
    let second = tokio::spawn(async move { maps.watch(&WatchParams::default(), "0").await.map(|_| ()) });
    api.wait_for_watches("configmaps", 2).await;
    config_maps(&api).await.list(&ListParams::default()).await.expect("only watches are frozen");
    assert_silent_since(&mut frozen, &version).await;
    assert!(!second.is_finished(), "not even headers come");

    api.freeze_watches(false);
    let mut third = watch(&api, &WatchParams::default(), &version).await;
    assert_eq!(next(&mut third).await, "added a");
    api.apply(config_map("b", &json!({})));
    assert_eq!(next(&mut third).await, "added b");
    assert_silent_since(&mut frozen, &version).await;
    second.abort();
}

/// Bookmarks of `version` may still have been on their way; nothing else comes in ten times the time of a bookmark.
async fn assert_silent_since(watch: &mut Watch, version: &str) {
    while let Ok(event) = tokio::time::timeout(Duration::from_millis(200), watch.next()).await {
        let early = matches!(&event, Some(Ok(WatchEvent::Bookmark(mark))) if mark.metadata.resource_version == version);
        assert!(early, "{event:?}");
    }
}
