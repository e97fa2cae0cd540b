//! A pod that answers `OpenMetrics` is turned into text 0.0.4, and merges with pods that do not.

use bytes::Bytes;
use sluice_codec::{Fault, Format, Merge, MergeOptions, OpenMetricsFault, Outcome, Step, Synthetic, TargetLabels};

use crate::support::{Chunking, parser, pod_with, run_in, settings};

const BODY: &str = r#"# TYPE build info
# HELP build What runs here.
build_info{version="1.2.3",rev="a # b"} 1
# TYPE http_requests counter
# HELP http_requests Requests, with "quotes", a \\ and\na newline.
http_requests_total{code="200"} 1027 1520879607.789 # {trace_id="{a}\"b\" # c"} 1 1520879607.123
http_requests_created{code="200"} 1520430000.123
http_requests_total{code="500"} 3.0
http_requests_created{code="500"} 1520430000.123
# TYPE latency_seconds histogram
# UNIT latency_seconds seconds
# HELP latency_seconds Latency.
latency_seconds_bucket{le="0.1"} 8 # {} 0.054
latency_seconds_bucket{le="1.0"} 10 # {id="x y",span="} 1 # {"} 0.67
latency_seconds_bucket{le="+Inf"} 17 1e9 # {id="z"} 9.8 1520879607.789
latency_seconds_count 17
latency_seconds_sum 324.5
latency_seconds_created 1520430000.123
# TYPE queue gaugehistogram
queue_bucket{le="0.01"} 20
queue_bucket{le="+Inf"} 34
queue_gcount 34
queue_gsum 12.5
# TYPE rpc summary
rpc{quantile="0.95"} 123.7
rpc_count 10
rpc_sum 1500.1
rpc_created 1520430000
# TYPE state stateset
state{state="a"} 1
state{state="b"} 0
# TYPE temperature gauge
temperature{room="{x}"} -4.5 0
# TYPE weird unknown
weird NaN 123.4567
undeclared 5
# EOF
"#;

const TEXT: &str = r#"# HELP build_info What runs here.
# TYPE build_info gauge
build_info{pod="p",version="1.2.3",rev="a # b"} 1
# HELP http_requests_total Requests, with "quotes", a \\ and\na newline.
# TYPE http_requests_total counter
http_requests_total{pod="p",code="200"} 1027 1520879607789
http_requests_created{pod="p",code="200"} 1520430000.123
http_requests_total{pod="p",code="500"} 3.0
http_requests_created{pod="p",code="500"} 1520430000.123
# HELP latency_seconds Latency.
# TYPE latency_seconds histogram
latency_seconds_bucket{pod="p",le="0.1"} 8
latency_seconds_bucket{pod="p",le="1.0"} 10
latency_seconds_bucket{pod="p",le="+Inf"} 17 1000000000000
latency_seconds_count{pod="p"} 17
latency_seconds_sum{pod="p"} 324.5
latency_seconds_created{pod="p"} 1520430000.123
# TYPE queue untyped
queue_bucket{pod="p",le="0.01"} 20
queue_bucket{pod="p",le="+Inf"} 34
queue_gcount{pod="p"} 34
queue_gsum{pod="p"} 12.5
# TYPE rpc summary
rpc{pod="p",quantile="0.95"} 123.7
rpc_count{pod="p"} 10
rpc_sum{pod="p"} 1500.1
rpc_created{pod="p"} 1520430000
# TYPE state gauge
state{pod="p",state="a"} 1
state{pod="p",state="b"} 0
# TYPE temperature gauge
temperature{pod="p",room="{x}"} -4.5 0
# TYPE weird untyped
weird{pod="p"} NaN 123456
undeclared{pod="p"} 5
"#;

/// Translated, the synthetic families left out; the same in every chunking.
fn translated(body: &str) -> (String, Outcome) {
    let pods = [pod_with(&[("pod", "p")], body)];
    let whole = run_in(Format::OpenMetrics, &pods, &settings(), &Chunking::Whole);
    assert_eq!(run_in(Format::OpenMetrics, &pods, &settings(), &Chunking::Every(1)), whole);
    for cut in 0..body.len() {
        assert_eq!(run_in(Format::OpenMetrics, &pods, &settings(), &Chunking::At(&[cut])), whole, "cut at {cut}");
    }
    parser::parse(&whole.0, false).unwrap();
    let output = String::from_utf8(whole.0).unwrap();
    let tail = output.find("# HELP metrics_aggregator_").unwrap();
    (output[..tail].to_string(), whole.1[0].clone())
}

#[test]
fn openmetrics_becomes_the_text_prometheus_would_store_the_same() {
    let (output, outcome) = translated(BODY);
    assert_eq!(output, TEXT);
    assert_eq!((outcome.error, outcome.counts.samples), (None, 24));
}

/// `\"` is an escape in the HELP of `OpenMetrics` and none in text's: there it would be a backslash and a quote.
#[test]
fn an_escaped_quote_in_help_stays_a_quote() {
    let (output, _) = translated("# HELP a a \\\"quoted\\\" \\\\\\\" word\n# TYPE a gauge\na 1\n# EOF\n");
    assert_eq!(output, "# HELP a a \"quoted\" \\\\\" word\n# TYPE a gauge\na{pod=\"p\"} 1\n");
}

#[test]
fn the_final_newline_behind_eof_is_optional() {
    assert_eq!(translated("a 1\n# EOF"), translated("a 1\n# EOF\n"));
}

#[test]
fn a_body_without_eof_was_cut_short_but_keeps_its_lines() {
    let (output, outcome) = translated("# TYPE a gauge\na 1\n");
    assert_eq!(output, "# TYPE a gauge\na{pod=\"p\"} 1\n");
    let error = outcome.error.unwrap();
    let missing = Fault::OpenMetrics(OpenMetricsFault::MissingEof);
    assert_eq!((error.fault, error.line, error.offset), (missing, 3, 19));
    assert_eq!(error.fault.reason(), "openmetrics");
    assert_eq!(error.to_string(), "line 3, byte 19: invalid OpenMetrics text: no # EOF at the end");
    let error = translated("").1.error.unwrap();
    assert_eq!((error.fault, error.line, error.offset), (missing, 1, 0));
    // No newline either: the body ends at its last byte, not behind it.
    let (output, outcome) = translated("a 1");
    let error = outcome.error.unwrap();
    assert_eq!((output.as_str(), error.fault, error.offset), ("a{pod=\"p\"} 1\n", missing, 3));
}

/// (body, the fault, its line, its offset): lines before it are kept.
#[test]
fn what_openmetrics_does_not_allow_fails_the_pod() {
    use OpenMetricsFault::{AfterEof, Comment, Exemplar, Spacing, Timestamp, TypeKeyword, Unit};
    let rows = [
        ("a 1\n# EOF\nb 1\n", Fault::OpenMetrics(AfterEof), 3, 10),
        ("a 1\n# EOF\n\n", Fault::OpenMetrics(AfterEof), 3, 10),
        ("a 1\n# EOF\n# EOF\n", Fault::OpenMetrics(AfterEof), 3, 10),
        ("a 1\n\n# EOF\n", Fault::OpenMetrics(Comment), 2, 4),
        ("a 1\n# hello\n# EOF\n", Fault::OpenMetrics(Comment), 2, 4),
        ("a 1\n# EOF \n", Fault::OpenMetrics(Comment), 2, 4),
        ("a 1\nb  1\n# EOF\n", Fault::OpenMetrics(Spacing), 2, 5),
        ("a 1\nb{ c=\"d\"} 1\n# EOF\n", Fault::OpenMetrics(Spacing), 2, 6),
        ("a 1\n# TYPE b untyped\n# EOF\n", Fault::OpenMetrics(TypeKeyword), 2, 13),
        ("a 1\n# UNIT b_seconds bytes\n# EOF\n", Fault::OpenMetrics(Unit), 2, 21),
        ("a 1\nb 1 -1\n# EOF\n", Fault::OpenMetrics(Timestamp), 2, 8),
        ("a 1\nb 1 1e30\n# EOF\n", Fault::OpenMetrics(Timestamp), 2, 8),
        ("a 1\nb 1 # c\n# EOF\n", Fault::OpenMetrics(Exemplar), 2, 7),
        ("a 1\nb 0x1\n# EOF\n", Fault::Value, 2, 6),
        ("a 1\nb 1e999\n# EOF\n", Fault::ValueRange, 2, 6),
        ("a 1\nb 1 # {c=\"d\"} x\n# EOF\n", Fault::Value, 2, 18),
        ("a 1\nb{c=\"d\",c=\"d\"} 1\n# EOF\n", Fault::DuplicateLabel, 2, 12),
        ("a 1\n# TYPE h histogram\nh_bucket{le=\"x\"} 1\n# EOF\n", Fault::Bound, 3, 36),
    ];
    for (body, fault, line, offset) in rows {
        let (output, outcome) = translated(body);
        let error = outcome.error.unwrap_or_else(|| panic!("accepted: {body:?}"));
        assert_eq!((error.fault, error.line, error.offset), (fault, line, offset), "{body:?}");
        assert_eq!(output, "a{pod=\"p\"} 1\n", "{body:?}");
    }
}

/// The names of a counter differ between the formats; the family must not.
#[test]
fn an_openmetrics_pod_and_a_text_pod_share_one_family() {
    let bodies = [
        (
            Format::OpenMetrics,
            "# HELP a Help.\n# TYPE a counter\na_total 1 1.5\n# TYPE b info\nb_info{v=\"1\"} 1\n# EOF\n",
        ),
        (
            Format::Text,
            "# HELP a_total Help.\n# TYPE a_total counter\na_total 2\n# TYPE b_info gauge\nb_info{v=\"1\"} 1\n",
        ),
        (Format::OpenMetrics, "# TYPE a_total counter\na_total 3\n# EOF\n"),
    ];
    let expected = "# HELP a_total Help.\n# TYPE a_total counter\n\
                    a_total{pod=\"0\"} 1 1500\na_total{pod=\"1\"} 2\na_total{pod=\"2\"} 3\n# TYPE b_info gauge\n\
                    b_info{pod=\"0\",v=\"1\"} 1\nb_info{pod=\"1\",v=\"1\"} 1\n";
    for size in [1, 7, 1000] {
        let targets = ["0", "1", "2"].map(|pod| TargetLabels::new([("pod", pod)]).unwrap());
        let mut merge = Merge::new(targets, &MergeOptions::default());
        let mut frames = bodies.map(|(_, body)| body.as_bytes().chunks(size));
        for (pod, (format, _)) in bodies.iter().enumerate() {
            merge.set_format(pod, *format);
        }
        let mut out = Vec::new();
        loop {
            match merge.step(&mut out) {
                Step::Need(pod) => match frames[pod].next() {
                    Some(frame) => merge.feed(pod, Bytes::from_static(frame)),
                    None => merge.end(pod),
                },
                Step::Done => break,
                step => panic!("{step:?}"),
            }
        }
        let synthetic = Synthetic { component: "etcd", proxy: "sluice-0", emit_up: true };
        merge.finish(&mut out, synthetic, |_, outcome| u64::from(outcome.error.is_some()));
        let parsed = parser::parse(&out, false).unwrap();
        assert_eq!(parsed.repeated_metadata, 0);
        let output = String::from_utf8(out).unwrap();
        assert!(output.starts_with(expected), "{output}");
        assert!(output.ends_with("up{pod=\"0\"} 1\nup{pod=\"1\"} 1\nup{pod=\"2\"} 1\n"));
    }
}
