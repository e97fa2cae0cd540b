//! For years: nothing grows with the number of scrapes.

use serde_json::json;
use sluice_loadtest::pod::Behaviour;
use sluice_loadtest::scraper::{Scraper, ScraperOptions};

use crate::stage::{Stage, eventually};

#[tokio::test]
async fn memory_and_descriptors_are_flat_over_two_thousand_scrapes() {
    let mut stage = Stage::new().await;
    let body = String::from_utf8(sluice_loadtest::corpus::etcd().to_vec()).unwrap();
    let pods = stage.plain_component("etcd", &[&body, &body]);
    stage.config["limits"] = json!({"concurrentScrapes": 40});
    let sluice = stage.sluice().await;
    let kept = Scraper::new(sluice.prometheus());
    let round = |number: usize| {
        let (sluice, kept, pods) = (&sluice, &kept, &pods);
        async move {
            // Everything that happens in a month: pods that fail, scrapers that come and go, bad tokens, unknown paths.
            pods[1].behave(if number.is_multiple_of(5) { Behaviour::CutAfter(60_000) } else { Behaviour::Serve });
            assert_eq!(kept.scrape("/metrics/etcd").await.unwrap().status, 200);
            let fresh = Scraper::new(ScraperOptions { gzip: false, ..sluice.prometheus() });
            assert_eq!(fresh.scrape("/metrics/etcd").await.unwrap().status, 200);
            if number.is_multiple_of(10) {
                let stranger = Scraper::new(sluice.stranger().with_bearer(&format!("bad-{number}")));
                assert_ne!(stranger.scrape("/metrics/etcd").await.unwrap().status, 200);
                let mut left = fresh.start("/metrics/etcd").await.unwrap();
                left.read_exactly(10).await.unwrap();
            }
        }
    };
    for number in 0..400 {
        round(number).await;
    }
    let settled = sluice.process.measure();
    for number in 400..1500 {
        round(number).await;
    }
    eventually("connections are closed", || async { sluice.process.measure().descriptors <= settled.descriptors + 2 })
        .await;
    let now = sluice.process.measure();
    let grown = now.resident.saturating_sub(settled.resident);
    // The allocator keeps a megabyte more or less from one moment to the next; a leak of one buffer a scrape would be thirty.
    assert!(grown < 3 << 20, "grown by {grown} bytes in 2,200 scrapes, from {}", settled.resident);
    assert_eq!(now.threads, settled.threads);
}

#[tokio::test]
async fn the_allocator_is_the_one_we_tuned() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let proc = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", sluice.process.id())).unwrap();
    // mimalloc has asked the kernel not to use huge pages for this process.
    let status = proc("status");
    assert!(status.lines().any(|line| line.starts_with("THP_enabled:") && line.ends_with('0')), "{status}");
    // Its arena, a gigabyte of addresses, is reserved and not committed: most of it may not even be read.
    let reserved = proc("maps")
        .lines()
        .filter_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (start, end) = range.split_once('-')?;
            let size = u64::from_str_radix(end, 16).ok()? - u64::from_str_radix(start, 16).ok()?;
            rest.starts_with("---p").then_some(size)
        })
        .max();
    assert!(reserved > Some(512 << 20), "{reserved:?}");
}
