//! The scenarios as wall time, for people: `cargo bench -p sluice-bench`.

#![allow(missing_docs, reason = "not an API")]

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use sluice_bench::scenario::Scenario;
use sluice_codec::FRAME_CAPACITY;

fn main() {
    divan::main();
}

fn names() -> Vec<&'static str> {
    Scenario::all().map(|all| all.iter().map(|scenario| scenario.name).collect()).unwrap_or_default()
}

#[divan::bench(args = names(), sample_count = 30)]
fn codec(bencher: Bencher<'_, '_>, name: &str) {
    let scenarios = Scenario::all().unwrap_or_default();
    let Some(scenario) = scenarios.iter().find(|scenario| scenario.name == name) else { return };
    assert_eq!(scenario.check(), Ok(()));
    let mut out = Vec::with_capacity(FRAME_CAPACITY);
    bencher.counter(BytesCount::new(scenario.bytes())).bench_local(|| {
        scenario.run(&mut out, |frame| {
            black_box(frame);
        })
    });
}

#[divan::bench(sample_count = 30)]
fn memcpy_kube_apiserver(bencher: Bencher<'_, '_>) {
    let scenarios = Scenario::all().unwrap_or_default();
    let Some(body) = scenarios.first().and_then(|scenario| scenario.bodies().first()) else { return };
    let mut copy = vec![1; body.len()];
    bencher.counter(BytesCount::new(body.len())).bench_local(|| {
        copy.copy_from_slice(body);
        black_box(&copy);
    });
}
