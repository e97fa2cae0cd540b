//! One scrape of each component, as Prometheus makes it, in a table.

use std::net::SocketAddr;

use sluice_loadtest::cluster::HostedCluster;
use sluice_loadtest::scraper::{Scraped, Scraper};

use super::say;

/// What Sluice adds to an answer, two samples for each pod.
const OWN: [&[u8]; 2] = [b"up{", b"metrics_aggregator_pod_scrape_errors_total{"];

pub(super) async fn print_scrapes(cluster: &HostedCluster, address: SocketAddr) {
    say("One scrape of each component, just now:\n");
    let [up, samples, left_out, size, gzip, time] = ["pods up", "samples", "left out", "size", "gzipped", "time"];
    say(format_args!("    {:<34} {up:>8} {samples:>9} {left_out:>9} {size:>9} {gzip:>9} {time:>8}", "component"));
    // As Prometheus does, one connection for all.
    let scraper = Scraper::new(cluster.prometheus(address));
    for component in cluster.components() {
        match scraper.scrape(&format!("/metrics/{component}")).await {
            Ok(answer) if answer.status == 200 => say(format_args!("    {}", row(cluster, component, &answer))),
            Ok(answer) => say(format_args!("    {component:<34} {} {}", answer.status, answer.text().trim_end())),
            Err(error) => say(format_args!("    {component:<34} {error}")),
        }
    }
    say("\n    left out: samples that a rule in config.yaml drops, as it does in a real cluster\n");
}

fn row(cluster: &HostedCluster, component: &str, scraped: &Scraped) -> String {
    let pods = cluster.pods_of(component).len();
    let lines = || scraped.body.split(|&b| b == b'\n');
    let up = lines().filter(|line| line.starts_with(OWN[0]) && line.ends_with(b" 1")).count();
    let own = lines().filter(|line| OWN.iter().any(|name| line.starts_with(name))).count();
    let samples = scraped.sample_count();
    let left_out = cluster.samples_of(component).saturating_sub(samples - own);
    format!(
        "{component:<34} {:>8} {samples:>9} {left_out:>9} {:>9} {:>9} {:>8}",
        format!("{up} of {pods}"),
        size(scraped.body.len()),
        size(scraped.wire_bytes as usize),
        format!("{} ms", scraped.total.as_millis()),
    )
}

fn size(bytes: usize) -> String {
    if bytes < 1_000_000 { format!("{} kB", bytes.div_ceil(1000)) } else { format!("{:.1} MB", bytes as f64 / 1e6) }
}
