//! Clients that are slow, silent, many, or do not speak our language.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use sluice_loadtest::scraper::{ScrapeError, Scraper, ScraperOptions, proxy_v2};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{Stage, eventually};

#[tokio::test]
async fn a_name_that_is_not_ours_is_refused_in_the_handshake_and_no_name_is_us() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let mut other = sluice.prometheus();
    other.tls.as_mut().unwrap().server_name = "metrics.other.test".into();
    let refused = Scraper::new(other).scrape("/metrics/etcd").await;
    assert!(matches!(&refused, Err(ScrapeError::Tls(alert)) if alert.contains("UnrecognisedName")), "{refused:?}");
    let mut nameless = sluice.prometheus();
    nameless.tls.as_mut().unwrap().send_name = false;
    assert_eq!(Scraper::new(nameless).scrape("/metrics/etcd").await.unwrap().status, 200);
    eventually("it is counted", || async {
        sluice.metric("sluice_handshake_failures_total", &[("reason", "unknown_name")]).await > 0.5
    })
    .await;
}

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let scraper = Scraper::new(sluice.prometheus());
    for _ in 0..5 {
        assert_eq!(scraper.scrape("/metrics/etcd").await.unwrap().status, 200);
        assert_eq!(scraper.scrape("/metrics/nonesuch").await.unwrap().status, 404);
    }
    assert_eq!(scraper.connections(), 1);
    assert!((sluice.metric("sluice_connections", &[]).await - 1.0).abs() < 0.1);
    drop(scraper);
    eventually("the connection is gone", || async { sluice.metric("sluice_connections", &[]).await < 0.5 }).await;
}

#[tokio::test]
async fn more_connections_than_the_tenant_may_have_are_refused() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["limits"] = json!({"connections": 2});
    let sluice = stage.sluice().await;
    let scrapers: Vec<_> = (0..2).map(|_| Scraper::new(sluice.prometheus())).collect();
    for scraper in &scrapers {
        assert_eq!(scraper.scrape("/metrics/etcd").await.unwrap().status, 200);
    }
    let third = Scraper::new(sluice.prometheus());
    assert!(third.scrape("/metrics/etcd").await.is_err());
    drop(scrapers);
    eventually("there is room", || async { third.scrape("/metrics/etcd").await.is_ok() }).await;
}

#[tokio::test]
async fn who_does_not_finish_the_handshake_or_the_head_is_disconnected() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let mut silent = TcpStream::connect(sluice.address).await.unwrap();
    let mut dripping = TcpStream::connect(sluice.address).await.unwrap();
    dripping.write_all(b"\x16\x03\x01\x02\x00\x01").await.unwrap();
    let mut plain = TcpStream::connect(sluice.address).await.unwrap();
    plain.write_all(b"GET /metrics/etcd HTTP/1.1\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    for (what, stream) in [("silent", &mut silent), ("dripping", &mut dripping), ("plain", &mut plain)] {
        bytes.clear();
        // The end may come as a reset, where we had not read all.
        let ended = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut bytes)).await;
        assert!(ended.is_ok(), "{what} is still connected");
    }
    assert_eq!(sluice.scrape("etcd").await.status, 200);
    assert!(sluice.metric("sluice_handshake_failures_total", &[("reason", "timeout")]).await > 1.5);
}

#[tokio::test]
async fn with_the_flag_a_proxy_header_is_needed_and_without_it_is_not_understood() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice_with(&["--proxy-protocol"]).await;
    let client: SocketAddr = "192.0.2.7:4711".parse().unwrap();
    let proxied = ScraperOptions { preamble: proxy_v2(client, sluice.address), ..sluice.prometheus() };
    assert_eq!(Scraper::new(proxied).scrape("/metrics/etcd").await.unwrap().status, 200);
    assert!(Scraper::new(sluice.prometheus()).scrape("/metrics/etcd").await.is_err());
    let without = stage.sluice().await;
    let proxied = ScraperOptions { preamble: proxy_v2(client, without.address), ..without.prometheus() };
    assert!(Scraper::new(proxied).scrape("/metrics/etcd").await.is_err());
}

#[tokio::test]
async fn who_is_not_let_in_does_not_keep_a_connection_that_others_need() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["limits"] = json!({"connections": 3});
    let sluice = stage.sluice().await;
    let strangers: Vec<_> = (0..3).map(|_| Scraper::new(sluice.stranger())).collect();
    for stranger in &strangers {
        assert_eq!(stranger.scrape("/metrics/etcd").await.unwrap().status, 401);
    }
    let scraper = Scraper::new(sluice.prometheus());
    eventually("there is room", || async { scraper.scrape("/metrics/etcd").await.is_ok() }).await;
}
