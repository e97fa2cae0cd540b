//! `kube::runtime::watcher` over everything that can happen to its watches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use serde_json::json;
use sluice_loadtest::api::{ApiOptions, ApiServer};
use tokio::task::JoinHandle;

use crate::{client, config_map, server};

/// What a watcher knows: the names and the label `v`.
#[derive(Clone, Default)]
struct Known {
    maps: Arc<Mutex<BTreeMap<String, String>>>,
    inits: Arc<Mutex<usize>>,
}

impl Known {
    fn names(&self) -> Vec<String> {
        self.maps.lock().unwrap().keys().cloned().collect()
    }

    fn inits(&self) -> usize {
        *self.inits.lock().unwrap()
    }

    fn take(&self, event: Event<ConfigMap>) {
        let mut maps = self.maps.lock().unwrap();
        let version = |map: &ConfigMap| map.labels().get("v").cloned().unwrap_or_default();
        match event {
            Event::Init => {
                maps.clear();
                *self.inits.lock().unwrap() += 1;
            }
            Event::InitApply(map) | Event::Apply(map) => drop(maps.insert(map.name_any(), version(&map))),
            Event::Delete(map) => drop(maps.remove(&map.name_any())),
            Event::InitDone => {}
        }
    }
}

/// A watcher at work; it ends with the handle.
struct Running {
    known: Known,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(api: &ApiServer, config: watcher::Config) -> Running {
    let maps: Api<ConfigMap> = Api::namespaced(client(api).await, "n");
    let known = Known::default();
    let copy = known.clone();
    let task = tokio::spawn(async move {
        let mut events = watcher(maps, config).default_backoff().boxed();
        while let Some(event) = events.next().await {
            if let Ok(event) = event {
                copy.take(event);
            }
        }
    });
    Running { known, task }
}

async fn sees(api: &ApiServer, running: &Running, names: &[&str]) {
    api.wait(&format!("{names:?}"), || running.known.names() == names).await;
}

#[tokio::test]
async fn a_watcher_survives_all_that_ends_its_watches() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let running = run(&api, watcher::Config::default()).await;
    sees(&api, &running, &["a"]).await;
    api.wait_for_watches("configmaps", 1).await;

    // While it is away things change, so that only what it learns later tells.
    let watches = api.count("watch", "configmaps");
    api.end_watches();
    api.apply(config_map("b", &json!({})));
    sees(&api, &running, &["a", "b"]).await;
    api.wait_for_requests("watch", "configmaps", watches + 1).await;
    assert_eq!(running.known.inits(), 1, "a clean end needs no new list");

    api.wait_for_watches("configmaps", 1).await;
    api.drop_watches();
    api.delete("v1", "ConfigMap", "n", "a");
    sees(&api, &running, &["b"]).await;
    assert_eq!(api.count("list", "configmaps"), 1, "nor does a cut connection");

    api.wait_for_watches("configmaps", 1).await;
    api.expire_watches();
    api.apply(config_map("c", &json!({})));
    api.wait("a new list", || running.known.inits() == 2).await;
    sees(&api, &running, &["b", "c"]).await;
}

#[tokio::test]
async fn a_watcher_that_comes_back_too_late_lists_anew() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let running = run(&api, watcher::Config::default()).await;
    sees(&api, &running, &["a"]).await;
    api.wait_for_watches("configmaps", 1).await;
    api.stop().await;
    api.delete("v1", "ConfigMap", "n", "a");
    api.apply(config_map("b", &json!({})));
    api.compact();
    api.start_again().await;
    sees(&api, &running, &["b"]).await;
    assert_eq!(running.known.inits(), 2);
}

#[tokio::test]
async fn a_bookmark_saves_a_quiet_watcher_the_new_list() {
    let options = ApiOptions { bookmark_interval: Duration::from_millis(20), ..ApiOptions::default() };
    let api = ApiServer::start(options).await;
    api.apply(config_map("a", &json!({})));
    let running = run(&api, watcher::Config::default()).await;
    sees(&api, &running, &["a"]).await;
    api.wait_for_watches("configmaps", 1).await;
    api.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "noise", "namespace": "n"}}));
    api.compact();
    // The watch begins anew after the bookmark that is newer than all that is forgotten; its query shows which.
    let newest = format!("resourceVersion={}", api.resource_version());
    let begun_there =
        || api.requests().iter().any(|request| request.verb == "watch" && request.query.contains(&newest));
    api.wait("a watch from the bookmark on", || {
        api.end_watches();
        begun_there()
    })
    .await;
    api.apply(config_map("b", &json!({})));
    sees(&api, &running, &["a", "b"]).await;
}

#[tokio::test]
async fn a_watcher_lists_in_pages_and_by_stream() {
    let api = server().await;
    let names: Vec<String> = (10..35).map(|number| format!("m{number}")).collect();
    for name in &names {
        api.apply(config_map(name, &json!({"v": "1"})));
    }
    let expected: Vec<&str> = names.iter().map(String::as_str).collect();
    let paged = run(&api, watcher::Config::default().page_size(10)).await;
    sees(&api, &paged, &expected).await;
    assert_eq!(api.count("list", "configmaps"), 3);

    let streamed = run(&api, watcher::Config::default().streaming_lists()).await;
    sees(&api, &streamed, &expected).await;
    assert_eq!(api.count("list", "configmaps"), 3, "a streamed list is a watch");
    let selected = run(&api, watcher::Config::default().labels("v=2")).await;
    api.wait_for_watches("configmaps", 3).await;
    api.apply(config_map("m20", &json!({"v": "2"})));
    sees(&api, &selected, &["m20"]).await;
    api.apply(config_map("m20", &json!({"v": "3"})));
    sees(&api, &selected, &[]).await;
    assert!(streamed.known.names().contains(&"m20".to_owned()));
}

#[tokio::test]
async fn a_watcher_waits_for_a_server_that_fails() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    api.fail_with(Some(500));
    let running = run(&api, watcher::Config::default()).await;
    api.wait_for_requests("list", "configmaps", 2).await;
    assert!(running.known.names().is_empty());
    api.fail_with(None);
    sees(&api, &running, &["a"]).await;
}
