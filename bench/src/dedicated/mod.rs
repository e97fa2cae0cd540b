//! The dedicated rows: one `sluice` for one control plane, beside nginx that only relays the same bytes.
//!
//! Three kube-apiserver pods with 8.2 MB each over plain HTTP, the scraper over TLS, HTTP/1.1, identity encoding. nginx relays what
//! `sluice` writes, from one plain HTTP server, over TLS with the same certificate. Both are scraped in turn, so that whatever
//! else the machine does befalls both; what is compared is the CPU time of each process.

mod nginx;
mod stand;

use std::path::Path;
use std::time::{Duration, Instant};

use sluice_loadtest::process::Measured;
use sluice_loadtest::scraper::{Scraper, ScraperOptions};

use self::nginx::Nginx;
use self::stand::Stand;

/// Scrapes of one contender between two looks at its CPU time, which the kernel tells to a hundredth of a second.
const SCRAPES: u32 = 10;
/// How often the contenders take turns; the median round counts.
const ROUNDS: usize = 7;
/// Until an idle `sluice` has let go of what it does not need: it looks every ten seconds.
const SETTLE: Duration = Duration::from_secs(12);

/// Section 5 of the design.
const CPU_MOST: f64 = 1.25;
const TIME_MOST: f64 = 1.5;
const IDLE_MOST: f64 = 8.0;
const PEAK_MOST: f64 = 12.0;
const PEAK_OF_FOUR_MOST: f64 = 14.0;

/// Measures and prints; whether all of the design's bounds hold.
pub fn print(sluice: &Path) -> std::io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(measure(sluice))
}

async fn measure(program: &Path) -> std::io::Result<bool> {
    let stand = Stand::new().await?;
    let sluice = stand.sluice(program).await;
    tokio::time::sleep(SETTLE).await;
    let fresh = sluice.process.measure();

    let scraper = || Scraper::new(ScraperOptions { gzip: false, ..sluice.scraper() });
    let one = scraper();
    let body = scrape(&one).await?;
    sluice.process.reset_peak();
    for _ in 0..SCRAPES {
        scrape(&one).await?;
    }
    let peak = sluice.process.measure();
    let four: Vec<_> = (0..4).map(|_| scraper()).collect();
    sluice.process.reset_peak();
    for _ in 0..SCRAPES {
        futures_util::future::try_join_all(four.iter().map(scrape)).await?;
    }
    let peak_of_four = sluice.process.measure();
    drop(four);
    tokio::time::sleep(SETTLE).await;
    let idle = sluice.process.measure();

    let nginx = Nginx::start(&stand, &body).await?;
    let relay = Scraper::new(ScraperOptions { gzip: false, ..nginx.scraper(&stand) });
    assert_eq!(scrape(&relay).await?.len(), body.len(), "nginx relays the same bytes");
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let ours = round(&one, || sluice.process.measure()).await?;
        let theirs = round(&relay, || nginx.measure()).await?;
        rounds.push((ours, theirs));
    }
    let ours = median(rounds.iter().map(|round| round.0));
    let theirs = median(rounds.iter().map(|round| round.1));
    let relay_peak = nginx.measure().peak;

    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let millis = |time: Duration| time.as_secs_f64() * 1000.0;
    let mut fine = true;
    let mut row = |name: &str, value: f64, unit: &str, most: f64| {
        let good = value <= most;
        fine &= good;
        println!("{name:<44} {value:>8.2} {unit:<8} at most {most:>5} {}", if good { "" } else { "MISSED" });
    };
    println!("three kube-apiserver pods, {:.1} MB out, HTTP/1.1, identity", body.len() as f64 / 1e6);
    row("CPU per scrape, of nginx's", ours.cpu.as_secs_f64() / theirs.cpu.as_secs_f64(), "x", CPU_MOST);
    row("time per scrape, of nginx's", ours.wall.as_secs_f64() / theirs.wall.as_secs_f64(), "x", TIME_MOST);
    row("resident, started and idle", mib(fresh.resident), "MiB", IDLE_MOST);
    row("resident, idle after scrapes", mib(idle.resident), "MiB", IDLE_MOST);
    row("peak, one scrape at a time", mib(peak.peak), "MiB", PEAK_MOST);
    row("peak, four at once", mib(peak_of_four.peak), "MiB", PEAK_OF_FOUR_MOST);
    println!("CPU per scrape: sluice {:.1} ms, nginx {:.1} ms", millis(ours.cpu), millis(theirs.cpu));
    println!("time per scrape: sluice {:.0} ms, nginx {:.0} ms", millis(ours.wall), millis(theirs.wall));
    println!("nginx's peak: {:.1} MiB", mib(relay_peak));
    Ok(fine)
}

/// What one scrape costs.
#[derive(Clone, Copy)]
struct Cost {
    cpu: Duration,
    wall: Duration,
}

async fn round(scraper: &Scraper, measure: impl Fn() -> Measured) -> std::io::Result<Cost> {
    let (before, start) = (measure().cpu, Instant::now());
    for _ in 0..SCRAPES {
        scrape(scraper).await?;
    }
    Ok(Cost { cpu: measure().cpu.saturating_sub(before) / SCRAPES, wall: start.elapsed() / SCRAPES })
}

async fn scrape(scraper: &Scraper) -> std::io::Result<bytes::Bytes> {
    let scraped = scraper.scrape("/metrics/kube-apiserver").await.map_err(std::io::Error::other)?;
    let all = if scraped.status == 200 { Ok(scraped.body.clone()) } else { Err(scraped.text().to_string()) };
    all.map_err(std::io::Error::other)
}

fn median(costs: impl Iterator<Item = Cost>) -> Cost {
    let (mut cpu, mut wall): (Vec<_>, Vec<_>) = costs.map(|cost| (cost.cpu, cost.wall)).unzip();
    cpu.sort();
    wall.sort();
    Cost { cpu: cpu[cpu.len() / 2], wall: wall[wall.len() / 2] }
}
