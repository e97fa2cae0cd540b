use std::collections::BTreeSet;
use std::fs;

use super::*;
use crate::scraper::Scraper;

fn small(name: &str) -> ClusterOptions {
    ClusterOptions { name: name.into(), api_server_body: ApiServerBody::Bytes(10_000), ..ClusterOptions::default() }
}

fn endpoints(cluster: &HostedCluster, service: &str) -> Vec<(String, String)> {
    let slice = format!("{service}-1");
    let slice = cluster.management().get("discovery.k8s.io/v1", "EndpointSlice", &cluster.namespace(), &slice).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let port = &slice["ports"][0]["port"];
    let address = |endpoint: &serde_json::Value| format!("{}:{port}", text(&endpoint["addresses"][0]));
    let endpoints = slice["endpoints"].as_array().unwrap().iter();
    endpoints.map(|endpoint| (text(&endpoint["targetRef"]["name"]), address(endpoint))).collect()
}

#[tokio::test]
async fn pods_of_a_component_share_a_port_on_addresses_of_their_own_as_the_api_server_says() {
    let cluster = HostedCluster::start(small("ports")).await;
    let mut seen = BTreeSet::new();
    for name in cluster.components() {
        let pods = cluster.pods_of(name);
        let addresses: Vec<_> = pods.iter().map(|pod| cluster.pod(pod).unwrap().address()).collect();
        for address in &addresses {
            assert_eq!(address.port(), addresses[0].port(), "{name}");
            assert!(address.ip().to_string().starts_with("127.0.1."), "{address}");
            assert!(seen.insert(address.ip()), "{address} is another's");
        }
        for pod in pods {
            assert!(cluster.management().get("v1", "Pod", &cluster.namespace(), pod).is_some(), "{pod}");
        }
    }
    let told = endpoints(&cluster, "etcd-client");
    let expected = ["etcd-0", "etcd-1", "etcd-2"];
    let expected = expected.map(|pod| (pod.to_owned(), cluster.pod(pod).unwrap().address().to_string()));
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_replaced_pod_has_another_name_and_address_and_the_same_port() {
    let mut cluster = HostedCluster::start(small("replaced")).await;
    let old = cluster.pod("etcd-1").unwrap().address();
    assert_eq!(cluster.replace("etcd-1"), Ok("etcd-3".to_owned()));
    assert_eq!(cluster.pods_of("etcd"), ["etcd-0", "etcd-2", "etcd-3"]);
    let new = cluster.pod("etcd-3").unwrap().address();
    assert_eq!(new.port(), old.port());
    assert_ne!(new.ip(), old.ip());
    let names: Vec<String> = endpoints(&cluster, "etcd-client").into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["etcd-0", "etcd-2", "etcd-3"]);
    assert_eq!(cluster.management().get("v1", "Pod", &cluster.namespace(), "etcd-1"), None);
    assert!(tokio::net::TcpStream::connect(old).await.is_err(), "the old one is gone");

    assert_eq!(cluster.replace("etcd-1"), Err(NoSuchPod("etcd-1".into())));
    for _ in 0..600 {
        let oldest = cluster.pods_of("cluster-autoscaler")[0].to_owned();
        cluster.replace(&oldest).unwrap();
    }
}

#[tokio::test]
async fn many_clusters_run_side_by_side_even_in_one_net_and_under_one_api_server() {
    let first = HostedCluster::start(small("first")).await;
    let shared = Management::Shared(first.management().clone());
    let second = HostedCluster::start(ClusterOptions { management: shared, ..small("second") }).await;
    let third = HostedCluster::start(ClusterOptions { net: Net::new(300), pods: Some(1), ..small("third") }).await;
    let pods = |cluster: &HostedCluster| first.management().list("v1", "Pod", Some(&cluster.namespace())).len();
    assert_eq!((pods(&first), pods(&second), pods(&third)), (22, 22, 0));
    assert_eq!(third.pod("etcd-0").unwrap().address().ip().to_string(), "127.1.44.11");
    assert_eq!(third.components().count(), 12);
}

#[tokio::test]
async fn killed_pods_refuse_until_they_are_restored() {
    let cluster = HostedCluster::start(small("killed")).await;
    let address = cluster.pod("cluster-autoscaler-0").unwrap().address();
    let scraper = Scraper::new(ScraperOptions::plain(address));
    let expected = cluster.expected("cluster-autoscaler");
    assert_eq!(scraper.scrape("/metrics").await.unwrap().sample_count(), expected.samples);
    cluster.kill("cluster-autoscaler-0").unwrap();
    assert!(scraper.scrape("/metrics").await.is_err());
    cluster.restore("cluster-autoscaler-0").unwrap();
    assert_eq!(scraper.scrape("/metrics").await.unwrap().status, 200);
}

#[tokio::test]
async fn the_pods_of_a_component_have_the_same_series_and_differ() {
    let bodies: Vec<_> = (0..3).map(|number| body::body("etcd", ApiServerBody::Captured, number)).collect();
    assert_ne!(bodies[0], bodies[1]);
    assert_ne!(bodies[1], bodies[2]);
    let series = |body: &[u8]| {
        let samples = crate::scraper::parse(body).unwrap();
        samples.into_iter().map(|sample| (sample.name, sample.labels)).collect::<Vec<_>>()
    };
    assert_eq!(series(&bodies[0]), series(&bodies[2]));
}

#[tokio::test]
async fn what_is_expected_follows_from_the_rules() {
    let everything = HostedCluster::start(ClusterOptions { metrics_set: MetricsSet::Everything, ..small("all") }).await;
    let etcd = everything.expected("etcd");
    assert_eq!(etcd, Expected { pods: 3, samples: 3738, kept: 3738 });
    assert_eq!(etcd.answered(), 3744);
    assert_eq!(everything.samples_of("etcd"), 3738);

    let telemetry = ClusterOptions { metrics_set: MetricsSet::Telemetry, ..small("telemetry") };
    let telemetry = HostedCluster::start(telemetry).await;
    assert_eq!(telemetry.expected("kube-scheduler").kept, 0);
    assert_eq!(telemetry.expected("node-tuning-operator").kept, 2);
    let config = fs::read_to_string(telemetry.config_path()).unwrap();
    assert!(
        config.contains("{action: keep, sourceLabels: [__name__], regex: 'nto_profile_calculated_total'}"),
        "{config}"
    );
}

#[tokio::test]
async fn the_directory_has_every_file_that_the_configuration_names_and_goes_with_the_cluster() {
    let cluster = HostedCluster::start(small("files")).await;
    let config = fs::read_to_string(cluster.config_path()).unwrap();
    let words = config.split([' ', '{', '}', ',', '\n']);
    let files: BTreeSet<&str> = words
        .filter(|word| ["crt", "key", "kubeconfig"].iter().any(|end| word.ends_with(end) && word.contains('/')))
        .collect();
    assert_eq!(files.len(), 11, "{files:?}");
    for file in files {
        assert!(cluster.dir().join(file).is_file(), "{file}");
    }
    let serving = cluster.dir().join("serving/tls.crt");
    let before = fs::read(&serving).unwrap();
    cluster.renew_serving_certificate();
    assert_ne!(fs::read(&serving).unwrap(), before);

    let dir = cluster.dir().to_owned();
    let (etcd, hosted) = (cluster.pod("etcd-0").unwrap().address(), cluster.hosted().address());
    drop(cluster);
    assert!(!dir.exists());
    assert!(tokio::net::TcpStream::connect(etcd).await.is_err());
    let start = std::time::Instant::now();
    while tokio::net::TcpStream::connect(hosted).await.is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "the API server is still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
