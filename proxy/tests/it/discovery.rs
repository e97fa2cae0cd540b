//! Pods that the management cluster knows, and none that are written down.

use serde_json::json;
use sluice_loadtest::api::{ApiOptions, ApiServer, endpoint_slice, pod};
use sluice_loadtest::certificate::write_atomically;
use sluice_loadtest::pod::{Pod, PodOptions, PodTls};
use sluice_loadtest::scraper::Scraper;

use crate::stage::{Stage, eventually, labels};

const NAMESPACE: &str = "clusters-demo";

/// A stage whose components are found in a management cluster: `etcd` by its Service, `autoscaler` by a selector.
async fn start() -> (Stage, ApiServer) {
    let mut stage = Stage::new().await;
    let management = ApiServer::start(ApiOptions::default()).await;
    write_atomically(stage.dir.path(), "management", management.kubeconfig().as_bytes());
    stage.config["discovery"] = json!({"namespace": NAMESPACE, "kubeconfig": "management"});
    stage.config["components"]["etcd"] =
        json!({"service": "etcd-client", "port": "metrics", "scheme": "http", "labels": labels("etcd")});
    stage.config["components"]["autoscaler"] = json!({
        "podSelector": {"matchLabels": {"app": "autoscaler"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]},
        "port": "metrics", "scheme": "http", "labels": labels("autoscaler"),
    });
    (stage, management)
}

/// Pods on addresses of their own and one port, as pods have it.
fn start_pods(count: u8) -> Vec<Pod> {
    let plain = |address| Pod::start(PodOptions { address, body: "a 1\n".into(), tls: PodTls::Plain });
    // The first chooses the port; an address that is taken there is another test's, and the next is tried.
    let net = std::process::id().to_be_bytes();
    let ip = |last| std::net::Ipv4Addr::new(127, net[2] | 1, net[3], last);
    let first = plain((ip(1), 0).into());
    let port = first.address().port();
    let mut pods = vec![first];
    pods.extend((2..=count).map(|last| plain((ip(last), port).into())));
    pods
}

fn slice(pods: &[Pod]) -> serde_json::Value {
    let endpoints: Vec<_> =
        pods.iter().enumerate().map(|(n, p)| (format!("etcd-{n}"), p.address().ip().to_string())).collect();
    let endpoints: Vec<_> = endpoints.iter().map(|(name, ip)| (name.as_str(), ip.as_str())).collect();
    endpoint_slice(NAMESPACE, "etcd-client-x", "etcd-client", Some("metrics"), pods[0].address().port(), &endpoints)
}

#[tokio::test]
async fn scrapes_follow_the_cluster_and_make_no_call_themselves() {
    let (stage, management) = start().await;
    let pods = start_pods(3);
    management.apply(slice(&pods[..2]));
    let sluice = stage.sluice().await;
    eventually("ready", || async { sluice.admin("/readyz").await.status == 200 }).await;
    let names = async || {
        let up = sluice.scrape("etcd").await.samples_named("up");
        up.iter().map(|sample| sample.label("pod").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names().await, ["etcd-0", "etcd-1"]);
    let calls = management.requests().len();
    for _ in 0..20 {
        sluice.scrape("etcd").await;
    }
    assert_eq!(management.requests().len(), calls, "twenty scrapes, no call");
    management.apply(slice(&pods));
    eventually("the third pod is scraped", || async { names().await.len() == 3 }).await;
    management.apply(slice(&pods[2..]));
    eventually("only the first name is left", || async { names().await == ["etcd-0"] }).await;

    let ip = pods[1].address().ip().to_string();
    let nobody = Scraper::new(sluice.prometheus()).scrape("/metrics/autoscaler").await.unwrap();
    assert_eq!(nobody.status, 502);
    management.apply(pod(
        NAMESPACE,
        "autoscaler-x",
        &[("app", "autoscaler")],
        &ip,
        &[("metrics", pods[1].address().port())],
    ));
    management.apply(pod(NAMESPACE, "autoscaler-old", &[("app", "autoscaler"), ("old", "")], &ip, &[("metrics", 1)]));
    eventually("the selected pod is scraped", || async {
        let scraped = Scraper::new(sluice.prometheus()).scrape("/metrics/autoscaler").await.unwrap();
        scraped.status == 200 && scraped.samples_named("up").len() == 1
    })
    .await;
}

#[tokio::test]
async fn before_the_pods_are_known_it_is_not_ready_and_afterwards_it_survives_an_outage() {
    let (stage, management) = start().await;
    let pods = start_pods(2);
    management.apply(slice(&pods));
    management.stop().await;
    let sluice = stage.sluice().await;
    let early = Scraper::new(sluice.prometheus()).scrape("/metrics/etcd").await.unwrap();
    assert_eq!((early.status.as_u16(), early.header("retry-after")), (503, Some("5")));
    let ready = sluice.admin("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("the pods are not known yet"), "{}", ready.text());
    management.start_again().await;
    eventually("ready", || async { sluice.admin("/readyz").await.status == 200 }).await;
    assert_eq!(sluice.scrape("etcd").await.samples_named("up").len(), 2);
    management.stop().await;
    assert_eq!(sluice.scrape("etcd").await.samples_named("up").len(), 2, "the last word stays in force");
    assert_eq!(sluice.admin("/readyz").await.status, 200);
    let age = async || sluice.metric("sluice_discovery_last_event_seconds", &[("watch", "endpointslices")]).await;
    let before = age().await;
    eventually("its age is told", || async { age().await > before + 0.5 }).await;
}

#[tokio::test]
async fn another_management_cluster_in_the_same_kubeconfig_is_followed_without_a_failed_scrape() {
    let (stage, management) = start().await;
    let pods = start_pods(2);
    management.apply(slice(&pods[..1]));
    let sluice = stage.sluice().await;
    eventually("ready", || async { sluice.admin("/readyz").await.status == 200 }).await;
    let other = ApiServer::start(ApiOptions::default()).await;
    other.apply(slice(&pods));
    write_atomically(stage.dir.path(), "management", other.kubeconfig().as_bytes());
    sluice.reload();
    // `scrape` fails on anything but 200.
    eventually("both pods are scraped", || async { sluice.scrape("etcd").await.samples_named("up").len() == 2 }).await;
    write_atomically(stage.dir.path(), "management", b"nonsense: [");
    sluice.reload();
    sluice.process.wait_for_line(|line| line.contains("cannot be renewed")).await;
    other.apply(slice(&pods[1..]));
    eventually("the last good way is still followed", || async {
        sluice.scrape("etcd").await.samples_named("up").len() == 1
    })
    .await;
}
