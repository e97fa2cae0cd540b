//! Peak memory does not depend on how much the pods send: ten times the body, the same peak.
//!
//! One test, since the profiler counts everything the process allocates.

#![allow(missing_docs, reason = "tests are not an API")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use sluice_codec::{Action, FRAME_CAPACITY, Limits, Merge, MergeOptions, Rule, Rules, Step, Synthetic, TargetLabels};

#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc;

const PODS: usize = 3;

/// Appends the lines with this number to a body.
type WriteLines = fn(&mut Vec<u8>, usize);

/// What a pod's connection hands over at a time.
const FRAME: usize = 16 * 1024;

/// The frame in hand of each pod and the one output buffer, which are the caller's; and what the codec itself keeps:
/// per pod some state of fixed size, an unfinished line, a family's name and its HELP text.
const PLAIN: usize = PODS * FRAME + FRAME_CAPACITY + PODS * 24 * 1024;

/// Per pod the answers of rules that look at labels: at most 256, for values of at most 128 bytes.
const RULES: usize = PLAIN + PODS * 16 * 1024;

/// Lines of 200 KiB: in the buffer for an unfinished one, which doubles as it grows, and a HELP text twice while it is
/// compared. What the documentation of `Limits::line_bytes` says.
const LONG_LINES: usize = PLAIN + PODS * 5 * Limits::LINE_BYTES as usize;

/// A name is kept as often as the last few decisions on names need it, and once or twice for the block.
const LONG_NAMES: usize = PLAIN + PODS * 16 * Limits::NAME_BYTES;

/// What may differ between two bodies: where the cuts between frames happen to fall.
const SLACK: usize = 512;

/// A body that is made as it is read; numbers have a fixed width, so that lines do not grow with them.
struct Body {
    buffer: Vec<u8>,
    next: usize,
    end: usize,
    write: WriteLines,
}

impl Body {
    fn new(write: WriteLines, end: usize) -> Self {
        Self { buffer: Vec::with_capacity(2 * FRAME), next: 0, end, write }
    }

    fn frame(&mut self) -> Option<Bytes> {
        while self.buffer.len() < FRAME && self.next < self.end {
            (self.write)(&mut self.buffer, self.next);
            self.next += 1;
        }
        let len = self.buffer.len().min(FRAME);
        let frame = (len > 0).then(|| Bytes::copy_from_slice(&self.buffer[..len]));
        self.buffer.drain(..len);
        frame
    }
}

/// Bytes at the peak of one merge, bytes written, and how many pods failed.
fn peak(writes: [WriteLines; PODS], count: usize, options: &MergeOptions) -> (usize, usize, usize) {
    let mut bodies = writes.map(|write| Body::new(write, count));
    let profiler = dhat::Profiler::builder().testing().trim_backtraces(Some(1)).build();
    let targets = ["etcd-0", "etcd-1", "etcd-2"].map(|pod| {
        TargetLabels::new([("pod", pod), ("namespace", "openshift-etcd"), ("instance", "10.0.0.1:9979")]).unwrap()
    });
    let mut merge = Merge::new(targets, options);
    let mut out = Vec::with_capacity(FRAME_CAPACITY);
    let (mut written, mut failed) = (0, 0);
    loop {
        match merge.step(&mut out) {
            Step::Frame => {
                written += out.len();
                out.clear();
            }
            Step::Need(pod) => match bodies[pod].frame() {
                Some(frame) => merge.feed(pod, frame),
                None => merge.end(pod),
            },
            Step::Failed(_) => failed += 1,
            Step::Done => break,
        }
    }
    merge.finish(&mut out, Synthetic { component: "etcd", proxy: "sluice-0", emit_up: true }, |_, _| 0);
    let stats = dhat::HeapStats::get();
    drop(profiler);
    (stats.max_bytes, written + out.len(), failed)
}

fn one_sample_families(out: &mut Vec<u8>, number: usize) {
    writeln!(out, "# HELP m_{number:08} Help of {number:08}.\n# TYPE m_{number:08} gauge\nm_{number:08} 1").unwrap();
}

/// As an apiserver has them.
fn histograms(out: &mut Vec<u8>, number: usize) {
    writeln!(out, "# HELP h_{number:08} Latency.\n# TYPE h_{number:08} histogram").unwrap();
    for verb in ["GET", "LIST", "WATCH"] {
        for le in ["0.1", "0.25", "0.5", "1", "+Inf"] {
            writeln!(out, "h_{number:08}_bucket{{verb=\"{verb}\",resource=\"pods\",le=\"{le}\"}} {number:08}").unwrap();
        }
        writeln!(out, "h_{number:08}_sum{{verb=\"{verb}\",resource=\"pods\"}} 0.5").unwrap();
        writeln!(out, "h_{number:08}_count{{verb=\"{verb}\",resource=\"pods\"}} {number:08}").unwrap();
    }
}

fn one_family(out: &mut Vec<u8>, number: usize) {
    writeln!(out, "requests_total{{code=\"{:03}\",path=\"/{number:08}\"}} {number:08}", number % 600).unwrap();
}

/// No line like the one before it: other names, other numbers of labels, other spellings.
fn all_different(out: &mut Vec<u8>, number: usize) {
    write!(out, "m_{number:08}{{").unwrap();
    for label in 0..number % 24 {
        write!(out, "l{label}_{:08} = \"\\{label:02}\\\"é\",", number ^ label).unwrap();
    }
    writeln!(out, "}} {number:08}.5 {number:08}").unwrap();
}

/// Families that no other pod has, so that pods wait for each other.
fn behind_all_others(out: &mut Vec<u8>, number: usize) {
    writeln!(out, "# TYPE z_{number:08} counter\nz_{number:08}{{pod=\"own\"}} 1").unwrap();
}

fn long_help(out: &mut Vec<u8>, number: usize) {
    write!(out, "# HELP m_{number:08} ").unwrap();
    out.resize(out.len() + 200 * 1024, b'x');
    writeln!(out, "\nm_{number:08} 1").unwrap();
}

/// As long as they may be.
fn long_names(out: &mut Vec<u8>, number: usize) {
    write!(out, "m_{number:08}").unwrap();
    out.resize(out.len() + Limits::NAME_BYTES - 10, b'x');
    out.extend_from_slice(b" 1\n");
}

fn never_a_newline(out: &mut Vec<u8>, _: usize) {
    out.resize(out.len() + 1000, b'x');
}

fn rules() -> MergeOptions {
    let drop = |sources: &[&str], regex: &str| Rule {
        action: Action::Drop,
        source_labels: sources.iter().map(ToString::to_string).collect(),
        separator: ";".into(),
        regex: regex.into(),
    };
    let rules = [drop(&["__name__", "path"], "requests_total;/.*[13579]"), drop(&["path", "le"], ".*7;|;0.25")];
    MergeOptions { rules: Arc::new(Rules::compile(&rules).unwrap()), ..MergeOptions::default() }
}

#[test]
fn ten_times_the_body_has_the_same_peak() {
    let plain = MergeOptions::default();
    let rules = rules();
    // A pattern's matcher allocates when it is first used, and keeps that for all scrapes to come.
    peak([one_family, one_family, histograms], 1000, &rules);
    let apart: [WriteLines; PODS] = [histograms, behind_all_others, one_family];
    let hostile: [WriteLines; PODS] = [one_family, never_a_newline, never_a_newline];
    let alike = |write: WriteLines| [write; PODS];
    for (name, writes, count, options, failures, bound) in [
        ("families of one sample", alike(one_sample_families), 5000, &plain, 0, PLAIN),
        ("histograms", alike(histograms), 300, &plain, 0, PLAIN),
        ("one family", alike(one_family), 5000, &plain, 0, PLAIN),
        ("lines all different", alike(all_different), 1000, &plain, 0, PLAIN),
        ("pods with families of their own", apart, 1000, &plain, 0, PLAIN),
        ("one family under rules", alike(one_family), 2000, &rules, 0, RULES),
        ("histograms under rules", alike(histograms), 200, &rules, 0, RULES),
        ("long HELP texts", alike(long_help), 5, &plain, 0, LONG_LINES),
        ("pods without newlines", hostile, 5000, &plain, 2, LONG_LINES),
        ("long names", alike(long_names), 200, &plain, 0, LONG_NAMES),
    ] {
        let (small, written, failed) = peak(writes, count, options);
        let (large, ten_times_written, also_failed) = peak(writes, 10 * count, options);
        println!("{name}: {small} bytes at the peak for {written} written, {large} for {ten_times_written}");
        assert_eq!((failed, also_failed), (failures, failures), "{name}");
        assert!(written > 2 * FRAME_CAPACITY && ten_times_written > 9 * written, "{name}: {written}");
        assert!(large.abs_diff(small) <= SLACK, "{name}: {small} for one, {large} for ten times the body");
        assert!(large <= bound, "{name}: {large}");
    }
}
