//! Captures of real components: nothing is lost, nothing changed but the labels added, and promtool agrees.

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::model::{ModelRule, PodInput, Settings};
use crate::support::parser::{Parsed, Sample};
use crate::support::{CORPUS, Chunking, assert_like_model, corpus, drop_rule, parser, pod, run, settings};

const SIX: [(&str, &str); 6] = [
    ("pod", ""),
    ("namespace", "openshift-etcd"),
    ("job", "etcd"),
    ("service", "etcd"),
    ("endpoint", "etcd-metrics"),
    ("instance", "10.0.0.1:9979"),
];

/// What pod `name` must make of a sample. No capture has `exported_` labels, so renaming is simple.
fn expected(name: &str, sample: &Sample) -> Sample {
    let injected = SIX.map(|(label, value)| if label == "pod" { (label, name) } else { (label, value) });
    let mut labels = injected.map(|(label, value)| (label.into(), value.into())).to_vec();
    for (label, value) in &sample.labels {
        assert!(!label.starts_with(b"exported_"));
        let conflicts = SIX.iter().any(|(injected, _)| injected.as_bytes() == label);
        match (conflicts, value.is_empty()) {
            (true, true) => {}
            (true, false) => labels.push(([b"exported_", label.as_slice()].concat(), value.clone())),
            (false, _) => labels.push((label.clone(), value.clone())),
        }
    }
    Sample { labels, ..sample.clone() }
}

/// Which TYPE line stood before a sample is a matter of the merge, not of the sample.
fn untyped(sample: &Sample) -> Sample {
    Sample { type_in_force: None, ..sample.clone() }
}

fn is_synthetic(sample: &Sample) -> bool {
    sample.name == b"up" || sample.name == b"metrics_aggregator_pod_scrape_errors_total"
}

fn assert_nothing_lost(original: &Parsed, merged: &Parsed, pods: &[&str]) {
    for name in pods {
        let of_pod = |sample: &&Sample| sample.labels[0] == (b"pod".to_vec(), name.as_bytes().to_vec());
        let written: Vec<Sample> =
            merged.samples.iter().filter(of_pod).filter(|sample| !is_synthetic(sample)).map(untyped).collect();
        let wanted: Vec<Sample> = original.samples.iter().map(|sample| untyped(&expected(name, sample))).collect();
        assert_eq!(written.len(), wanted.len());
        for (written, wanted) in written.iter().zip(&wanted) {
            assert_eq!(written, wanted);
        }
    }
    let synthetic = merged.samples.iter().filter(|sample| is_synthetic(sample)).count();
    assert_eq!(merged.samples.len(), original.samples.len() * pods.len() + synthetic);

    let names: HashSet<&[u8]> = original.samples.iter().map(|sample| sample.name.as_slice()).collect();
    let has_samples = |family: &str| {
        ["", "_bucket", "_sum", "_count"].iter().any(|suffix| names.contains(format!("{family}{suffix}").as_bytes()))
    };
    for (family, kind) in original.types.iter().filter(|(family, _)| has_samples(family)) {
        let found = merged.types.iter().filter(|(name, _)| name == family).collect::<Vec<_>>();
        assert_eq!(found, [&(family.clone(), kind.clone())]);
    }
    for (family, help) in original.help.iter().filter(|(family, help)| has_samples(family) && !help.is_empty()) {
        let found = merged.help.iter().filter(|(name, _)| name == family).collect::<Vec<_>>();
        assert_eq!(found, [&(family.clone(), help.clone())]);
    }
}

/// 3 is for what promtool finds inelegant in the names others chose; 1 is for what it cannot read.
fn assert_promtool_reads(response: Vec<u8>) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool: {error}; it comes with the Debian package `prometheus`"));
    let mut stdin = promtool.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&response));
    let result = promtool.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said = String::from_utf8_lossy(&result.stderr);
    let last = said.lines().rev().take(5).collect::<Vec<_>>().join("\n");
    assert!(matches!(result.status.code(), Some(0 | 3)), "{}: {last}", result.status);
}

fn assert_merges(name: &str) {
    let body = corpus(name);
    let original = parser::parse(&body, false).unwrap();
    for names in [&["a"][..], &["a", "b", "c"]] {
        let pods: Vec<PodInput> = names.iter().map(|name| pod(name, body.clone())).collect();
        let (output, outcomes) = run(&pods, &settings(), &Chunking::Every(16 * 1024));
        assert!(outcomes.iter().all(|outcome| outcome.error.is_none()), "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| outcome.counts.samples == original.samples.len() as u64));
        let merged = parser::parse(&output, false).unwrap();
        assert_eq!(merged.repeated_metadata, 0);
        assert_nothing_lost(&original, &merged, names);
        assert_promtool_reads(output);
    }
}

#[test]
fn etcd() {
    assert_merges("etcd");
}

#[test]
fn haproxy() {
    assert_merges("haproxy");
}

#[test]
fn kube_apiserver() {
    assert_merges("kube-apiserver");
}

#[test]
fn kube_controller_manager() {
    assert_merges("kube-controller-manager");
}

#[test]
fn kube_scheduler() {
    assert_merges("kube-scheduler");
}

#[test]
fn prometheus() {
    assert_merges("prometheus");
}

#[test]
fn every_capture_merges_as_in_the_model() {
    for name in CORPUS.into_iter().filter(|name| *name != "kube-apiserver") {
        let body = corpus(name);
        assert_like_model(&["a", "b"].map(|pod_name| pod(pod_name, body.clone())), &settings(), &Chunking::Every(4096));
    }
}

/// `HyperShift`'s `All` set for the kube-apiserver.
pub(crate) fn all_rules() -> Vec<ModelRule> {
    let names = [
        "etcd_(debugging|disk|server).*",
        "apiserver_admission_controller_admission_latencies_seconds_.*",
        "apiserver_admission_step_admission_latencies_seconds_.*",
        "scheduler_(e2e_scheduling_latency_microseconds|scheduling_algorithm_predicate_evaluation|\
            scheduling_algorithm_priority_evaluation|scheduling_algorithm_preemption_evaluation|\
            scheduling_algorithm_latency_microseconds|binding_latency_microseconds|scheduling_latency_seconds)",
        "apiserver_(request_count|request_latencies|request_latencies_summary|dropped_requests|\
            storage_data_key_generation_latencies_microseconds|storage_transformation_failures_total|\
            storage_transformation_latencies_microseconds|proxy_tunnel_sync_latency_secs)",
        "docker_(operations|operations_latency_microseconds|operations_errors|operations_timeout)",
        "reflector_(items_per_list|items_per_watch|list_duration_seconds|lists_total|short_watches_total|\
            watch_duration_seconds|watches_total)",
        "etcd_(helper_cache_hit_count|helper_cache_miss_count|helper_cache_entry_count|\
            request_cache_get_latencies_summary|request_cache_add_latencies_summary|request_latencies_summary)",
        "transformation_(transformation_latencies_microseconds|failures_total)",
        "network_plugin_operations_latency_microseconds|sync_proxy_rules_latency_microseconds|\
            rest_client_request_latency_seconds",
    ];
    let buckets = "apiserver_request_duration_seconds_bucket;(0.15|0.25|0.3|0.35|0.4|0.45|0.6|0.7|0.8|0.9|1.25|1.5|\
        1.75|2.5|3|3.5|4.5|6|7|8|9|15|25|30|50)(\\.0)?";
    let by_name = names.iter().map(|regex| drop_rule(&["__name__"], regex));
    by_name.chain([drop_rule(&["__name__", "le"], buckets)]).collect()
}

/// `HyperShift`'s `Telemetry` set for the kube-apiserver.
pub(crate) fn telemetry_rules() -> Vec<ModelRule> {
    let names = "(apiserver_storage_objects|apiserver_request_total|apiserver_current_inflight_requests)";
    vec![ModelRule { keep: true, ..drop_rule(&["__name__"], names) }]
}

/// About 400 kB of the capture: at most ten lines in a row of each name, so that every family is in it.
fn thinned(body: &[u8]) -> Vec<u8> {
    let mut kept = Vec::new();
    let (mut last, mut run_length) = (&b""[..], 0);
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let name = line.split(|byte| matches!(byte, b'{' | b' ')).next().unwrap_or_default();
        run_length = if name == last { run_length + 1 } else { 0 };
        last = name;
        if name == b"#" || run_length < 10 {
            kept.extend_from_slice(line);
        }
    }
    kept
}

#[test]
fn hypershift_s_rule_sets_filter_the_kube_apiserver_as_in_the_model() {
    let body = corpus("kube-apiserver");
    let prefix_end = body[..400_000].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for rules in [all_rules(), telemetry_rules()] {
        let settings = Settings { rules, ..settings() };
        for body in [&body[..prefix_end], &thinned(&body)] {
            let pods = ["a", "b"].map(|name| pod(name, body));
            let output = assert_like_model(&pods, &settings, &Chunking::Every(16 * 1024));
            assert_eq!(parser::parse(&output, false).unwrap().repeated_metadata, 0);
        }
    }
}

/// Of the whole capture: what is left is what the rules say of each sample on its own.
#[test]
fn hypershift_s_rule_sets_leave_the_right_samples_of_the_kube_apiserver() {
    let body = corpus("kube-apiserver");
    let original = parser::parse(&body, false).unwrap();
    for (rules, at_least) in [(all_rules(), 10_000), (telemetry_rules(), 100)] {
        let whole_match: Vec<_> =
            rules.iter().map(|rule| regex::Regex::new(&format!("^({})$", rule.regex)).unwrap()).collect();
        let survives = |sample: &&Sample| {
            rules.iter().zip(&whole_match).all(|(rule, regex)| {
                let of = |source: &String| match source.as_str() {
                    "__name__" => sample.name.clone(),
                    label => sample
                        .labels
                        .iter()
                        .find(|(name, _)| name == label.as_bytes())
                        .map(|(_, value)| value.clone())
                        .unwrap_or_default(),
                };
                let values: Vec<Vec<u8>> = rule.source_labels.iter().map(of).collect();
                regex.is_match(std::str::from_utf8(&values.join(&b';')).unwrap()) == rule.keep
            })
        };
        let wanted: Vec<Sample> =
            original.samples.iter().filter(survives).map(|sample| untyped(&expected("a", sample))).collect();
        let (output, outcomes) = run(
            &[pod("a", body.clone())],
            &Settings { rules: rules.clone(), ..settings() },
            &Chunking::Every(16 * 1024),
        );
        let merged = parser::parse(&output, false).unwrap();
        let written: Vec<Sample> = merged.samples.iter().filter(|sample| !is_synthetic(sample)).map(untyped).collect();
        assert!(wanted.len() > at_least && wanted.len() < original.samples.len());
        assert!(written == wanted, "{} of {}", written.len(), wanted.len());
        assert_eq!(outcomes[0].counts.dropped_by_rule as usize, original.samples.len() - wanted.len());
        assert_promtool_reads(output);
    }
}
