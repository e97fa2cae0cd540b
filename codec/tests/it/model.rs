//! The codec does what the naive model does, whatever the bytes and however they are cut.

use proptest::prelude::*;

use crate::support::generate::{cuts, hostile_body, odd_body, tidy_body};
use crate::support::model::{ModelRule, PodInput, Settings};
use crate::support::{Chunking, assert_like_model, parser, pod_with, run, settings};

/// Label sets that clash with what the generators write, and one that does not.
fn target(number: usize) -> Vec<(&'static str, &'static str)> {
    match number % 3 {
        0 => vec![("pod", "a-0"), ("namespace", "ns"), ("job", "j"), ("instance", "10.0.0.1:1")],
        1 => vec![("pod", "b\"\\\n1"), ("exported_pod", "x"), ("namespace", "ns")],
        _ => vec![("unclashing", "c-2")],
    }
}

fn pods(bodies: Vec<(Vec<u8>, bool)>) -> Vec<PodInput> {
    let pod = |(number, (body, truncated))| PodInput { truncated, ..pod_with(&target(number), body) };
    bodies.into_iter().enumerate().map(pod).collect()
}

fn any_body() -> impl Strategy<Value = (Vec<u8>, bool)> {
    (prop_oneof![tidy_body(), odd_body(), hostile_body()], prop::bool::weighted(0.1))
}

fn any_rule() -> impl Strategy<Value = ModelRule> {
    let sources = prop::sample::subsequence(vec!["__name__", "le", "pod", "exported_pod", "a", "namespace"], 0..3);
    let regex = prop::sample::select(vec![
        "a.*",
        ".*_bucket|.*_sum",
        "(a|b|c)",
        "[ab].*;?.*",
        ".*",
        "",
        "a_bucket;(0.5|1)",
        ".*;(1|0.5)(\\.0)?",
        ".+",
        "(a|b_total|up)(_sum)?",
        ".*;a-0",
        "x",
    ]);
    (any::<bool>(), sources, prop::sample::select(vec![";", "", "|"]), regex).prop_map(
        |(keep, sources, separator, regex)| ModelRule {
            keep,
            source_labels: sources.into_iter().map(String::from).collect(),
            separator: separator.into(),
            regex: regex.into(),
        },
    )
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let rules = prop_oneof![3 => Just(Vec::new()).boxed(), 2 => prop::collection::vec(any_rule(), 1..4).boxed()];
    let limit = |most: usize| prop_oneof![4 => Just(0), 1 => 1..most];
    (
        any::<bool>(),
        any::<bool>(),
        rules,
        any::<bool>(),
        prop_oneof![4 => Just(1 << 18), 1 => 1..80usize],
        limit(900),
        limit(12),
    )
        .prop_map(|(honor_labels, utf8, rules, emit_up, line_bytes, body_bytes, samples)| Settings {
            honor_labels,
            utf8,
            rules,
            emit_up,
            line_bytes,
            body_bytes,
            samples,
            ..settings()
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The output is exactly the model's; a strict parser accepts it.
    #[test]
    fn any_pods_any_settings_any_cuts(
        bodies in prop::collection::vec(any_body(), 0..4),
        settings in any_settings(),
        cuts in cuts(800),
    ) {
        let output = assert_like_model(&pods(bodies), &settings, &Chunking::At(&cuts));
        if let Err(error) = parser::parse(&output, settings.utf8) {
            panic!("{error} in {}", output.escape_ascii());
        }
    }

    /// Cut after every byte, and in every other even size, the output is the same.
    #[test]
    fn every_chunking_gives_the_same_output(bodies in prop::collection::vec(any_body(), 1..3), settings in any_settings()) {
        let pods = pods(bodies);
        let (whole, outcomes) = run(&pods, &settings, &Chunking::Whole);
        let longest = pods.iter().map(|pod| pod.body.len()).max().unwrap_or(0);
        for size in (1..20).chain((20..longest).step_by(37)) {
            let (output, others) = run(&pods, &settings, &Chunking::Every(size));
            prop_assert_eq!(&output, &whole, "frames of {}", size);
            prop_assert_eq!(&others, &outcomes, "frames of {}", size);
        }
    }

    /// Whatever one pod sends, the other's samples are all there, as if it were alone.
    #[test]
    fn a_hostile_pod_harms_no_other(good in tidy_body(), bad in hostile_body(), settings in any_settings()) {
        let settings = Settings { emit_up: false, ..settings };
        let alone = pods(vec![(good.clone(), false)]);
        let together = pods(vec![(good, false), (bad, false)]);
        let samples = |pods: &[PodInput]| {
            let (output, _) = run(pods, &settings, &Chunking::Every(64));
            let lines = output.split(|&b| b == b'\n').filter(|line| !line.starts_with(b"#"));
            let ours = |line: &&[u8]| line.windows(9).any(|w| w == b"pod=\"a-0\"") && !line.starts_with(b"metrics_aggregator");
            lines.filter(ours).map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        prop_assert_eq!(samples(&alone), samples(&together));
    }
}
