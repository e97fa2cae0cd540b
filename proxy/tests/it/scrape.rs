//! A scrape that goes well.

use serde_json::json;
use sluice_loadtest::certificate::Issued;
use sluice_loadtest::corpus;
use sluice_loadtest::pod::PodTls;
use sluice_loadtest::scraper::{Prometheus, Protocol, Scraper, ScraperOptions};

use crate::stage::{PROMETHEUS, Stage, start_pod};

#[tokio::test]
async fn pods_of_a_component_come_as_one_valid_response_with_the_labels_of_a_standalone_cluster() {
    let mut stage = Stage::new().await;
    let bodies = ["# TYPE up_since gauge\nup_since{zone=\"a\"} 1\n", "# TYPE up_since gauge\nup_since 2\n"];
    let pods = stage.plain_component("etcd", &bodies);
    let sluice = stage.sluice().await;
    let scraped = sluice.scrape("etcd").await;
    let [first, second] = [0, 1].map(|pod: usize| {
        let instance = pods[pod].address();
        format!("pod=\"etcd-{pod}\",namespace=\"openshift-etcd\",job=\"etcd\",service=\"etcd-svc\",endpoint=\"https\",instance=\"{instance}\"")
    });
    let errors = "metrics_aggregator_pod_scrape_errors_total";
    let source = "component=\"etcd\",proxy=\"sluice-0\"";
    assert_eq!(
        scraped.text(),
        format!(
            "# TYPE up_since gauge\nup_since{{{first},zone=\"a\"}} 1\nup_since{{{second}}} 2\n\
             # HELP {errors} Total number of pod scrape errors per component and pod.\n# TYPE {errors} counter\n\
             {errors}{{{first},{source}}} 0\n{errors}{{{second},{source}}} 0\n\
             # HELP up 1 if the pod was scraped successfully, 0 if the scrape failed.\n# TYPE up gauge\n\
             up{{{first}}} 1\nup{{{second}}} 1\n"
        )
    );
    assert_eq!(scraped.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
}

type Change = fn(ScraperOptions, &Issued) -> ScraperOptions;

#[tokio::test]
async fn every_way_to_speak_to_it_gives_the_same_metrics() {
    let mut stage = Stage::new().await;
    let body = String::from_utf8(corpus::kube_scheduler().to_vec()).unwrap();
    let pods = [start_pod(&body, stage.pod_tls()), start_pod(&body, stage.pod_tls())];
    stage.component("kube-scheduler", &pods, json!({"tlsConfig": Stage::mutual_tls()}));
    let sluice = stage.sluice().await;
    let expected = sluice.scrape("kube-scheduler").await;
    assert_eq!(expected.sample_count(), 2 * corpus::sample_lines(body.as_bytes()) + 4);
    let client = stage.client_ca.client(PROMETHEUS, &[]);
    let ways: [(&str, Change); 6] = [
        ("identity", |options, _| ScraperOptions { gzip: false, ..options }),
        ("HTTP/2", |options, _| ScraperOptions { protocol: Protocol::Http2, ..options }),
        ("HTTP/2 without gzip", |options, _| ScraperOptions { protocol: Protocol::Http2, gzip: false, ..options }),
        ("client certificate", |options, client| ScraperOptions { bearer: None, ..options }.with_client(client)),
        ("Prometheus 3", |options, _| ScraperOptions { prometheus: Prometheus::Three, ..options }),
        ("TLS 1.2", |mut options, _| {
            static TLS12_ONLY: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];
            options.tls.as_mut().unwrap().versions = TLS12_ONLY;
            options
        }),
    ];
    for (way, change) in ways {
        let scraper = Scraper::new(change(sluice.prometheus(), &client));
        let scraped = scraper.scrape("/metrics/kube-scheduler").await.unwrap_or_else(|error| panic!("{way}: {error}"));
        assert_eq!(scraped.status, 200, "{way}");
        assert_eq!(scraped.body, expected.body, "{way}");
    }
    assert!(
        expected.header("content-encoding") == Some("gzip") && expected.wire_bytes < expected.body.len() as u64 / 4
    );
}

#[tokio::test]
async fn pods_are_asked_for_text_by_us_and_not_by_what_the_scraper_accepts() {
    let mut stage = Stage::new().await;
    let pods = [start_pod("a 1\n", stage.pod_tls()), start_pod("a 1\n", PodTls::Plain)];
    stage.component(
        "mutual",
        &pods[..1],
        json!({"tlsConfig": Stage::mutual_tls(), "path": "/stats", "params": {"a b": ["1", "ü"], "c": ["x"]}}),
    );
    stage.component("plain", &pods[1..], json!({"scheme": "http"}));
    let sluice = stage.sluice().await;
    sluice.scrape("mutual").await;
    sluice.scrape("plain").await;
    let [mutual, plain] = [0, 1].map(|pod: usize| pods[pod].requests()[0].clone());
    assert_eq!(
        (&*mutual.method, &*mutual.path, mutual.query.as_deref()),
        ("GET", "/stats", Some("a%20b=1&a%20b=%C3%BC&c=x"))
    );
    assert_eq!(mutual.client_cert_common_name.as_deref(), Some("sluice"));
    assert_eq!((&*plain.path, plain.query.as_deref()), ("/metrics", None));
    for request in [mutual, plain.clone()] {
        assert_eq!(request.header("accept"), Some("text/plain;version=0.0.4"));
        assert_eq!(request.header("accept-encoding"), Some("identity"));
        assert_eq!(request.header("authorization"), None, "a scraper's token is nobody else's business");
    }
    assert_eq!(plain.header("host"), Some(&*pods[1].address().to_string()));
}
