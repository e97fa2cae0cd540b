//! `sluice explain`: of each line it is said what the merge does with it, and which rule decided.
//!
//! That it is what the merge does is also asserted wherever the codec is compared with the model (`support`).

use sluice_codec::{Declaration, DropReason, Fate, LabelChange, Limit};

use crate::corpus::{all_rules, telemetry_rules};
use crate::support::model::{ModelRule, PodInput, Settings};
use crate::support::{CORPUS, corpus, drop_rule, explained, parser, pod, pod_with, settings};

/// What is said about each line, in a few words.
fn said(pod: &PodInput, settings: &Settings) -> Vec<String> {
    let mut explainer = explained::explainer(pod, settings);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
    let mut said = Vec::new();
    for line in pod.body.split_inclusive(|byte| *byte == b'\n') {
        let told = explainer.line(line);
        let fate = match told.fate {
            Fate::Kept(kept) => format!("kept {} bringing {:?}", text(kept.output), kept.brings),
            Fate::Dropped(dropped) => match dropped.refusal {
                Some(refusal) => format!("dropped by {} seeing {:?}", refusal.rule, text(&refusal.value)),
                None => format!("dropped {:?}", dropped.reason),
            },
            Fate::Failed(failure) => format!("failed at {}: {}", failure.column, failure.error.fault),
            other => format!("{other:?}"),
        };
        let unwritten = told.unwritten.iter().map(|line| format!("; {} unwritten", line.number));
        said.push(fate + &unwritten.collect::<String>());
    }
    said.extend(explainer.end().iter().map(|line| format!("{} unwritten", line.number)));
    said
}

#[test]
fn every_capture_is_explained_as_it_is_merged() {
    for name in CORPUS {
        let pod = pod("etcd-0", corpus(name));
        for rules in [Vec::new(), all_rules(), telemetry_rules()] {
            explained::assert_like_merged(&pod, &Settings { rules, ..settings() });
        }
    }
}

/// Prometheus asks rule after rule, and the first that does not let a sample pass drops it.
#[test]
fn the_rule_that_is_named_is_the_first_that_does_not_let_the_sample_pass() {
    let body = corpus("kube-apiserver");
    let mut rules = all_rules();
    // Looks at labels, and stands before rules that would drop the same samples for their name.
    rules.insert(0, drop_rule(&["le"], "0.1|0.15"));
    rules.push(ModelRule { keep: true, ..drop_rule(&["__name__"], "apiserver_.*") });
    let patterns: Vec<_> =
        rules.iter().map(|rule| regex::Regex::new(&format!("^({})$", rule.regex)).unwrap()).collect();
    let settings = Settings { rules, ..settings() };
    let mut explainer = explained::explainer(&pod("a", ""), &settings);
    let mut dropped_by = vec![0; patterns.len()];
    let samples = parser::parse(&body, false).unwrap().samples;
    let lines = body.split_inclusive(|byte| *byte == b'\n').filter(|line| line[0] != b'#');
    assert_eq!(lines.clone().count(), samples.len());
    for (line, sample) in lines.zip(&samples) {
        let value = |rule: &ModelRule| {
            let of = |source: &String| match source.as_str() {
                "__name__" => sample.name.clone(),
                own => {
                    let label = sample.labels.iter().find(|(name, _)| name == own.as_bytes());
                    label.map(|(_, value)| value.clone()).unwrap_or_default()
                }
            };
            rule.source_labels.iter().map(of).collect::<Vec<_>>().join(&b';')
        };
        let refuses = |(number, rule): (usize, &ModelRule)| {
            let value = value(rule);
            let matches = patterns[number].is_match(std::str::from_utf8(&value).unwrap());
            (matches != rule.keep).then_some((number, value))
        };
        let expected = settings.rules.iter().enumerate().find_map(refuses);
        let got = match explainer.line(line).fate {
            Fate::Kept(_) => None,
            Fate::Dropped(dropped) => dropped.refusal.map(|refusal| (refusal.rule, refusal.value)),
            other => panic!("{}: {other:?}", line.escape_ascii()),
        };
        assert_eq!(got, expected, "{}", line.escape_ascii());
        if let Some((rule, _)) = got {
            dropped_by[rule] += 1;
        }
    }
    assert!(dropped_by.iter().filter(|count| **count > 0).count() > 2, "{dropped_by:?}");
}

#[test]
fn each_way_out_has_its_reason() {
    let rules = vec![
        drop_rule(&["__name__"], "debug_.*"),
        ModelRule { keep: true, ..drop_rule(&["pod", "exported_pod"], "p-0;.*") },
        drop_rule(&["le"], "1"),
    ];
    let body =
        "debug_a 1\na{le=\"1\"} 1\na{pod=\"x\"} 1\nup 1\n{\"a.b\"} 1\nb{\"c.d\"=\"\"} 1\n\n \t\n# x\na nonsense\na 2\n";
    assert_eq!(
        said(&pod_with(&[("pod", "p-0")], body), &Settings { rules, ..settings() }),
        [
            "dropped by 0 seeing \"debug_a\"",
            "dropped by 2 seeing \"1\"",
            "kept a{pod=\"p-0\",exported_pod=\"x\"} 1 bringing []",
            "dropped Reserved",
            "dropped Name",
            "dropped Name",
            "Empty",
            "Empty",
            "Comment",
            "failed at 3: expected a float as the sample's value",
            "Unread",
        ]
    );
}

#[test]
fn metadata_is_written_with_the_first_kept_sample_or_said_not_to_be() {
    let body = "# HELP a one\n# HELP a two\n# TYPE a gauge\ndropped 1\na 1\n# TYPE a gauge\na 2\n\
                # HELP b\n# TYPE b gauge\nc 1\n# HELP d text\ndropped 2\n# TYPE dropped gauge\ndropped 3";
    let settings = Settings { rules: vec![drop_rule(&["__name__"], "dropped")], ..settings() };
    assert_eq!(
        said(&pod_with(&[], body), &settings),
        [
            "Help(Pending)",
            "Help(Pending); 1 unwritten",
            "Type(Pending)",
            "dropped by 0 seeing \"dropped\"",
            "kept a 1 bringing [2, 3]",
            "Type(Repeated)",
            "kept a 2 bringing []",
            "Help(NoText)",
            "Type(Pending)",
            "kept c 1 bringing []",
            "Help(Pending); 9 unwritten",
            "dropped by 0 seeing \"dropped\"",
            "Type(Pending); 11 unwritten",
            "dropped by 0 seeing \"dropped\"",
            "13 unwritten",
        ]
    );
    let mut explainer = explained::explainer(&pod_with(&[], body), &settings);
    assert!(matches!(explainer.line(b"# HELP a one\n").fate, Fate::Help(Declaration::Pending)));
    let replaced = explainer.line(b"# HELP a two\n").unwritten[0];
    assert!(replaced.replaced && replaced.is_help);
    assert!(!explainer.line(b"# TYPE b gauge\n").unwritten[0].replaced);
}

#[test]
fn clashes_of_labels_are_named() {
    let changes = |honor_labels, line: &str| {
        let settings = Settings { honor_labels, ..settings() };
        let pod = pod_with(&[("pod", "p-0"), ("namespace", "ns")], "");
        match explained::explainer(&pod, &settings).line(line.as_bytes()).fate {
            Fate::Kept(kept) => kept.changes,
            other => panic!("{other:?}"),
        }
    };
    let line = "a{namespace=\"\",pod=\"x\",exported_pod=\"y\"} 1\n";
    assert_eq!(
        changes(false, line),
        [
            LabelChange::LeftOut("namespace".into()),
            LabelChange::Renamed { from: "pod".into(), to: "exported_exported_pod".into() },
        ]
    );
    assert_eq!(changes(true, line), ["pod", "namespace"].map(|name| LabelChange::Honored(name.into())));
    assert_eq!(changes(false, "a{b=\"c\"} 1\n"), []);
}

#[test]
fn a_line_past_a_limit_ends_the_pod_as_in_the_merge() {
    let settings = Settings { line_bytes: 8, samples: 2, ..settings() };
    assert_eq!(
        said(&pod_with(&[], "a 1\na 2\na 3\n"), &settings)[2],
        "failed at 1: over the limit of 2 samples in a body"
    );
    let mut explainer = explained::explainer(&pod_with(&[], ""), &settings);
    // One byte more than the limit, of a line that goes on.
    let Fate::Failed(failure) = explainer.line(b"a_long_na").fate else { panic!() };
    assert!(matches!(failure.error.fault, sluice_codec::Fault::Limit { limit: Limit::LineBytes, value: 8 }));
}

#[test]
fn the_reason_is_the_one_the_sample_is_counted_under() {
    // A name that cannot be read comes before a rule that would drop it too.
    let settings = Settings { rules: vec![drop_rule(&["__name__"], ".*")], ..settings() };
    let mut explainer = explained::explainer(&pod_with(&[], ""), &settings);
    for (line, reason) in
        [("{\"a.b\"} 1\n", DropReason::Name), ("up 1\n", DropReason::Reserved), ("a 1\n", DropReason::Rule)]
    {
        match explainer.line(line.as_bytes()).fate {
            Fate::Dropped(dropped) => assert_eq!(dropped.reason, reason, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}
