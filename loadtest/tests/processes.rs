//! A process under test can be watched, signalled and measured, and does not outlive its test.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on must fail, and say where")]

use std::path::Path;
use std::time::Duration;

use sluice_loadtest::process::{Exit, Process};

fn shell(script: &str) -> Process {
    Process::start(Path::new("/bin/sh"), &["-c", script], &[("GREETING", "hello")])
}

#[tokio::test]
async fn lines_of_both_outputs_are_seen_while_it_runs_and_its_code_when_it_ends() {
    let mut process = shell("echo $GREETING; echo aside >&2; exit 7");
    assert_eq!(process.wait_for_line(|line| line.starts_with("hel")).await, "hello");
    assert_eq!(process.wait_for_line(|line| line == "aside").await, "aside");
    assert_eq!(process.wait_for_line(|line| line == "hello").await, "hello", "lines already seen count too");
    assert_eq!(process.wait().await, Exit::Code(7));
    assert!(process.lines().contains(&"hello".to_owned()));
}

#[tokio::test]
async fn signals_reach_it() {
    let mut process = shell("trap 'echo asked to stop; exit 3' TERM; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line(|line| line == "ready").await;
    assert_eq!(process.exited(), None);
    process.signal("TERM");
    process.wait_for_line(|line| line == "asked to stop").await;
    assert_eq!(process.wait().await, Exit::Code(3));

    let mut process = shell("echo ready; exec sleep 1000");
    process.wait_for_line(|line| line == "ready").await;
    process.signal("KILL");
    assert_eq!(process.wait().await, Exit::Signal(9));
}

#[tokio::test]
async fn it_does_not_outlive_its_handle() {
    let process = shell("echo ready; exec sleep 1000");
    process.wait_for_line(|line| line == "ready").await;
    let proc = format!("/proc/{}", process.id());
    assert!(Path::new(&proc).exists());
    drop(process);
    assert!(!Path::new(&proc).exists());
}

#[tokio::test]
async fn memory_descriptors_and_time_are_measured() {
    // Thirty megabytes for a moment, a file kept open, and some work. It must not become `sleep`, whose memory is new.
    let process = shell(
        "exec 3</dev/null; x=$(head -c 30000000 /dev/zero | tr '\\0' x); unset x; i=0; \
         while [ $i -lt 300000 ]; do i=$((i+1)); done; echo worked; while :; do sleep 0.05; done",
    );
    process.wait_for_line(|line| line == "worked").await;
    let measured = process.measure();
    assert!(measured.peak >= 30_000_000, "{measured:?}");
    assert!(measured.resident > 100_000 && measured.resident <= measured.peak, "{measured:?}");
    assert!(measured.proportional > 0 && measured.proportional <= measured.resident, "{measured:?}");
    assert!(measured.cpu > Duration::ZERO, "{measured:?}");
    assert!(measured.descriptors >= 4, "{measured:?}");
    assert_eq!(measured.threads, 1);
}

#[tokio::test]
async fn the_peak_can_be_reset() {
    let process =
        shell("x=$(head -c 30000000 /dev/zero | tr '\\0' x); unset x; echo ready; while :; do sleep 0.05; done");
    process.wait_for_line(|line| line == "ready").await;
    let before = process.measure();
    process.reset_peak();
    let after = process.measure();
    assert!(after.peak <= before.peak && after.peak < after.resident + (1 << 20), "{before:?} {after:?}");
}
