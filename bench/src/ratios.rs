//! Wall time, as ratios of things measured side by side in one run.

use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

use sluice_codec::FRAME_CAPACITY;

use crate::scenario::Scenario;

/// Each scenario is measured this often, in turn with all others, and its best time counts: what
/// disturbs a run only ever makes it slower.
const ROUNDS: usize = 25;

/// Measures all scenarios and prints the table; whether all floors were met.
pub fn print() -> io::Result<bool> {
    let scenarios = Scenario::all()?;
    for scenario in &scenarios {
        scenario.check().map_err(io::Error::other)?;
    }
    let mut out = Vec::with_capacity(FRAME_CAPACITY);
    let mut times = vec![Duration::MAX; scenarios.len()];
    let mut copies = vec![Duration::MAX; scenarios.len()];
    for _ in 0..ROUNDS {
        for (number, scenario) in scenarios.iter().enumerate() {
            times[number] = times[number].min(time(|| {
                black_box(scenario.run(&mut out, |frame| {
                    black_box(frame);
                }));
            }));
            copies[number] = copies[number].min(time_of_copy(scenario));
        }
    }
    let speed = |number: usize| scenarios[number].bytes() as f64 / times[number].as_secs_f64();
    println!("{:<45} {:>8} {:>8} {:>10}", "scenario", "MB", "GB/s", "of memcpy");
    for (number, scenario) in scenarios.iter().enumerate() {
        let megabytes = scenario.bytes() as f64 / 1e6;
        let of_copy = copies[number].as_secs_f64() / times[number].as_secs_f64();
        println!("{:<45} {megabytes:>8.2} {:>8.2} {of_copy:>10.3}", scenario.name, speed(number) / 1e9);
    }
    let place = |name: &str| scenarios.iter().position(|scenario| scenario.name == name).unwrap_or(0);
    let apiserver = place("rewrite kube-apiserver");
    let apart: f64 = (0..3).map(|replica| times[place(&format!("rewrite replica {replica}"))].as_secs_f64()).sum();
    let floors = [
        // The floor: about 1.5 GB/s on the machine it was written on.
        ("kube-apiserver, of memcpy", copies[apiserver].as_secs_f64() / times[apiserver].as_secs_f64(), 0.08),
        // A body that defeats every shortcut may take twice as long.
        (
            "shapes never repeat, of kube-apiserver",
            speed(place("rewrite kube-apiserver, shapes never repeat")) / speed(apiserver),
            0.5,
        ),
        // Merging may cost 1.3 times what rewriting the same bodies one by one costs.
        (
            "three rewrites, of their merge",
            apart / times[place("merge of the three replicas")].as_secs_f64(),
            1.0 / 1.3,
        ),
    ];
    println!();
    let mut met = true;
    for (what, ratio, floor) in floors {
        let verdict = if ratio >= floor { "ok" } else { "BELOW" };
        println!("{what:<45} {ratio:>8.3} (floor {floor:.3}) {verdict}");
        met &= ratio >= floor;
    }
    Ok(met)
}

/// The better of two copies in a row, so that the bodies are in the cache: a floor against a cold copy would be too easy.
fn time_of_copy(scenario: &Scenario) -> Duration {
    let mut copies: Vec<Vec<u8>> = scenario.bodies().iter().map(|body| vec![1; body.len()]).collect();
    let mut copy_all = || {
        time(|| {
            for (copy, body) in copies.iter_mut().zip(scenario.bodies()) {
                copy.copy_from_slice(body);
                black_box(&copy);
            }
        })
    };
    copy_all().min(copy_all())
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}
