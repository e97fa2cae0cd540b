//! The end: in peace, in time, and without a failed scrape.

use std::time::Duration;

use serde_json::json;
use sluice_loadtest::corpus;
use sluice_loadtest::pod::{Behaviour, Pod, PodOptions, PodTls};
use sluice_loadtest::process::Exit;
use sluice_loadtest::scraper::{Protocol, Scraper, ScraperOptions};
use tokio::net::TcpStream;

use crate::stage::{Stage, eventually};

#[tokio::test]
async fn told_to_stop_it_is_not_ready_at_once_but_serves_until_balancers_have_noticed() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let mut sluice = stage.sluice_with(&["--drain", "3s"]).await;
    assert_eq!(sluice.admin("/readyz").await.status, 200);
    sluice.process.signal("TERM");
    sluice.process.wait_for_line(|line| line.contains("told to stop")).await;
    assert_eq!(sluice.admin("/readyz").await.status, 503);
    assert_eq!(sluice.admin("/healthz").await.status, 200);
    assert_eq!(sluice.scrape("etcd").await.status, 200, "on a new connection");
    assert_eq!(sluice.process.wait().await, Exit::Code(0));
    assert!(TcpStream::connect(sluice.address).await.is_err());
}

#[tokio::test]
async fn what_is_under_way_is_finished_and_idle_connections_are_closed() {
    let mut stage = Stage::new().await;
    let body = corpus::kube_apiserver();
    let pods = [Pod::start(PodOptions { address: "127.0.0.1:0".parse().unwrap(), body, tls: PodTls::Plain })];
    stage.component("kube-apiserver", &pods, json!({"scheme": "http", "timeout": "1m"}));
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut sluice = stage.sluice().await;
        let options = ScraperOptions { protocol, gzip: false, timeout: Duration::from_mins(1), ..sluice.prometheus() };
        let idle = Scraper::new(options.clone());
        assert_eq!(idle.scrape("/metrics/nonesuch").await.unwrap().status, 404);
        let mut response = Scraper::new(options).start("/metrics/kube-apiserver").await.unwrap();
        response.read_exactly(1000).await.unwrap();
        sluice.process.signal("TERM");
        eventually("no connection is accepted", || async { TcpStream::connect(sluice.address).await.is_err() }).await;
        let rest = response.finish().await.unwrap();
        assert!(
            rest.text().trim_end().lines().last().unwrap().starts_with("up{pod=\"kube-apiserver-0\""),
            "{protocol:?}"
        );
        assert_eq!(sluice.process.wait().await, Exit::Code(0), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n"]);
    let mut sluice = stage.sluice_with(&["--drain", "10m"]).await;
    pods[0].behave(Behaviour::HangBeforeHead);
    let scraper = Scraper::new(sluice.prometheus());
    let hanging = tokio::spawn(async move { scraper.scrape("/metrics/etcd").await });
    pods[0].wait_for(|stats| stats.requests == 1).await;
    sluice.process.signal("TERM");
    sluice.process.wait_for_line(|line| line.contains("told to stop")).await;
    sluice.process.signal("INT");
    assert_eq!(sluice.process.wait().await, Exit::Code(0));
    assert!(hanging.await.unwrap().is_err());
}
