//! What is asked of the API server follows from what is asked of us, and no more.

use crate::support::{Cluster, NAMESPACE, SLICES, etcd, etcd_in, pods_of, with_label};
use sluice_discovery::{Discovery, Port, Query, Scope, Source, Target, Targets};
use sluice_loadtest::api::{ApiOptions, ApiTls, ApiUser, pod};
use sluice_loadtest::certificate::Authority;

#[tokio::test]
async fn one_list_and_one_watch_serve_all_queries() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let by_number = |port| discovery.targets(Query { port: Port::Number(port), ..etcd() });
    let many: Vec<_> = (1..=20).map(by_number).collect();
    for (targets, port) in many.iter().zip(1..) {
        cluster.wait_for_pods(targets, &["etcd-0"]).await;
        assert_eq!(targets.load().unwrap()[0].address.port(), port);
    }
    cluster.api.wait_for_watches(SLICES, 1).await;
    // One that comes later has its answer at once.
    let late = discovery.targets(etcd());
    assert_eq!(pods_of(&late).unwrap(), ["etcd-0"]);
    cluster.apply_etcd("b", &[("etcd-1", 2)]);
    cluster.wait_for_pods(&late, &["etcd-0", "etcd-1"]).await;
    cluster.wait_for_pods(&many[0], &["etcd-0", "etcd-1"]).await;
    assert_eq!((cluster.api.count("list", SLICES), cluster.api.count("watch", SLICES)), (1, 1));
}

#[tokio::test]
async fn only_slices_of_services_in_the_one_namespace_are_asked_for() {
    let cluster = Cluster::start().await;
    let discovery = cluster.discovery();
    let elsewhere = discovery.targets(etcd_in("clusters-other"));
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &[]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    for request in cluster.api.requests() {
        assert_eq!(request.path, format!("/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"));
        assert!(request.query.contains("labelSelector=kubernetes.io%2Fservice-name"), "{}", request.query);
    }
    assert!(elsewhere.load().is_none(), "there are no rights to know");
    assert!(!discovery.status().synced());
}

#[tokio::test]
async fn pods_are_watched_only_while_somebody_selects_some() {
    let cluster = Cluster::start().await;
    let labels = [("app", "autoscaler"), ("tier", "x")];
    cluster.api.apply(pod(NAMESPACE, "autoscaler-1", &labels, "10.0.0.1", &[("metrics", 8085)]));
    cluster.api.apply(pod(NAMESPACE, "other", &[], "10.0.0.2", &[("metrics", 8085)]));
    let discovery = cluster.discovery();
    let slices = discovery.targets(etcd());
    cluster.wait_for_pods(&slices, &[]).await;
    assert!(discovery.status().pods.age.is_none());
    let selected = discovery.targets(with_label("app", "autoscaler"));
    cluster.wait_for_pods(&selected, &["autoscaler-1"]).await;
    cluster.api.wait_for_watches("pods", 1).await;
    cluster.api.apply(pod(NAMESPACE, "autoscaler-2", &labels, "fd00::1", &[("metrics", 8086)]));
    cluster.wait_for_pods(&selected, &["autoscaler-1", "autoscaler-2"]).await;
    assert_eq!(selected.load().unwrap()[1].address.to_string(), "[fd00::1]:8086");
    // A selector by another label needs another list, and the same watch.
    let by_tier = discovery.targets(with_label("tier", "x"));
    cluster.wait_for_pods(&by_tier, &["autoscaler-1", "autoscaler-2"]).await;
    assert_eq!((cluster.api.count("list", "pods"), cluster.api.count("watch", "pods")), (2, 1));
    drop((selected, by_tier));
    cluster.api.wait_for_watches("pods", 0).await;
    assert!(!discovery.status().pods.wanted);
    assert_eq!(cluster.api.watches_of(SLICES), 1);
    let again = discovery.targets(with_label("app", "autoscaler"));
    assert!(again.load().is_none(), "what was not watched may have changed");
    cluster.wait_for_pods(&again, &["autoscaler-1", "autoscaler-2"]).await;
}

#[tokio::test]
async fn a_dropped_query_is_forgotten_and_the_last_handle_ends_it_all() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    drop(targets);
    cluster.api.wait_for_watches(SLICES, 0).await;
    assert!(!discovery.status().slices.wanted);

    let targets = discovery.targets(etcd());
    let clone = targets.clone();
    drop((discovery, targets));
    cluster.wait_for_pods(&clone, &["etcd-0"]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.apply_etcd("a", &[("etcd-1", 2)]);
    cluster.wait_for_pods(&clone, &["etcd-1"]).await;
    drop(clone);
    cluster.api.wait_for_watches(SLICES, 0).await;
}

#[tokio::test]
async fn a_reload_with_the_same_query_asks_nothing() {
    let cluster = Cluster::start().await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let mut targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    for _ in 0..100 {
        targets = discovery.targets(etcd());
        assert_eq!(pods_of(&targets).unwrap(), ["etcd-0"]);
        tokio::task::yield_now().await;
    }
    cluster.apply_etcd("a", &[("etcd-1", 2)]);
    cluster.wait_for_pods(&targets, &["etcd-1"]).await;
    assert_eq!((cluster.api.count("list", SLICES), cluster.api.count("watch", SLICES)), (1, 1));
}

#[tokio::test]
async fn one_watch_across_namespaces_lists_those_that_are_asked_for() {
    let cluster = Cluster::start().await;
    for namespace in ["one", "two", "three", "unasked"] {
        cluster.apply_etcd_in(namespace, "a", &[(&format!("etcd-of-{namespace}"), 1)]);
    }
    let discovery = cluster.discovery_of_all();
    // A tenant that asks for nonsense does not keep the others waiting.
    let nonsense = ["", "../kube-system", "No Name"].map(|name| discovery.targets(etcd_in(name)));
    let one = discovery.targets(etcd_in("one"));
    let two = discovery.targets(etcd_in("two"));
    cluster.wait_for_pods(&one, &["etcd-of-one"]).await;
    cluster.wait_for_pods(&two, &["etcd-of-two"]).await;
    cluster.api.wait_for_watches(SLICES, 1).await;
    cluster.apply_etcd_in("two", "b", &[("etcd-new", 2)]);
    cluster.apply_etcd_in("three", "b", &[("etcd-new", 2)]);
    cluster.wait_for_pods(&two, &["etcd-new", "etcd-of-two"]).await;
    // A tenant comes: its namespace is listed while the one watch goes on.
    let three = discovery.targets(etcd_in("three"));
    cluster.wait_for_pods(&three, &["etcd-new", "etcd-of-three"]).await;
    cluster.apply_etcd_in("three", "b", &[]);
    cluster.wait_for_pods(&three, &["etcd-of-three"]).await;
    assert_eq!((cluster.api.count("list", SLICES), cluster.api.count("watch", SLICES)), (3, 1));
    let watched = cluster.api.requests().into_iter().find(|request| request.verb == "watch").unwrap();
    assert_eq!(watched.path, "/apis/discovery.k8s.io/v1/endpointslices");
    assert!(cluster.api.requests().iter().all(|request| !request.path.contains("unasked")));
    assert!(nonsense.iter().all(|targets| targets.load().is_none()));
    // It goes and comes back.
    drop(three);
    cluster.apply_etcd_in("three", "a", &[("etcd-back", 3)]);
    let three = discovery.targets(etcd_in("three"));
    cluster.wait_for_pods(&three, &["etcd-back"]).await;
    assert_eq!(pods_of(&one).unwrap(), ["etcd-of-one"]);
}

#[tokio::test]
async fn a_long_list_comes_in_pages_and_counts_when_it_is_complete() {
    let cluster = Cluster::start().await;
    let names: Vec<_> = (0..130).map(|number| format!("etcd-{number:03}")).collect();
    for name in &names {
        cluster.apply_etcd(name, &[(name, 1)]);
    }
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.api.wait("targets", || targets.load().is_some()).await;
    assert_eq!(pods_of(&targets).unwrap(), names);
    assert_eq!(cluster.api.count("list", SLICES), 3);
    assert_eq!(discovery.status().slices.lists, 1);
}

#[tokio::test]
async fn an_api_server_with_certificates_is_reached() {
    let (authority, clients) = (Authority::new("kube-ca"), Authority::new("client-ca"));
    let (server, client) = (authority.server(&["127.0.0.1"]), clients.client("sluice", &[]));
    let options = ApiOptions {
        tls: Some(ApiTls { certificate: server.cert_pem, key: server.key_pem, authority: authority.cert_pem() }),
        client_authority: Some(clients.cert_pem()),
        user: Some(ApiUser::Certificate { certificate: client.cert_pem, key: client.key_pem }),
        ..ApiOptions::default()
    };
    let cluster = Cluster::start_with(options).await;
    cluster.apply_etcd("a", &[("etcd-0", 1)]);
    let discovery = cluster.discovery();
    let targets = discovery.targets(etcd());
    cluster.wait_for_pods(&targets, &["etcd-0"]).await;
    assert!(cluster.api.requests().iter().all(|request| request.certificate));
}

#[tokio::test]
async fn outside_of_a_cluster_that_is_said() {
    let discovery = Discovery::start(Source::InCluster, Scope::AllNamespaces);
    let targets = discovery.targets(etcd());
    let cluster = Cluster::start().await;
    cluster.api.wait("an error", || discovery.status().slices.error.is_some()).await;
    assert!(targets.load().is_none());
}

#[test]
fn fixed_targets_need_nothing_and_have_no_age() {
    let target = |pod: &str| Target { pod: pod.into(), address: "10.0.1.5:9979".parse().unwrap() };
    let targets = Targets::fixed(vec![target("etcd-1"), target("etcd-0")]);
    assert_eq!(*targets.load().unwrap(), [target("etcd-0"), target("etcd-1")]);
    assert!(targets.age().is_none());
}
