//! Injected labels, what becomes of a sample's own beside them, and what relabel rules see of both.

use sluice_codec::{Merge, MergeOptions, PodIdentity, Step, TargetLabels};

use crate::support::model::{ModelRule, Settings};
use crate::support::{Chunking, assert_like_model, drop_rule, parser, pod, pod_with, run, settings};

const SIX: &str = "pod=\"etcd-0\",namespace=\"openshift-etcd\",job=\"etcd\",service=\"etcd\",\
                   endpoint=\"etcd-metrics\",instance=\"10.0.0.1:9979\"";

/// The one line that the samples of this body become, for every chunking.
fn labelled(labels: &[(&str, &str)], settings: &Settings, body: &str) -> String {
    let settings = Settings { emit_up: false, ..settings.clone() };
    let pods = [pod_with(labels, body)];
    let output = assert_like_model(&pods, &settings, &Chunking::Whole);
    for size in 1..body.len() {
        assert_eq!(run(&pods, &settings, &Chunking::Every(size)).0, output, "{body:?} in frames of {size}");
    }
    parser::parse(&output, settings.utf8).unwrap();
    let output = String::from_utf8(output).unwrap();
    output[..output.find("# HELP metrics_aggregator_").unwrap()].to_string()
}

#[test]
fn the_six_labels_come_first_and_in_order() {
    let output = assert_like_model(&[pod("etcd-0", "a 1\nb{x=\"y\"} 2 3\n")], &settings(), &Chunking::Whole);
    let expected = format!("a{{{SIX}}} 1\nb{{{SIX},x=\"y\"}} 2 3\n");
    assert!(output.starts_with(expected.as_bytes()), "{}", output.escape_ascii());
}

#[test]
fn a_tenant_may_ask_for_the_pod_s_name_under_two_labels() {
    let identity = PodIdentity {
        pod: "etcd-0",
        namespace: "openshift-etcd",
        job: "etcd",
        service: "etcd",
        endpoint: "etcd-metrics",
        instance: "[fd00::1]:9979",
    };
    let target = TargetLabels::of_pod(["pod", "source_pod"], identity).unwrap();
    let mut merge = Merge::new([target], &MergeOptions::default());
    merge.feed(0, "a{source_pod=\"own\"} 1\n".into());
    merge.end(0);
    let mut out = Vec::new();
    assert_eq!(merge.step(&mut out), Step::Done);
    let expected = "a{pod=\"etcd-0\",source_pod=\"etcd-0\",namespace=\"openshift-etcd\",job=\"etcd\",service=\"etcd\",\
                    endpoint=\"etcd-metrics\",instance=\"[fd00::1]:9979\",exported_source_pod=\"own\"} 1\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn injected_values_are_escaped() {
    let output = labelled(&[("pod", "a\"b\\c\nd"), ("zone", "é{},=")], &settings(), "x 1\nx{y=\"z\"} 1\n");
    let labels = "pod=\"a\\\"b\\\\c\\nd\",zone=\"é{},=\"";
    assert_eq!(output, format!("x{{{labels}}} 1\nx{{{labels},y=\"z\"}} 1\n"));
}

/// What Prometheus' own tests expect of `honor_labels: false`, renamed to labels we inject.
#[test]
fn conflicting_labels_are_exported_as_prometheus_does() {
    type Labels = &'static [(&'static str, &'static str)];
    let rows: &[(Labels, &str, &str)] = &[
        (&[("job", "2")], "m{job=\"1\"} 0", "m{job=\"2\",exported_job=\"1\"} 0\n"),
        (
            &[("job", "2"), ("exported_job", "3")],
            "m{job=\"1\"} 0",
            "m{job=\"2\",exported_job=\"3\",exported_exported_job=\"1\"} 0\n",
        ),
        (
            &[("job", "3")],
            "m{job=\"1\",exported_job=\"2\"} 0",
            "m{job=\"3\",exported_exported_job=\"1\",exported_job=\"2\"} 0\n",
        ),
        (&[("exported_job", "2")], "m{exported_job=\"1\"} 0", "m{exported_job=\"2\",exported_exported_job=\"1\"} 0\n"),
        (
            &[("job", "3"), ("exported_job", "4")],
            "m{job=\"1\",exported_job=\"2\"} 0",
            "m{job=\"3\",exported_job=\"4\",exported_exported_job=\"1\",exported_exported_exported_job=\"2\"} 0\n",
        ),
        (
            &[("job", "0"), ("exported_exported_job", "1"), ("exported_exported_exported_job", "2")],
            "m{job=\"3\",exported_job=\"4\",exported_exported_exported_job=\"5\"} 0",
            "m{job=\"0\",exported_exported_job=\"1\",exported_exported_exported_job=\"2\",\
             exported_exported_exported_exported_job=\"3\",exported_job=\"4\",\
             exported_exported_exported_exported_exported_job=\"5\"} 0\n",
        ),
    ];
    for (labels, body, expected) in rows {
        assert_eq!(labelled(labels, &settings(), body), *expected, "{labels:?} {body}");
    }
}

#[test]
fn an_empty_label_is_no_label_where_its_name_is_needed() {
    let pod = [("pod", "p")];
    let rows = [
        ("m{pod=\"\"} 0", "m{pod=\"p\"} 0\n"),
        ("m{a=\"\",pod=\"\",b=\"1\"} 0", "m{pod=\"p\",a=\"\",b=\"1\"} 0\n"),
        ("m{pod=\"1\",exported_pod=\"\"} 0", "m{pod=\"p\",exported_pod=\"1\"} 0\n"),
        ("m{exported_pod=\"\"} 0", "m{pod=\"p\",exported_pod=\"\"} 0\n"),
        ("m{\"pod\"=\"1\"} 0", "m{pod=\"p\",exported_pod=\"1\"} 0\n"),
    ];
    for (body, expected) in rows {
        assert_eq!(labelled(&pod, &settings(), body), expected, "{body}");
    }
}

#[test]
fn honor_labels_lets_the_exporter_s_label_win_even_an_empty_one() {
    let settings = Settings { honor_labels: true, ..settings() };
    let labels = [("pod", "p"), ("namespace", "ns")];
    let rows = [
        ("m 0", "m{pod=\"p\",namespace=\"ns\"} 0\n"),
        ("m{a=\"1\"} 0", "m{pod=\"p\",namespace=\"ns\",a=\"1\"} 0\n"),
        ("m{a=\"1\",pod=\"own\"} 0", "m{namespace=\"ns\",a=\"1\",pod=\"own\"} 0\n"),
        ("m{namespace=\"\"} 0", "m{pod=\"p\",namespace=\"\"} 0\n"),
        ("m{\"namespace\"=\"x\",pod=\"y\"} 0", "m{namespace=\"x\",pod=\"y\"} 0\n"),
    ];
    for (body, expected) in rows {
        assert_eq!(labelled(&labels, &settings, body), expected, "{body}");
    }
}

#[test]
fn quoted_label_names_stay_beside_injected_ones() {
    let settings = Settings { utf8: true, ..settings() };
    let body = "{\"a.b\",\"c.d\"=\"1\",pod=\"2\"} 0";
    assert_eq!(labelled(&[("pod", "p")], &settings, body), "{\"a.b\",pod=\"p\",\"c.d\"=\"1\",exported_pod=\"2\"} 0\n");
}

fn keep_rule(sources: &[&str], regex: &str) -> ModelRule {
    ModelRule { keep: true, ..drop_rule(sources, regex) }
}

/// (rules, body, the response): rules see a sample as it is written, escapes undone.
#[test]
fn rules_see_the_final_labels() {
    let labels = [("pod", "p-0"), ("namespace", "ns")];
    let one = "a{namespace=\"kube-system\"} 1\na{namespace=\"\"} 2\n";
    let one_written = "a{pod=\"p-0\",namespace=\"ns\",exported_namespace=\"kube-system\"} 1\n";
    let rows: Vec<(Vec<ModelRule>, &str, &str)> = vec![
        (vec![keep_rule(&["exported_namespace"], "kube-.*")], one, one_written),
        (vec![drop_rule(&["exported_namespace"], "")], one, one_written),
        (vec![drop_rule(&["namespace"], "kube-system")], "a{namespace=\"kube-system\"} 1\n", one_written),
        (vec![keep_rule(&["pod", "namespace"], "p-0;ns")], "a 1\n", "a{pod=\"p-0\",namespace=\"ns\"} 1\n"),
        (vec![drop_rule(&["pod"], "p-.")], "# TYPE a gauge\na 1\n", ""),
        (vec![drop_rule(&["x"], "1\n.\"")], "a{x=\"1\\n2\\\"\"} 1\n", ""),
        (vec![drop_rule(&["x"], "\\\\t")], "a{x=\"\\t\"} 1\n", ""),
        (vec![drop_rule(&["__name__", "gone"], "a;")], "a 1\nb 1\n", "b{pod=\"p-0\",namespace=\"ns\"} 1\n"),
        (vec![drop_rule(&["__name__"], "b")], "abc 1\n", "abc{pod=\"p-0\",namespace=\"ns\"} 1\n"),
        (
            vec![keep_rule(&["__name__"], "a|b"), drop_rule(&["__name__"], "b")],
            "a 1\nb 1\nc 1\n",
            "a{pod=\"p-0\",namespace=\"ns\"} 1\n",
        ),
    ];
    for (rules, body, expected) in rows {
        let settings = Settings { rules: rules.clone(), ..settings() };
        assert_eq!(labelled(&labels, &settings, body), expected, "{rules:?} {body}");
    }
}

#[test]
fn rules_under_honor_labels_see_the_exporter_s_label() {
    let rules = vec![drop_rule(&["pod"], "own|")];
    let settings = Settings { honor_labels: true, rules, ..settings() };
    let body = "a{pod=\"own\"} 1\na{pod=\"\"} 2\na{pod=\"other\"} 3\na 4\n";
    assert_eq!(labelled(&[("pod", "p")], &settings, body), "a{pod=\"other\"} 3\na{pod=\"p\"} 4\n");
}

/// The rule `HyperShift` thins the kube-apiserver's buckets with: `le` as the pod wrote it.
#[test]
fn rules_on_name_and_le_thin_out_buckets() {
    let rules = vec![drop_rule(&["__name__", "le"], "h_bucket;(0.15|3)(\\.0)?")];
    let settings = Settings { rules, ..settings() };
    let body = "# TYPE h histogram\nh_bucket{le=\"0.1\"} 1\nh_bucket{le=\"0.15\"} 1\nh_bucket{le=\"3\"} 2\n\
                h_bucket{le=\"3.0\"} 2\nh_bucket{le=\"30\"} 3\nh_bucket{le=\"+Inf\"} 3\nh_sum 1\nh_count 3\n";
    let expected = "# TYPE h histogram\nh_bucket{pod=\"p\",le=\"0.1\"} 1\nh_bucket{pod=\"p\",le=\"30\"} 3\n\
                    h_bucket{pod=\"p\",le=\"+Inf\"} 3\nh_sum{pod=\"p\"} 1\nh_count{pod=\"p\"} 3\n";
    assert_eq!(labelled(&[("pod", "p")], &settings, body), expected);
    let (_, outcomes) = run(&[pod("a", body)], &settings, &Chunking::Whole);
    assert_eq!((outcomes[0].counts.samples, outcomes[0].counts.dropped_by_rule), (8, 3));
}

#[test]
fn a_dropped_sample_counts_once_for_the_first_reason() {
    let settings = Settings { rules: vec![drop_rule(&[], "")], ..settings() };
    let (output, outcomes) = run(&[pod("a", "up{\"x.y\"=\"\"} 1\nup 1\nx 1\n")], &settings, &Chunking::Whole);
    let counts = outcomes[0].counts;
    assert_eq!((counts.dropped_names, counts.dropped_reserved, counts.dropped_by_rule), (1, 1, 1));
    assert!(output.starts_with(b"# HELP metrics_aggregator_"));
}
