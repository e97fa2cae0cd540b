//! Every code a scraper can get.

use http::Method;
use serde_json::json;
use sluice_loadtest::pod::Behaviour;
use sluice_loadtest::scraper::{Protocol, Scraped, Scraper, ScraperOptions};

use crate::stage::{Stage, TOKEN};

async fn get(options: ScraperOptions, path: &str) -> Scraped {
    Scraper::new(options).scrape(path).await.unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[tokio::test]
async fn who_is_not_let_in_learns_nothing() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    for path in ["/metrics/etcd", "/metrics/nonesuch", "/", "/metrics"] {
        let nobody = get(sluice.stranger(), path).await;
        assert_eq!(nobody.status, 401, "{path}");
        assert_eq!(nobody.header("www-authenticate"), Some("Bearer realm=\"sluice\""));
        let bad = get(sluice.stranger().with_bearer("nonsense"), path).await;
        assert_eq!(bad.status, 401, "{path}");
        assert_eq!(bad.header("www-authenticate"), Some("Bearer realm=\"sluice\", error=\"invalid_token\""));
    }
}

#[tokio::test]
async fn paths_and_methods() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    for (path, code) in [
        ("/metrics/etcd", 200),
        ("/metrics/etcd/", 200),
        ("/metrics/etcd?x=y", 200),
        ("/metrics/nonesuch", 404),
        ("/metrics", 400),
        ("/metrics/", 400),
        ("/metrics/etcd/more", 400),
        ("/metrics/%65tcd", 400),
        ("/", 400),
    ] {
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let scraped = get(ScraperOptions { protocol, ..sluice.prometheus() }, path).await;
            assert_eq!(scraped.status, code, "{path}");
            assert!(scraped.header("content-type").is_some(), "{path}");
        }
    }
    let scraper = Scraper::new(sluice.prometheus());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let answer = scraper.request(method.clone(), "/metrics/etcd").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let asked = pods[0].stats().requests;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let scraper = Scraper::new(ScraperOptions { protocol, ..sluice.prometheus() });
        let head = scraper.request(Method::HEAD, "/metrics/etcd").await.unwrap();
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(head.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert_eq!(scraper.request(Method::HEAD, "/metrics/nonesuch").await.unwrap().status, 404);
    }
    assert_eq!(pods[0].stats().requests, asked, "whoever asks for the head alone costs the pods nothing");
}

#[tokio::test]
async fn no_pods_is_bad_gateway_and_so_is_no_answer_where_up_may_not_say_it() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n", "a 1\n"]);
    stage.config["emitUp"] = json!(false);
    let sluice = stage.sluice().await;
    let one = {
        pods[0].behave(Behaviour::status(500));
        sluice.scrape("etcd").await
    };
    assert!(one.samples_named("up").is_empty());
    assert_eq!(one.samples_named("metrics_aggregator_pod_scrape_errors_total")[0].value, "1");
    for behaviour in [Behaviour::status(500), Behaviour::BadLineAt(1), Behaviour::RefuseConnections] {
        pods[1].behave(behaviour);
        let none = get(sluice.prometheus(), "/metrics/etcd").await;
        assert_eq!(none.status, 502);
        assert!(none.text().contains("none of the pods of \"etcd\" answered"), "{}", none.text());
        pods[1].behave(Behaviour::Serve);
    }
}

#[tokio::test]
async fn more_scrapes_at_once_than_the_tenant_may_have_are_told_to_come_back() {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["limits"] = json!({"concurrentScrapes": 2});
    let sluice = stage.sluice().await;
    pods[0].behave(Behaviour::HangBeforeHead);
    let scraper = Scraper::new(sluice.prometheus());
    let (first, second) = (scraper.start("/metrics/etcd"), scraper.start("/metrics/etcd"));
    let third = async {
        pods[0].wait_for(|stats| stats.requests == 2).await;
        let third = get(sluice.prometheus(), "/metrics/etcd").await;
        assert_eq!((third.status.as_u16(), third.header("retry-after")), (429, Some("5")));
    };
    // Dropped when the third is over: the scrapers leave, and make room.
    tokio::select! {
        _ = first => panic!("the first was answered"),
        _ = second => panic!("the second was answered"),
        () = third => {}
    }
    pods[0].behave(Behaviour::Serve);
    pods[0].wait_for(|stats| stats.open == 0).await;
    crate::stage::eventually("there is room again", || async {
        get(sluice.prometheus(), "/metrics/etcd").await.status == 200
    })
    .await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let long =
        |length: usize| ScraperOptions { headers: vec![("x-long".into(), "x".repeat(length))], ..sluice.prometheus() };
    assert_eq!(get(long(8_000), "/metrics/etcd").await.status, 200);
    assert_eq!(get(long(20_000), "/metrics/etcd").await.status, 431);
    let many = (0..100).map(|number| (format!("x-{number}"), "x".to_string())).collect();
    let many = ScraperOptions { headers: many, ..sluice.prometheus() };
    assert_eq!(get(many, "/metrics/etcd").await.status, 431);
    let http2 = ScraperOptions { protocol: Protocol::Http2, ..long(100_000) };
    let refused = Scraper::new(http2).scrape("/metrics/etcd").await;
    assert!(refused.as_ref().map_or(true, |scraped| scraped.status == 431), "{refused:?}");
    assert_eq!(get(sluice.prometheus(), "/metrics/etcd").await.status, 200, "and nobody else is harmed");
}

#[tokio::test]
async fn a_token_is_in_no_answer_log_line_or_metric() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice_with(&["--reload-interval", "1h"]).await;
    get(sluice.prometheus(), "/metrics/etcd").await;
    let secret = "a-very-secret-token";
    let mut texts = vec![get(sluice.stranger().with_bearer(secret), "/metrics/etcd").await.text().to_string()];
    stage.hosted.answer_reviews(sluice_loadtest::api::ReviewMode::Garble);
    texts.push(get(sluice.stranger().with_bearer(&format!("{secret}-2")), "/metrics/etcd").await.text().to_string());
    stage.hosted.stop().await;
    texts.push(get(sluice.stranger().with_bearer(&format!("{secret}-3")), "/metrics/etcd").await.text().to_string());
    for path in ["/metrics", "/readyz", "/api/v1/targets"] {
        texts.push(sluice.admin(path).await.text().to_string());
    }
    texts.extend(sluice.process.lines());
    assert!(texts.iter().any(|text| text.contains("does not review tokens")), "{texts:#?}");
    for text in texts {
        assert!(!text.contains(secret) && !text.contains(TOKEN) && !text.contains("sluice-reviewer"), "{text}");
    }
}
