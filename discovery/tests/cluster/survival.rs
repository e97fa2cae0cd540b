//! What may happen to an API server and the way to it: the last targets stay in force, and when all is well again they are right.

use std::time::{Duration, Instant};

use crate::support::{Cluster, NAMESPACE, SLICES, etcd, impatient, pods_of};
use serde_json::json;
use sluice_discovery::Timing;
use sluice_loadtest::api::ApiOptions;

#[tokio::test]
async fn an_api_server_that_is_down_at_start_is_found_when_it_comes() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    cluster.api.stop().await;
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait("a failure", || discovery.status().slices.failures > 2).await;
    assert!(targets.load().is_none() && targets.age().is_none());
    let status = discovery.status();
    assert!(!status.synced() && status.slices.wanted && !status.pods.wanted);
    assert!(status.slices.error.as_ref().is_some_and(|error| error.contains("refused")), "{status:?}");
    cluster.api.start_again().await;
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
    cluster.api.wait("no failure", || discovery.status().slices.failures == 0).await;
    let status = discovery.status();
    assert!(status.synced() && status.slices.error.is_none(), "{status:?}");
    assert!(targets.age().is_some());
}

#[tokio::test]
async fn a_kubeconfig_that_appears_later_is_read() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    std::fs::remove_file(cluster.kubeconfig()).unwrap();
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    let says = |text: &str| discovery.status().slices.error.is_some_and(|error| error.contains(text));
    cluster.api.wait("no such file", || says("No such file") && says("kubeconfig")).await;
    // Half of one, with a secret in it.
    cluster.write_kubeconfig("users: [{name: a, user: {token: hush-hush, token: [}}");
    cluster.api.wait("not a kubeconfig", || says("not a kubeconfig")).await;
    assert!(!says("hush"));
    cluster.write_kubeconfig(&cluster.api.kubeconfig());
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
}

#[tokio::test]
async fn renewed_credentials_are_used() {
    let options = ApiOptions { tokens: vec!["good-token".into()], ..ApiOptions::default() };
    let cluster = Cluster::start_with(options).await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let good = cluster.api.kubeconfig();
    cluster.write_kubeconfig(&good.replace("good-token", "worn-token"));
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait("401", || discovery.status().slices.error.is_some_and(|error| error.contains("401"))).await;
    assert!(!format!("{:?}", discovery.status()).contains("worn-token"));
    cluster.write_kubeconfig(&good);
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
}

#[tokio::test]
async fn credentials_that_wear_out_on_the_way_are_renewed_without_a_new_list() {
    let options = ApiOptions { tokens: vec!["token-1".into(), "token-2".into()], ..ApiOptions::default() };
    let cluster = Cluster::start_with(options).await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.write_kubeconfig(&cluster.api.kubeconfig().replace("token-1", "token-2"));
    cluster.api.fail_with(Some(401));
    cluster.api.drop_watches();
    cluster.api.wait("401", || discovery.status().slices.error.is_some_and(|error| error.contains("401"))).await;
    assert_eq!(pods_of(&targets).unwrap(), ["etcd-0"]);
    cluster.api.fail_with(None);
    cluster.apply_etcd("a", &[("etcd-0", 1), ("etcd-1", 2)]);
    cluster.wait_for_pods(&targets, &["etcd-0", "etcd-1"]).await;
    assert_eq!(cluster.api.count("list", SLICES), 1);
    assert_eq!(cluster.api.requests().last().unwrap().bearer.as_deref(), Some("token-2"));
}

#[tokio::test]
async fn cut_connections_and_ended_watches_go_on_where_they_were() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &[]).await;
    let names: Vec<_> = (0..8).map(|pod| format!("etcd-{pod}")).collect();
    let mut pods = Vec::new();
    for (turn, name) in names.iter().enumerate() {
        cluster.api.wait_for_watches(SLICES, 1).await;
        if turn % 2 == 0 {
            cluster.api.drop_watches();
        } else {
            cluster.api.end_watches();
        }
        pods.push((name.as_str(), turn as u8 + 1));
        cluster.apply_etcd("a", &pods);
        let pods: Vec<_> = pods.iter().map(|(pod, _)| *pod).collect();
        cluster.wait_for_pods(&targets, &pods).await;
    }
    assert_eq!(cluster.api.count("list", SLICES), 1, "nothing was lost, so nothing is listed again");
}

#[tokio::test]
async fn an_outage_leaves_the_last_targets_and_their_age_tells() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.api.stop().await;
    let begun = Instant::now();
    cluster.api.wait("failures", || discovery.status().slices.failures > 3).await;
    assert_eq!(pods_of(&targets).unwrap(), ["etcd-0"]);
    // Nothing was heard since it stopped.
    assert!(targets.age().unwrap() + Duration::from_millis(1) >= begun.elapsed());
    assert!(discovery.status().synced(), "what is known stays known");
    cluster.api.start_again().await;
    cluster.apply_etcd("a", &[("etcd-1", 2)]);
    cluster.wait_for_pods(&targets, &["etcd-1"]).await;
    assert!(targets.age().unwrap() < begun.elapsed());
}

/// While nobody was watching things changed and the history was thrown away.
async fn away_for_too_long(refused_by_status: bool) {
    let cluster = Cluster::start().await;
    cluster.api.refuse_expired_watches(refused_by_status);
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    cluster.apply_etcd("b", &[("etcd-1", 2)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.wait_for_pods(&targets, &["etcd-0", "etcd-1"]).await;
    cluster.api.stop().await;
    cluster.delete_slice("a");
    cluster.apply_etcd("c", &[("etcd-2", 3)]);
    cluster.api.compact();
    cluster.api.forbid("list", SLICES);
    cluster.api.start_again().await;
    cluster.api.wait_for_requests("list", SLICES, 3).await;
    assert_eq!(pods_of(&targets).unwrap(), ["etcd-0", "etcd-1"], "until there is a new list the old one holds");
    cluster.api.allow_all();
    cluster.wait_for_pods(&targets, &["etcd-1", "etcd-2"]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.apply_etcd("c", &[]);
    cluster.wait_for_pods(&targets, &["etcd-1"]).await;
}

#[tokio::test]
async fn who_was_away_for_too_long_lists_again() {
    away_for_too_long(false).await;
}

#[tokio::test]
async fn who_was_away_for_too_long_and_is_told_so_by_the_status_lists_again() {
    away_for_too_long(true).await;
}

#[tokio::test]
async fn a_watch_that_expires_while_it_runs_is_no_failure() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    for round in 1..4 {
        cluster.api.wait("a watch", || discovery.status().slices.watches >= round).await;
        cluster.api.wait_for_watches(SLICES, 1).await;
        cluster.api.expire_watches();
    }
    cluster.api.wait("lists", || discovery.status().slices.lists >= 4).await;
    assert_eq!(discovery.status().slices.failures, 0);
    assert_eq!(pods_of(&targets).unwrap(), ["etcd-0"]);
}

#[tokio::test]
async fn a_connection_that_dies_silently_is_given_up() {
    // Bookmarks come far more often than silence is noticed; if the machine stalls, one watch more is opened, no harm done.
    let options = ApiOptions { bookmark_interval: Duration::from_millis(20), ..ApiOptions::default() };
    let cluster = Cluster::start_with(options).await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let patience = Duration::from_millis(300);
    let discovery = cluster.discovery_with(Timing { silence: patience, answer: patience, ..impatient() });
    let targets = discovery.targets(etcd());
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
    cluster.api.freeze_watches(true);
    cluster.apply_etcd("a", &[("etcd-1", 2)]);
    let says = |text: &str| discovery.status().slices.error.is_some_and(|error| error.contains(text));
    cluster.api.wait("silence", || says("nothing came") || says("no answer")).await;
    // New watches are not even answered.
    cluster.api.wait("no answer", || says("no answer in time")).await;
    assert_eq!(pods_of(&targets).unwrap(), ["etcd-0"]);
    cluster.api.freeze_watches(false);
    cluster.wait_for_pods(&targets, &["etcd-1"]).await;
}

#[tokio::test]
async fn a_server_that_only_refuses_is_asked_ever_more_rarely_and_then_believed_again() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait_for_watches(SLICES, 1).await;
    for code in [429, 500, 503] {
        cluster.api.fail_with(Some(code));
        cluster.api.drop_watches();
        let says = |text: &str| discovery.status().slices.error.is_some_and(|error| error.contains(text));
        cluster.api.wait("the status", || says(&format!("answers {code}"))).await;
        assert_eq!(pods_of(&targets).unwrap(), ["etcd-0"]);
        cluster.api.fail_with(None);
        cluster.api.wait_for_watches(SLICES, 1).await;
    }
}

#[tokio::test]
async fn rights_that_come_late_are_enough() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    cluster.api.forbid("watch", SLICES);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    // What was listed is served, even if nobody tells what becomes of it.
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
    cluster.api.wait("403", || discovery.status().slices.error.is_some_and(|error| error.contains("403"))).await;
    cluster.api.allow_all();
    cluster.apply_etcd("a", &[("etcd-1", 2)]);
    cluster.wait_for_pods(&targets, &["etcd-1"]).await;
}

#[tokio::test]
async fn watches_that_end_at_once_are_not_asked_for_at_once() {
    let cluster = Cluster::start().await;
    let pause = Duration::from_millis(100);
    let discovery = cluster.discovery_with(Timing { first_pause: pause, longest_pause: pause, ..impatient() });
    let _targets = discovery.targets(etcd());
    let begun = Instant::now();
    while cluster.api.count("watch", SLICES) < 5 {
        cluster.api.end_watches();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(begun.elapsed() < Duration::from_secs(30));
    }
    // Half a pause at least lies between two of them.
    assert!(begun.elapsed() >= 4 * pause / 2, "{:?}", begun.elapsed());
    assert!(discovery.status().slices.failures > 0);
}

#[tokio::test]
async fn bookmarks_keep_the_targets_of_a_quiet_cluster_young() {
    let options = ApiOptions { bookmark_interval: Duration::from_millis(20), ..ApiOptions::default() };
    let cluster = Cluster::start_with(options).await;
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &[]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    grows_young(&cluster, &targets).await;
    assert_eq!(cluster.api.count("watch", SLICES), 1);
}

#[tokio::test]
async fn renewed_watches_keep_the_targets_of_a_quiet_cluster_young() {
    let cluster = Cluster::start().await;
    let discovery = cluster.discovery_with(Timing { watch: Duration::from_secs(1), ..impatient() });
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &[]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    grows_young(&cluster, &targets).await;
    assert!(cluster.api.count("watch", SLICES) > 1);
    assert_eq!(cluster.api.count("list", SLICES), 1);
    assert_eq!(discovery.status().slices.error, None);
}

/// Waits until the age falls, again and again, though nothing changes.
async fn grows_young(cluster: &Cluster, targets: &sluice_discovery::Targets) {
    for _ in 0..2 {
        let before = std::cell::Cell::new(Duration::ZERO);
        let falls = || {
            let age = targets.age().unwrap();
            age < before.replace(age)
        };
        cluster.api.wait("a younger age", falls).await;
    }
}

#[tokio::test]
async fn one_odd_object_costs_neither_the_others_nor_the_watch() {
    let cluster = Cluster::start().await;
    let odd = |name: &str, fields: serde_json::Value| {
        let mut slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "etcd-client"}},
        });
        slice.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        cluster.api.apply(slice);
    };
    let endpoint = json!([{"addresses": ["10.0.0.9"], "targetRef": {"kind": "Pod", "name": "odd"}}]);
    let all_odd = || {
        odd("c-port", json!({"endpoints": endpoint, "ports": [{"name": "metrics", "port": 99_999}]}));
        odd("d-nulls", json!({"endpoints": null, "ports": null}));
        odd("e-address", json!({"endpoints": [{"addresses": null}, null], "ports": [{"name": "metrics", "port": 1}]}));
        odd("f-nonsense", json!({"endpoints": "x", "ports": {"a": [1]}, "addressType": 7}));
    };
    cluster.apply_etcd("b", &[("etcd-0", 1)]);
    all_odd();
    cluster.apply_etcd("g", &[("etcd-1", 2)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &["etcd-0", "etcd-1"]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    for name in ["c-port", "d-nulls", "e-address", "f-nonsense"] {
        cluster.delete_slice(name);
    }
    all_odd();
    cluster.apply_etcd("h", &[("etcd-2", 3)]);
    cluster.wait_for_pods(&targets, &["etcd-0", "etcd-1", "etcd-2"]).await;
    assert_eq!((cluster.api.count("list", SLICES), cluster.api.count("watch", SLICES)), (1, 1));
}
