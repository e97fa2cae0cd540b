//! Pods that misbehave: each in its way, and always the others are complete.

use std::time::Duration;

use serde_json::json;
use sluice_loadtest::corpus;
use sluice_loadtest::pod::{Behaviour, Framing, Pod, PodTls};
use sluice_loadtest::scraper::{Scraped, Scraper, ScraperOptions};

use crate::stage::{Sluice, Stage, start_pod};

/// Three pods; the second misbehaves.
struct Trio {
    /// Held so that the API server answers.
    _stage: Stage,
    pods: Vec<Pod>,
    body: String,
    sluice: Sluice,
}

impl Trio {
    async fn new(body: &str) -> Self {
        Self::with(body, json!({})).await
    }

    async fn with(body: &str, more: serde_json::Value) -> Self {
        let mut stage = Stage::new().await;
        let pods = vec![start_pod(body, PodTls::Plain), start_pod(body, PodTls::Plain), start_pod(body, PodTls::Plain)];
        let mut section = json!({"scheme": "http"});
        section.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stage.component("etcd", &pods, section);
        let sluice = stage.sluice().await;
        Self { _stage: stage, pods, body: body.into(), sluice }
    }

    /// Scrapes with this many seconds.
    async fn scrape(&self, seconds: u64) -> Scraped {
        let options = ScraperOptions { timeout: Duration::from_secs(seconds), ..self.sluice.prometheus() };
        let scraped = Scraper::new(options).scrape("/metrics/etcd").await.unwrap();
        assert_eq!(scraped.status, 200, "{}", scraped.text());
        scraped
    }

    /// What a scrape says when only the second pod failed: the others are whole, and it is said that it is not.
    fn assert_only_second_failed(&self, scraped: &Scraped, what: &str, errors: u64) {
        let samples = scraped.samples(|_| true);
        let of = |pod: &'static str| samples.iter().filter(move |sample| sample.label("pod") == pod);
        let whole = corpus::sample_lines(self.body.as_bytes());
        // Two of our own for each pod.
        assert_eq!(of("etcd-0").count(), whole + 2, "{what}");
        assert_eq!(of("etcd-2").count(), whole + 2, "{what}");
        let value = |pod: &'static str, name: &str| of(pod).find(|sample| sample.name == name).unwrap().value.clone();
        let up = ["etcd-0", "etcd-1", "etcd-2"].map(|pod| value(pod, "up"));
        assert_eq!(up, ["1", "0", "1"], "{what}");
        let counted =
            ["etcd-0", "etcd-1", "etcd-2"].map(|pod| value(pod, "metrics_aggregator_pod_scrape_errors_total"));
        assert_eq!(counted, ["0", &errors.to_string(), "0"], "{what}");
    }
}

#[tokio::test]
async fn whatever_one_pod_does_the_others_are_complete_and_it_is_told() {
    let body = String::from_utf8(corpus::etcd().to_vec()).unwrap();
    let trio = Trio::new(&body).await;
    let bad = &trio.pods[1];
    let cases = [
        (Behaviour::RefuseConnections, "connect"),
        (Behaviour::CutAfter(0), "truncated"),
        (Behaviour::CutAfter(70_001), "truncated"),
        (Behaviour::ResetAfter(70_001), "truncated"),
        (Behaviour::Redirect("http://127.0.0.1:1/metrics".into()), "status"),
        (Behaviour::status(500), "status"),
        (Behaviour::status(404), "status"),
        (Behaviour::Status { code: 503, bytes: 50_000_000 }, "status"),
        (Behaviour::LieAboutLength { declared: 1_000_000 }, "truncated"),
        (Behaviour::Garbage, "syntax"),
        (Behaviour::BadLineAt(1), "syntax"),
        (Behaviour::BadLineAt(400), "syntax"),
        (Behaviour::EndlessLine, "line_limit"),
        (Behaviour::HugeHeaders(100_000), "http"),
        (Behaviour::NotHttp, "http"),
        (Behaviour::Gzip, "content_encoding"),
    ];
    for (number, (behaviour, reason)) in cases.into_iter().enumerate() {
        let before = trio.sluice.metric("sluice_pod_scrapes_total", &[("outcome", reason)]).await;
        bad.behave(behaviour.clone());
        let scraped = trio.scrape(10).await;
        trio.assert_only_second_failed(&scraped, &format!("{behaviour:?}"), number as u64 + 1);
        let after = trio.sluice.metric("sluice_pod_scrapes_total", &[("outcome", reason)]).await;
        assert!((after - before - 1.0).abs() < 0.1, "{behaviour:?} counts as {reason}");
        bad.behave(Behaviour::Serve);
    }
    let recovered = trio.scrape(10).await;
    assert_eq!(recovered.samples_named("up").iter().filter(|up| up.value == "1").count(), 3);
    bad.wait_for(|stats| stats.open == 0).await;
}

#[tokio::test]
async fn a_chunked_body_that_is_cut_is_no_end_even_between_two_chunks() {
    let body = "a 1\n".repeat(Framing::CHUNK);
    let trio = Trio::new(&body).await;
    trio.pods[1].set_framing(Framing::Chunked);
    for (number, cut) in [Framing::CHUNK, Framing::CHUNK + 1, body.len() - 1].into_iter().enumerate() {
        trio.pods[1].behave(Behaviour::CutAfter(cut));
        trio.assert_only_second_failed(&trio.scrape(10).await, &cut.to_string(), number as u64 + 1);
    }
}

#[tokio::test]
async fn a_pod_without_an_answer_in_time_costs_the_others_nothing() {
    let trio = Trio::new("a 1\nb 2\n").await;
    let behaviours = [
        Behaviour::HangBeforeHead,
        Behaviour::HangWithinHead,
        Behaviour::HangAfter(4),
        Behaviour::Drip { bytes: 1, every: Duration::from_millis(300) },
        Behaviour::SlowHead(Duration::from_mins(1)),
    ];
    for (number, behaviour) in behaviours.into_iter().enumerate() {
        trio.pods[1].behave(behaviour.clone());
        // The scraper's own deadline has not passed: it gets a whole response.
        let scraped = trio.scrape(3).await;
        trio.assert_only_second_failed(&scraped, &format!("{behaviour:?}"), number as u64 + 1);
    }
    let timeouts = trio.sluice.metric("sluice_pod_scrapes_total", &[("outcome", "timeout")]).await;
    assert!((timeouts - 5.0).abs() < 0.1, "{timeouts}");
}

#[tokio::test]
async fn a_pod_that_hangs_within_its_handshake_is_given_up_too() {
    let mut stage = Stage::new().await;
    let pods = [start_pod("a 1\n", stage.pod_tls()), start_pod("a 1\n", stage.pod_tls())];
    stage.component("etcd", &pods, json!({"tlsConfig": Stage::mutual_tls(), "timeout": "1s"}));
    let sluice = stage.sluice().await;
    pods[1].behave(Behaviour::HangBeforeHandshake);
    let scraped = sluice.scrape("etcd").await;
    assert_eq!(scraped.samples_named("up").iter().map(|up| &*up.value).collect::<Vec<_>>(), ["1", "0"]);
}

#[tokio::test]
async fn a_pod_that_never_ends_is_stopped_by_its_limits_or_by_time() {
    for (limits, timeout, reason) in [
        (json!({"bodyBytes": "1MiB"}), "10s", "body_limit"),
        (json!({"samples": 1000}), "10s", "sample_limit"),
        (json!({"bodyBytes": "0"}), "1s", "timeout"),
    ] {
        let rules = json!([{"action": "drop", "sourceLabels": ["__name__"], "regex": "endless.*"}]);
        for rules in [json!([]), rules] {
            let more = json!({"limits": limits, "timeout": timeout, "metricRelabelings": rules});
            let trio = Trio::with("a 1\n", more).await;
            trio.pods[1].behave(Behaviour::Endless);
            let scraped = trio.scrape(10).await;
            assert_eq!(scraped.samples_named("up").iter().map(|up| &*up.value).collect::<Vec<_>>(), ["1", "0", "1"]);
            let counted = trio.sluice.metric("sluice_pod_scrapes_total", &[("outcome", reason)]).await;
            assert!((counted - 1.0).abs() < 0.1, "{limits} {reason}: {counted}");
            trio.pods[1].wait_for(|stats| stats.open == 0).await;
        }
    }
}

#[tokio::test]
async fn all_pods_down_is_still_an_answer_with_up_0_for_each() {
    let trio = Trio::new("a 1\n").await;
    for pod in &trio.pods {
        pod.behave(Behaviour::RefuseConnections);
    }
    let scraped = trio.scrape(10).await;
    assert_eq!(scraped.samples_named("up").iter().map(|up| &*up.value).collect::<Vec<_>>(), ["0", "0", "0"]);
    assert_eq!(scraped.sample_count(), 6, "{}", scraped.text());
}

#[tokio::test]
async fn content_types_decide_how_a_pod_is_read() {
    let trio = Trio::new("a 1\n").await;
    let bad = &trio.pods[1];
    for (content_type, body, up) in [
        (None, "a 1\n", "1"),
        (Some("text/plain"), "a 1\n", "1"),
        (Some("text/plain; version=1.0.0; escaping=values"), "a 1\n", "1"),
        (
            Some("application/openmetrics-text; version=1.0.0"),
            "# TYPE a counter\na_total 1 # {x=\"y\"} 1\n# EOF\n",
            "1",
        ),
        (Some("application/openmetrics-text; version=1.0.0"), "# TYPE a counter\na_total 1\n", "0"),
        (Some("application/json"), "{}", "0"),
        (Some("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily"), "a 1\n", "0"),
        (Some("text/html"), "a 1\n", "0"),
    ] {
        bad.set_content_type(content_type);
        bad.set_body(body.to_string().into());
        let scraped = trio.scrape(10).await;
        assert_eq!(scraped.samples_named("up")[1].value, up, "{content_type:?} {body:?}");
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_fails_that_pod() {
    let mut stage = Stage::new().await;
    let of = |issued| PodTls::Tls { issued };
    let stranger = sluice_loadtest::certificate::Authority::new("stranger");
    let pods = [
        start_pod("a 1\n", of(stage.pod_ca.server(&["pod.test"]))),
        start_pod("a 1\n", of(stranger.server(&["pod.test"]))),
        start_pod("a 1\n", of(stage.pod_ca.expired_server(&["pod.test"]))),
        start_pod("a 1\n", of(stage.pod_ca.server(&["other.test"]))),
    ];
    stage.component("etcd", &pods, json!({"tlsConfig": {"caFile": "pods/ca.crt", "serverName": "pod.test"}}));
    let sluice = stage.sluice().await;
    let scraped = sluice.scrape("etcd").await;
    let up: Vec<_> = scraped.samples_named("up").into_iter().map(|up| up.value).collect();
    assert_eq!(up, ["1", "0", "0", "0"]);
    let tls = sluice.metric("sluice_pod_scrapes_total", &[("outcome", "tls")]).await;
    assert!((tls - 3.0).abs() < 0.1, "{tls}");
}

#[tokio::test]
async fn without_a_server_name_the_address_must_be_in_the_certificate() {
    let mut stage = Stage::new().await;
    let of = |issued| PodTls::Tls { issued };
    let pods = [
        start_pod("a 1\n", of(stage.pod_ca.server(&["127.0.0.1"]))),
        start_pod("a 1\n", of(stage.pod_ca.server(&["pod.test"]))),
    ];
    stage.component("etcd", &pods, json!({"tlsConfig": {"caFile": "pods/ca.crt"}}));
    let sluice = stage.sluice().await;
    let scraped = sluice.scrape("etcd").await;
    assert_eq!(scraped.samples_named("up").iter().map(|up| &*up.value).collect::<Vec<_>>(), ["1", "0"]);
}

#[tokio::test]
async fn a_slow_pod_that_keeps_nobody_waiting_may_use_the_whole_time() {
    let trio = Trio::new("a 1\n").await;
    trio.pods[0].behave(Behaviour::RefuseConnections);
    trio.pods[1].behave(Behaviour::SlowHead(Duration::from_secs(3)));
    trio.pods[2].behave(Behaviour::RefuseConnections);
    // Three of five seconds: more than a share, and nobody else has anything to say.
    let scraped = trio.scrape(5).await;
    assert_eq!(scraped.samples_named("up").iter().map(|up| &*up.value).collect::<Vec<_>>(), ["0", "1", "0"]);
}
