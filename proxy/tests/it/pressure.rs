//! Back-pressure: a scraper that stops reading stops the pods, one that leaves cancels them, and many at once are served.

use std::time::Duration;

use serde_json::json;
use sluice_loadtest::corpus;
use sluice_loadtest::pod::{Behaviour, Pod, PodOptions, PodTls};
use sluice_loadtest::scraper::{Protocol, Scraper, ScraperOptions};

use crate::stage::{Stage, eventually};

/// Far more than all buffers on the way together: kernel sockets at both ends, ours, the scraper's.
const LARGE: usize = 96 << 20;

fn large_pod(body: &bytes::Bytes) -> Pod {
    Pod::start(PodOptions { address: "127.0.0.1:0".parse().unwrap(), body: body.clone(), tls: PodTls::Plain })
}

#[tokio::test]
async fn a_scraper_that_stops_reading_stops_the_pods_and_costs_no_memory() {
    let mut stage = Stage::new().await;
    let body = corpus::repeated(LARGE);
    let pods = [large_pod(&body), large_pod(&body)];
    stage.component("kube-apiserver", &pods, json!({"scheme": "http", "timeout": "5m"}));
    let sluice = stage.sluice().await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let options = ScraperOptions { protocol, gzip: false, timeout: Duration::from_mins(5), ..sluice.prometheus() };
        let scraper = Scraper::new(options);
        let before = sluice.process.measure().resident;
        let mut response = scraper.start("/metrics/kube-apiserver").await.unwrap();
        // One byte, and another, and another: what it has not read has not been taken from the pods.
        for _ in 0..3 {
            response.read_exactly(1).await.unwrap();
        }
        let sent = |pods: &[Pod]| pods.iter().map(Pod::sent).sum::<u64>();
        let mut last = sent(&pods);
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = sent(&pods);
            if now == last {
                break;
            }
            last = now;
        }
        assert!(last < LARGE as u64, "{protocol:?}: {last} bytes were taken from the pods");
        let grown = sluice.process.measure().resident.saturating_sub(before);
        assert!(grown < 4 << 20, "{protocol:?}: grown by {grown} bytes");
        // It leaves in the middle: the pods are let go.
        drop(response);
        drop(scraper);
        for pod in &pods {
            pod.wait_for(|stats| stats.open == 0).await;
        }
    }
    let cancelled = sluice.metric("sluice_pod_scrapes_total", &[("outcome", "cancelled")]).await;
    assert!((cancelled - 4.0).abs() < 0.1, "{cancelled}");
    eventually("nothing is in flight", || async { sluice.metric("sluice_scrapes_in_flight", &[]).await < 0.5 }).await;
}

#[tokio::test]
async fn a_scraper_that_leaves_before_the_first_byte_cancels_the_pods() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n", "a 1\n"]);
    let sluice = stage.sluice().await;
    for (round, protocol) in [Protocol::Http1, Protocol::Http2].into_iter().enumerate() {
        for pod in &pods {
            pod.behave(Behaviour::HangBeforeHead);
        }
        let scraper = Scraper::new(ScraperOptions { protocol, ..sluice.prometheus() });
        tokio::select! {
            _ = scraper.start("/metrics/etcd") => panic!("answered"),
            _ = pods[1].wait_for(|stats| stats.requests == 2 * round + 1) => {}
        }
        drop(scraper);
        for pod in &pods {
            pod.wait_for(|stats| stats.open == 0).await;
            pod.behave(Behaviour::Serve);
        }
        let left = sluice.metric("sluice_requests_total", &[("code", "499")]).await;
        assert!((left - round as f64 - 1.0).abs() < 0.1, "{left}");
        let scraped = sluice.scrape("etcd").await;
        let errors = scraped.samples_named("metrics_aggregator_pod_scrape_errors_total");
        assert!(errors.iter().all(|sample| sample.value == "0"), "a scraper that leaves is not the pods' fault");
    }
}

#[tokio::test]
async fn two_hundred_scrapers_at_once_are_served_or_told_to_wait_and_none_gets_half_an_answer() {
    let mut stage = Stage::new().await;
    let body = corpus::kube_controller_manager();
    let pods = [large_pod(&body), large_pod(&body), large_pod(&body)];
    stage.component("kube-controller-manager", &pods, json!({"scheme": "http", "timeout": "5m"}));
    stage.config["limits"] = json!({"concurrentScrapes": 200, "connections": 400});
    let sluice = stage.sluice().await;
    let expected = sluice.scrape("kube-controller-manager").await;
    let scrapes = (0..200).map(|number| {
        let protocol = if number % 2 == 0 { Protocol::Http1 } else { Protocol::Http2 };
        let gzip = number % 3 == 0;
        let options = ScraperOptions { protocol, gzip, timeout: Duration::from_mins(4), ..sluice.prometheus() };
        async move { Scraper::new(options).scrape("/metrics/kube-controller-manager").await.unwrap() }
    });
    for scraped in futures_util::future::join_all(scrapes).await {
        assert_eq!(scraped.status, 200);
        assert_eq!(scraped.body, expected.body);
    }
}
