//! One way of using the codec, on one input, that knows what its output must be.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sluice_codec::{Action, FRAME_CAPACITY, Merge, MergeOptions, PodIdentity, Rule, Rules, Step, TargetLabels};

use crate::input;

/// Something to measure.
pub struct Scenario {
    /// What it is called in tables and in `instructions.csv`.
    pub name: &'static str,
    bodies: Vec<Bytes>,
    targets: Vec<TargetLabels>,
    rules: Arc<Rules>,
    /// Which samples the rules must leave, said in another way than the rules say it.
    kept: fn(name: &str, le: &str) -> bool,
}

/// Frames as they come from a socket under load.
const FRAME: usize = 64 * 1024;

impl Scenario {
    /// All scenarios, in the order of the tables.
    pub fn all() -> io::Result<Vec<Self>> {
        let apiserver = input::capture("kube-apiserver")?;
        let everything: fn(&str, &str) -> bool = |_, _| true;
        let one = |name, body: &Bytes| Self::new(name, vec![body.clone()], &[], everything);
        let replicas: Vec<Bytes> = (0..3).map(|number| input::replica(&apiserver, number)).collect();
        Ok(vec![
            one("rewrite kube-apiserver", &apiserver),
            one("rewrite kube-apiserver, shapes never repeat", &input::never_repeating(&apiserver)),
            one("rewrite kube-controller-manager", &input::capture("kube-controller-manager")?),
            one("rewrite etcd", &input::capture("etcd")?),
            Self::new("rewrite kube-apiserver, All rules", vec![apiserver.clone()], &all_rules(), kept_by_all),
            Self::new(
                "rewrite kube-apiserver, Telemetry rules",
                vec![apiserver],
                &telemetry_rules(),
                kept_by_telemetry,
            ),
            one("rewrite replica 0", &replicas[0]),
            one("rewrite replica 1", &replicas[1]),
            one("rewrite replica 2", &replicas[2]),
            Self::new("merge of the three replicas", replicas, &[], everything),
        ])
    }

    fn new(name: &'static str, bodies: Vec<Bytes>, rules: &[Rule], kept: fn(&str, &str) -> bool) -> Self {
        let target = |number| {
            let pod = format!("kube-apiserver-{number}");
            let instance = format!("10.128.0.{number}:6443");
            let identity = PodIdentity {
                pod: &pod,
                namespace: "default",
                job: "apiserver",
                service: "kubernetes",
                endpoint: "https",
                instance: &instance,
            };
            TargetLabels::of_pod(["pod"], identity)
        };
        let targets = (0..bodies.len()).map(target).collect::<Result<_, _>>().unwrap_or_default();
        // Constants of this file: a mistake in them shows in the first assertion.
        let rules = Arc::new(Rules::compile(rules).unwrap_or_default());
        Self { name, bodies, targets, rules, kept }
    }

    /// Bytes that go in.
    pub fn bytes(&self) -> usize {
        self.bodies.iter().map(Bytes::len).sum()
    }

    /// The bodies, for measuring what a plain copy of them costs.
    pub fn bodies(&self) -> &[Bytes] {
        &self.bodies
    }

    /// Does the work once, handing each output frame to `sink`; the number of pods that failed.
    pub fn run(&self, out: &mut Vec<u8>, mut sink: impl FnMut(&[u8])) -> usize {
        let options = MergeOptions { rules: self.rules.clone(), ..MergeOptions::default() };
        let mut merge = Merge::new(self.targets.iter().cloned(), &options);
        let mut read = vec![0; self.bodies.len()];
        let mut failed = 0;
        out.clear();
        loop {
            match merge.step(out) {
                Step::Frame => {
                    sink(out);
                    out.clear();
                }
                Step::Need(pod) => {
                    let (body, start) = (&self.bodies[pod], read[pod]);
                    if start == body.len() {
                        merge.end(pod);
                    } else {
                        read[pod] = body.len().min(start + FRAME);
                        merge.feed(pod, body.slice(start..read[pod]));
                    }
                }
                Step::Failed(_) => failed += 1,
                Step::Done => break,
            }
        }
        sink(out);
        failed
    }

    /// Checks that exactly the samples that should be there are, with labels and value; says what is not.
    pub fn check(&self) -> Result<(), String> {
        let mut output = Vec::new();
        let failed = self.run(&mut Vec::with_capacity(FRAME_CAPACITY), |frame| output.extend_from_slice(frame));
        if failed > 0 {
            return Err(format!("{}: {failed} pods failed", self.name));
        }
        let mut expected: HashMap<String, usize> = HashMap::new();
        for (pod, body) in self.bodies.iter().enumerate() {
            let injected = format!(
                r#"pod="kube-apiserver-{pod}",namespace="default",job="apiserver",service="kubernetes",endpoint="https",instance="10.128.0.{pod}:6443""#
            );
            for line in String::from_utf8_lossy(body).lines().filter(|line| !line.starts_with('#')) {
                let name = line.split(['{', ' ']).next().unwrap_or_default();
                let le = line.split("le=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
                if (self.kept)(name, le) {
                    let labelled = match line.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) {
                        Some(labels) => format!("{name}{{{injected},{labels}"),
                        None => line.replacen(' ', &format!("{{{injected}}} "), 1),
                    };
                    *expected.entry(labelled).or_default() += 1;
                }
            }
        }
        for line in String::from_utf8_lossy(&output).lines().filter(|line| !line.starts_with('#')) {
            match expected.get_mut(line) {
                Some(count) if *count > 0 => *count -= 1,
                _ => return Err(format!("{}: unexpected {line}", self.name)),
            }
        }
        match expected.iter().find(|(_, count)| **count > 0) {
            Some((line, _)) => Err(format!("{}: missing {line}", self.name)),
            None => Ok(()),
        }
    }
}

fn rule(action: Action, sources: &[&str], regex: &str) -> Rule {
    let source_labels = sources.iter().map(ToString::to_string).collect();
    Rule { action, source_labels, separator: ";".into(), regex: regex.into() }
}

/// The All set of the kube-apiserver, as HyperShift's management monitors have it.
fn all_rules() -> Vec<Rule> {
    let names = [
        "etcd_(debugging|disk|server).*",
        "apiserver_admission_controller_admission_latencies_seconds_.*",
        "apiserver_admission_step_admission_latencies_seconds_.*",
        "scheduler_(e2e_scheduling_latency_microseconds|scheduling_algorithm_predicate_evaluation|scheduling_algorithm_priority_evaluation|scheduling_algorithm_preemption_evaluation|scheduling_algorithm_latency_microseconds|binding_latency_microseconds|scheduling_latency_seconds)",
        "apiserver_(request_count|request_latencies|request_latencies_summary|dropped_requests|storage_data_key_generation_latencies_microseconds|storage_transformation_failures_total|storage_transformation_latencies_microseconds|proxy_tunnel_sync_latency_secs)",
        "docker_(operations|operations_latency_microseconds|operations_errors|operations_timeout)",
        "reflector_(items_per_list|items_per_watch|list_duration_seconds|lists_total|short_watches_total|watch_duration_seconds|watches_total)",
        "etcd_(helper_cache_hit_count|helper_cache_miss_count|helper_cache_entry_count|request_cache_get_latencies_summary|request_cache_add_latencies_summary|request_latencies_summary)",
        "transformation_(transformation_latencies_microseconds|failures_total)",
        "network_plugin_operations_latency_microseconds|sync_proxy_rules_latency_microseconds|rest_client_request_latency_seconds",
    ];
    let buckets = r"apiserver_request_duration_seconds_bucket;(0.15|0.25|0.3|0.35|0.4|0.45|0.6|0.7|0.8|0.9|1.25|1.5|1.75|2.5|3|3.5|4.5|6|7|8|9|15|25|30|50)(\.0)?";
    let mut rules: Vec<Rule> = names.iter().map(|regex| rule(Action::Drop, &["__name__"], regex)).collect();
    rules.push(rule(Action::Drop, &["__name__", "le"], buckets));
    rules
}

fn kept_by_all(name: &str, le: &str) -> bool {
    let dropped = [
        "etcd_debugging",
        "etcd_disk",
        "etcd_server",
        "apiserver_admission_controller_admission_latencies_seconds_",
        "apiserver_admission_step_admission_latencies_seconds_",
    ];
    let bounds = [
        "0.15", "0.25", "0.3", "0.35", "0.4", "0.45", "0.6", "0.7", "0.8", "0.9", "1.25", "1.5", "1.75", "2.5", "3",
        "3.5", "4.5", "6", "7", "8", "9", "15", "25", "30", "50",
    ];
    let in_bounds = name == "apiserver_request_duration_seconds_bucket" && bounds.contains(&le);
    !dropped.iter().any(|prefix| name.starts_with(prefix)) && !in_bounds
}

/// The Telemetry set of the kube-apiserver.
fn telemetry_rules() -> Vec<Rule> {
    let names = "(apiserver_storage_objects|apiserver_request_total|apiserver_current_inflight_requests)";
    vec![rule(Action::Keep, &["__name__"], names)]
}

fn kept_by_telemetry(name: &str, _le: &str) -> bool {
    ["apiserver_storage_objects", "apiserver_request_total", "apiserver_current_inflight_requests"].contains(&name)
}
