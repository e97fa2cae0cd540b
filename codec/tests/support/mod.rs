//! What the tests share: a naive model, an independent parser, generators, the corpus, and a driver
//! that feeds a merge in any chunking.

// Each test binary uses its own part of this.
#![allow(dead_code, unreachable_pub)]

pub mod explained;
pub mod generate;
pub mod model;
pub mod parser;

use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use sluice_codec::{
    Action, Format, Limits, Merge, MergeOptions, Names, Outcome, Rule, Rules, Step, Synthetic, TargetLabels,
};

use model::{ModelRule, PodInput, Settings};

/// Settings that change nothing.
pub fn settings() -> Settings {
    Settings {
        honor_labels: false,
        utf8: false,
        rules: Vec::new(),
        emit_up: true,
        component: "etcd".into(),
        proxy: "sluice-0".into(),
        line_bytes: Limits::LINE_BYTES as usize,
        body_bytes: 0,
        samples: 0,
        errors_before: 0,
    }
}

/// A pod with the six labels of the design.
pub fn pod(name: &str, body: impl Into<Vec<u8>>) -> PodInput {
    let labels = [
        ("pod", name),
        ("namespace", "openshift-etcd"),
        ("job", "etcd"),
        ("service", "etcd"),
        ("endpoint", "etcd-metrics"),
        ("instance", "10.0.0.1:9979"),
    ];
    pod_with(&labels, body)
}

pub fn pod_with(labels: &[(&str, &str)], body: impl Into<Vec<u8>>) -> PodInput {
    PodInput {
        labels: labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect(),
        body: body.into(),
        truncated: false,
    }
}

pub fn drop_rule(sources: &[&str], regex: &str) -> ModelRule {
    ModelRule {
        keep: false,
        source_labels: sources.iter().map(ToString::to_string).collect(),
        separator: ";".into(),
        regex: regex.into(),
    }
}

pub fn options(settings: &Settings) -> MergeOptions {
    let rule = |rule: &ModelRule| Rule {
        action: if rule.keep { Action::Keep } else { Action::Drop },
        source_labels: rule.source_labels.clone(),
        separator: rule.separator.clone(),
        regex: rule.regex.clone(),
    };
    let rules: Vec<Rule> = settings.rules.iter().map(rule).collect();
    MergeOptions {
        rules: Arc::new(Rules::compile(&rules).unwrap()),
        honor_labels: settings.honor_labels,
        names: if settings.utf8 { Names::Utf8 } else { Names::Legacy },
        limits: Limits {
            line_bytes: settings.line_bytes as u32,
            body_bytes: settings.body_bytes as u64,
            samples: settings.samples as u64,
        },
    }
}

/// How the pods' bodies are cut into frames.
pub enum Chunking<'a> {
    Whole,
    Every(usize),
    /// At these offsets, where a body has them.
    At(&'a [usize]),
}

impl Chunking<'_> {
    fn frames(&self, body: &[u8]) -> Vec<Bytes> {
        let bytes = Bytes::copy_from_slice(body);
        match self {
            Self::Whole => vec![bytes],
            Self::Every(size) => body.chunks(*size).map(Bytes::copy_from_slice).collect(),
            Self::At(cuts) => {
                let mut bounds: Vec<usize> = cuts.iter().map(|cut| (*cut).min(body.len())).collect();
                bounds.push(body.len());
                let mut start = 0;
                let mut frames = Vec::new();
                for end in bounds {
                    frames.push(bytes.slice(start..end.max(start)));
                    start = end.max(start);
                }
                frames
            }
        }
    }
}

/// Feeds the pods to a merge, asking nothing of it but that it ends.
pub fn run(pods: &[PodInput], settings: &Settings, chunking: &Chunking<'_>) -> (Vec<u8>, Vec<Outcome>) {
    run_in(Format::Text, pods, settings, chunking)
}

pub fn run_in(
    format: Format,
    pods: &[PodInput],
    settings: &Settings,
    chunking: &Chunking<'_>,
) -> (Vec<u8>, Vec<Outcome>) {
    let targets = pods
        .iter()
        .map(|pod| TargetLabels::new(pod.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))).unwrap());
    let mut merge = Merge::new(targets, &options(settings));
    let mut frames: Vec<_> = pods.iter().map(|pod| chunking.frames(&pod.body).into_iter()).collect();
    (0..pods.len()).for_each(|pod| merge.set_format(pod, format));
    let mut failed = vec![false; pods.len()];
    let mut response = Vec::new();
    let mut frame = Vec::new();
    loop {
        match merge.step(&mut frame) {
            Step::Frame => response.append(&mut frame),
            Step::Need(pod) => {
                assert!(!failed[pod], "a failed pod is not asked for more");
                match frames[pod].next() {
                    Some(bytes) => merge.feed(pod, bytes),
                    None if pods[pod].truncated => merge.fail(pod),
                    None => merge.end(pod),
                }
            }
            Step::Failed(pod) => assert!(!std::mem::replace(&mut failed[pod], true), "said once"),
            Step::Done => break,
        }
    }
    response.append(&mut frame);
    let synthetic = Synthetic { component: &settings.component, proxy: &settings.proxy, emit_up: settings.emit_up };
    merge.finish(&mut response, synthetic, |_, outcome| settings.errors_before + u64::from(outcome.error.is_some()));
    let outcomes: Vec<Outcome> = (0..pods.len()).map(|pod| merge.outcome(pod)).collect();
    for (outcome, failed) in outcomes.iter().zip(failed) {
        assert_eq!(outcome.error.is_some(), failed, "every failure is said");
    }
    (response, outcomes)
}

/// Asserts that the codec does what the model does, to the byte, for this chunking.
pub fn assert_like_model(pods: &[PodInput], settings: &Settings, chunking: &Chunking<'_>) -> Vec<u8> {
    let (expected, results) = model::run(pods, settings);
    let (output, outcomes) = run(pods, settings, chunking);
    assert_eq!(output.escape_ascii().to_string(), expected.escape_ascii().to_string(), "output");
    for pod in pods {
        explained::assert_like_merged(pod, settings);
    }
    for (pod, (result, outcome)) in results.iter().zip(&outcomes).enumerate() {
        let counts = outcome.counts;
        assert_eq!(result.ok, outcome.error.is_none(), "pod {pod}: {:?}", outcome.error);
        assert_eq!(
            (result.samples, result.dropped_by_rule, result.dropped_reserved, result.dropped_names),
            (counts.samples, counts.dropped_by_rule, counts.dropped_reserved, counts.dropped_names),
            "pod {pod}"
        );
        if let Some(line) = result.failed_line {
            assert_eq!(outcome.error.as_ref().map(|error| error.line), Some(line), "pod {pod}: {:?}", outcome.error);
        }
    }
    output
}

/// A capture of a real component, by file name without its endings.
pub fn corpus(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/corpus/{name}.prom.gz", env!("CARGO_MANIFEST_DIR"));
    let mut body = Vec::new();
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    flate2::read::GzDecoder::new(file).read_to_end(&mut body).unwrap();
    body
}

/// All captures.
pub const CORPUS: [&str; 6] =
    ["etcd", "haproxy", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "prometheus"];
