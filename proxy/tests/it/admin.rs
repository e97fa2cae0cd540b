//! What it says about itself.

use std::process::Command;

use serde_json::{Value, json};
use sluice_loadtest::pod::Behaviour;

use crate::stage::Stage;

#[tokio::test]
async fn targets_are_told_in_the_shape_of_prometheus() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\nb 2\n", "a 1\n"]);
    let sluice = stage.sluice().await;
    let targets = async || -> Vec<Value> {
        let answer: Value = serde_json::from_str(sluice.admin("/api/v1/targets").await.text()).unwrap();
        assert_eq!(answer["status"], "success");
        assert_eq!(answer["data"]["droppedTargets"], json!([]));
        answer["data"]["activeTargets"].as_array().unwrap().clone()
    };
    let unknown = targets().await;
    assert_eq!((unknown.len(), &unknown[0]["health"]), (2, &json!("unknown")));
    pods[1].behave(Behaviour::BadLineAt(1));
    sluice.scrape("etcd").await;
    let [up, down] = <[Value; 2]>::try_from(targets().await).unwrap();
    let address = pods[0].address();
    assert_eq!(up["health"], "up");
    assert_eq!(up["scrapePool"], "etcd");
    assert_eq!(up["scrapeUrl"], format!("http://{address}/metrics"));
    assert_eq!(up["lastError"], "");
    assert_eq!(up["lastScrapeSamples"], 2);
    let labels = json!({"pod": "etcd-0", "namespace": "openshift-etcd", "job": "etcd", "service": "etcd-svc",
        "endpoint": "https", "instance": address.to_string()});
    assert_eq!(up["labels"], labels);
    assert_eq!(down["health"], "down");
    assert!(down["lastError"].as_str().unwrap().starts_with("line 1, byte"), "{down}");
    assert_eq!(down["scrapeErrorsTotal"], 1);
}

#[tokio::test]
async fn its_own_metrics_are_there_and_promtool_takes_them() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\nup 1\n{\"u.8\"} 2\n", "a 1\n"]);
    stage.config["components"]["etcd"]["metricRelabelings"] =
        json!([{"action": "drop", "sourceLabels": ["pod"], "regex": "etcd-1"}]);
    let sluice = stage.sluice().await;
    sluice.scrape("etcd").await;
    let text = sluice.admin("/metrics").await;
    assert_eq!(text.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let etcd = [("tenant", "config"), ("component", "etcd")];
    for (name, labels, value) in [
        ("sluice_requests_total", &[("code", "200")][..], Some(1.0)),
        ("sluice_request_duration_seconds_count", &etcd, Some(1.0)),
        ("sluice_pod_scrapes_total", &[("outcome", "ok")], Some(2.0)),
        ("sluice_pod_scrape_duration_seconds_count", &etcd, Some(2.0)),
        ("sluice_upstream_bytes_total", &etcd, Some(23.0)),
        ("sluice_response_bytes_total", &[("encoding", "gzip")], None),
        ("sluice_dropped_samples_total", &[("reason", "rule")], Some(1.0)),
        ("sluice_dropped_samples_total", &[("reason", "reserved")], Some(1.0)),
        ("sluice_dropped_samples_total", &[("reason", "names")], Some(1.0)),
        ("sluice_tokenreviews_total", &[("result", "accepted")], Some(1.0)),
        ("sluice_token_cache_total", &[("result", "miss")], Some(1.0)),
        ("sluice_targets", &etcd, Some(2.0)),
        ("sluice_config_last_reload_successful", &[("tenant", "config")], Some(1.0)),
        ("sluice_config_last_change_timestamp_seconds", &[], None),
        ("sluice_certificate_expiry_seconds", &[("tenant", "config")], None),
        ("sluice_connections", &[], None),
        ("sluice_scrapes_in_flight", &[], Some(0.0)),
        ("process_resident_memory_bytes", &[], None),
        ("process_cpu_seconds_total", &[], None),
        ("process_open_fds", &[], None),
    ] {
        assert!(!text.samples_named(name).is_empty(), "{name} is missing:\n{}", text.text());
        if let Some(value) = value {
            let found = sluice.metric(name, labels).await;
            assert!((found - value).abs() < 0.1, "{name}{labels:?} is {found}");
        }
    }
    // promtool reads text 0.0.4, in which `# EOF` is a comment and units are unknown; what else it would say is about style.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("metrics");
    std::fs::write(&file, text.text()).unwrap();
    let said = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&said.stderr).to_string();
    assert!(!errors.contains("error while linting") && !errors.contains("parsing error"), "{errors}");
    drop(pods);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_told_what_there_is() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    assert_eq!(sluice.admin("/healthz").await.status, 200);
    let nowhere = sluice.admin("/").await;
    assert_eq!(nowhere.status, 404);
    assert!(nowhere.text().contains("/readyz"));
}

#[tokio::test]
async fn a_probe_is_answered_however_many_others_hang_on() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let mut hanging = Vec::new();
    for _ in 0..100 {
        hanging.push(tokio::net::TcpStream::connect(sluice.admin).await.unwrap());
    }
    assert_eq!(sluice.admin("/healthz").await.status, 200);
}
