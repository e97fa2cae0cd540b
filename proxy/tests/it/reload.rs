//! Changes of configuration, certificates and keys, in the middle of scrapes, without one failed request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;
use sluice_loadtest::certificate::{write_atomically, write_like_kubelet};
use sluice_loadtest::pod::{Pod, PodTls};
use sluice_loadtest::scraper::{Scraper, ScraperOptions};
use tokio::task::JoinHandle;

use crate::stage::{HOST, Sluice, Stage, eventually, start_pod};

/// Scrapes all the time, with connections kept and with new ones, and panics at the first that fails.
struct Load {
    done: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(sluice: &Sluice, path: &'static str) -> Self {
        let (done, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let task = |keep: bool| {
            let (done, count, options) = (Arc::clone(&done), Arc::clone(&count), sluice.prometheus());
            tokio::spawn(async move {
                let scraper = Scraper::new(options);
                while !done.load(Ordering::Relaxed) {
                    if !keep {
                        scraper.forget_connections();
                    }
                    let scraped = scraper.scrape(path).await.unwrap();
                    assert_eq!(scraped.status, 200, "{}", scraped.text());
                    let up = scraped.samples_named("up");
                    assert!(!up.is_empty() && up.iter().all(|up| up.value == "1"), "{}", scraped.text());
                    count.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tasks = vec![task(true), task(true), task(false)];
        Self { done, count, tasks }
    }

    /// Waits for some more scrapes.
    async fn go_on(&self) {
        let until = self.count.load(Ordering::Relaxed) + 20;
        eventually("scrapes go on", || async {
            assert!(!self.tasks.iter().any(JoinHandle::is_finished), "a scrape failed");
            self.count.load(Ordering::Relaxed) >= until
        })
        .await;
    }

    async fn end(self) {
        self.done.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

fn mutual_etcd(stage: &mut Stage) -> Vec<Pod> {
    let pods = vec![start_pod("a 1\n", stage.pod_tls()), start_pod("a 2\n", stage.pod_tls())];
    stage.component("etcd", &pods, json!({"tlsConfig": Stage::mutual_tls()}));
    pods
}

#[tokio::test]
async fn certificates_are_rotated_as_the_kubelet_does_and_no_scrape_fails() {
    let mut stage = Stage::new().await;
    let pods = mutual_etcd(&mut stage);
    // Mounted as a Secret is: names that point through a directory that is swapped.
    let serving = stage.dir.path().join("serving-secret");
    std::fs::create_dir(&serving).unwrap();
    let swap = |stage: &Stage| {
        let issued = stage.serving_ca.server(&[HOST]);
        write_like_kubelet(
            &serving,
            &[("tls.crt", issued.cert_pem.as_bytes()), ("tls.key", issued.key_pem.as_bytes())],
        );
        issued
    };
    swap(&stage);
    stage.config["serving"] = json!({"certFile": "serving-secret/tls.crt", "keyFile": "serving-secret/tls.key"});
    // Polled as it is in production, only faster.
    let sluice = stage.sluice_with(&["--reload-interval", "50ms"]).await;
    let load = Load::start(&sluice, "/metrics/etcd");
    for round in 0..3 {
        load.go_on().await;
        swap(&stage);
        stage.pod_ca.client(&format!("sluice-{round}"), &[]).write_to(&stage.dir.path().join("pods"), "client");
        eventually("pods see the new certificate", || async {
            let name = format!("sluice-{round}");
            pods[0].requests().last().is_some_and(|last| last.client_cert_common_name.as_deref() == Some(&name))
        })
        .await;
    }
    load.go_on().await;
    load.end().await;
    assert_eq!(sluice.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn components_come_change_and_go_while_others_are_scraped() {
    let mut stage = Stage::new().await;
    let _pods = mutual_etcd(&mut stage);
    let sluice = stage.sluice().await;
    let load = Load::start(&sluice, "/metrics/etcd");
    let scraper = Scraper::new(sluice.prometheus());
    let code = async |path: &str| scraper.scrape(path).await.unwrap().status.as_u16();
    assert_eq!(code("/metrics/scheduler").await, 404);
    let other = stage.plain_component("scheduler", &["s 1\n"]);
    stage.write_config();
    sluice.reload();
    eventually("the new component is served", || async { code("/metrics/scheduler").await == 200 }).await;
    stage.config["components"]["scheduler"]["labels"]["job"] = json!("renamed");
    stage.write_config();
    sluice.reload();
    eventually("its labels change", || async {
        scraper.scrape("/metrics/scheduler").await.unwrap().text().contains("job=\"renamed\"")
    })
    .await;
    load.go_on().await;
    stage.config["components"].as_object_mut().unwrap().remove("scheduler");
    stage.write_config();
    sluice.reload();
    eventually("it is gone", || async { code("/metrics/scheduler").await == 404 }).await;
    let own = sluice.admin("/metrics").await;
    assert!(!own.text().contains("component=\"scheduler\""), "and so are its own metrics:\n{}", own.text());
    load.end().await;
    drop(other);
}

#[tokio::test]
async fn a_configuration_that_is_wrong_leaves_the_last_good_one_in_force_and_is_told() {
    let mut stage = Stage::new().await;
    let _pods = mutual_etcd(&mut stage);
    let sluice = stage.sluice().await;
    let load = Load::start(&sluice, "/metrics/etcd");
    let successful = async || sluice.metric("sluice_config_last_reload_successful", &[]).await > 0.5;
    assert!(successful().await);
    for (wrong, said) in [
        ("components: [", "line 1"),
        ("{}", "missing field"),
        (&stage.config.to_string().replace("\"pod\":", "\"pid\":"), "unknown field `pid`"),
        (&stage.config.to_string().replace(HOST, "not a name"), "hostnames[0]"),
    ] {
        write_atomically(stage.dir.path(), "config.yaml", wrong.as_bytes());
        sluice.reload();
        sluice.process.wait_for_line(|line| line.contains(said) && line.contains("last good state")).await;
        assert!(!successful().await);
        load.go_on().await;
    }
    stage.write_config();
    sluice.reload();
    eventually("all is well again", successful).await;
    load.end().await;
}

#[tokio::test]
async fn a_serving_certificate_that_is_wrong_leaves_the_last_good_one_in_force() {
    let mut stage = Stage::new().await;
    let _pods = mutual_etcd(&mut stage);
    let sluice = stage.sluice().await;
    let load = Load::start(&sluice, "/metrics/etcd");
    let serving = stage.dir.path().join("serving");
    let good = std::fs::read(serving.join("tls.crt")).unwrap();
    let other = stage.serving_ca.server(&[HOST]).cert_pem;
    for (wrong, said) in [("", "no certificate in it"), ("nonsense", "no certificate in it"), (&other, "tls.crt")] {
        write_atomically(&serving, "tls.crt", wrong.as_bytes());
        sluice.reload();
        sluice.process.wait_for_line(|line| line.contains(said) && line.contains("last good state")).await;
        load.go_on().await;
        write_atomically(&serving, "tls.crt", &good);
        sluice.reload();
        eventually("all is well again", || async {
            sluice.metric("sluice_config_last_reload_successful", &[]).await > 0.5
        })
        .await;
    }
    load.end().await;
}

#[tokio::test]
async fn a_components_certificate_that_cannot_be_read_breaks_that_component_only_at_the_start_too() {
    let mut stage = Stage::new().await;
    let _pods = mutual_etcd(&mut stage);
    let broken = [start_pod("b 1\n", stage.pod_tls())];
    let mut tls = Stage::mutual_tls();
    tls["caFile"] = json!("pods/late.crt");
    stage.component("late", &broken, json!({"tlsConfig": tls}));
    let sluice = stage.sluice().await;
    assert_eq!(sluice.scrape("etcd").await.samples_named("up").len(), 2);
    let late = sluice.scrape("late").await;
    assert_eq!(late.samples_named("up")[0].value, "0");
    let targets = sluice.admin("/api/v1/targets").await;
    assert!(targets.text().contains("late.crt: No such file"), "{}", targets.text());
    write_atomically(&stage.dir.path().join("pods"), "late.crt", stage.pod_ca.cert_pem().as_bytes());
    sluice.reload();
    eventually("it is served", || async { sluice.scrape("late").await.samples_named("up")[0].value == "1" }).await;
    // What was good stays good, whatever becomes of the file.
    std::fs::remove_file(stage.dir.path().join("pods/late.crt")).unwrap();
    sluice.reload();
    sluice.process.wait_for_line(|line| line.contains("late.crt") && line.contains("last good state")).await;
    assert_eq!(sluice.scrape("late").await.samples_named("up")[0].value, "1");
}

#[tokio::test]
async fn counters_and_remembered_tokens_outlive_a_reload() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    pods[0].behave(sluice_loadtest::pod::Behaviour::status(500));
    sluice.scrape("etcd").await;
    sluice.scrape("etcd").await;
    stage.config["emitUp"] = json!(false);
    stage.write_config();
    sluice.reload();
    pods[0].behave(sluice_loadtest::pod::Behaviour::Serve);
    eventually("the change is in force", || async { sluice.scrape("etcd").await.samples_named("up").is_empty() }).await;
    let scraped = sluice.scrape("etcd").await;
    assert_eq!(scraped.samples_named("metrics_aggregator_pod_scrape_errors_total")[0].value, "2");
    assert_eq!(stage.hosted.reviews(), 1);
    drop(pods);
}

#[tokio::test]
async fn a_scrape_under_way_ends_as_it_began() {
    let mut stage = Stage::new().await;
    let body = sluice_loadtest::corpus::kube_apiserver();
    let pods = [Pod::start(sluice_loadtest::pod::PodOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        body: body.clone(),
        tls: PodTls::Plain,
    })];
    stage.component("kube-apiserver", &pods, json!({"scheme": "http", "timeout": "1m"}));
    let sluice = stage.sluice().await;
    let scraper =
        Scraper::new(ScraperOptions { gzip: false, timeout: std::time::Duration::from_mins(1), ..sluice.prometheus() });
    let mut response = scraper.start("/metrics/kube-apiserver").await.unwrap();
    response.read_exactly(1000).await.unwrap();
    stage.config["components"].as_object_mut().unwrap().remove("kube-apiserver");
    let _etcd = stage.plain_component("etcd", &["a 1\n"]);
    stage.write_config();
    sluice.reload();
    eventually("the change is in force", || async {
        Scraper::new(sluice.prometheus()).scrape("/metrics/etcd").await.unwrap().status == 200
    })
    .await;
    let rest = response.finish().await.unwrap();
    assert!(rest.text().trim_end().lines().last().unwrap().starts_with("up{pod=\"kube-apiserver-0\""));
}
