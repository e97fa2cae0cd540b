//! What an operator of Sluice sees when a configuration is read: defaults where nothing was said, and errors that
//! name the thing and the place.

#![allow(missing_docs, reason = "tests are not an API")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use sluice_codec::Limits;
use sluice_config::{ByteSize, ConfigError, Port, Scheme, Tenant, TenantLimits, load, parse, to_yaml};

const DEMO: &str = include_str!("demo.yaml");

/// A small good configuration, of which a test spoils one part.
const SMALL: &str = r#"
serving: {certFile: tls.crt, keyFile: tls.key}
authentication: {clientCertificate: {caFile: ca.crt, authorized: [prometheus]}}
components:
  etcd:
    targets: [{pod: etcd-0, address: "127.0.0.1:9979"}]
    scheme: http
    labels: {job: etcd, namespace: openshift-etcd, service: etcd, endpoint: etcd-metrics}
"#;

fn problems(text: &str) -> Vec<String> {
    match parse(text) {
        Err(ConfigError::Invalid(problems)) => problems.iter().map(ToString::to_string).collect(),
        other => panic!("expected problems, got {other:?}"),
    }
}

/// The one problem of `SMALL` with `from` replaced by `to`.
fn problem_of(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    let problems = problems(&SMALL.replacen(from, to, 1));
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].clone()
}

#[test]
fn the_designs_example_is_read_with_all_its_keys() {
    let tenant = parse(DEMO).unwrap();
    let review = tenant.authentication.token_review.as_ref().unwrap();
    assert_eq!(review.cache_ttl.0, Duration::from_mins(5));
    let ports: Vec<_> = tenant.components.values().map(|component| component.port.clone()).collect();
    let name = |name: &str| Some(Port::Name(name.into()));
    assert_eq!(ports, [Some(Port::Number(8085)), name("metrics"), name(""), None]);
    assert_eq!(tenant.components["static"].targets[1].address.to_string(), "[fd00::1]:9979");
}

#[test]
fn what_is_not_said_has_the_designs_defaults() {
    let tenant = parse(SMALL).unwrap();
    assert!(tenant.emit_up);
    assert_eq!(tenant.pod_labels, ["pod"]);
    assert_eq!(tenant.limits, TenantLimits { concurrent_scrapes: 40, connections: 200, token_reviews_per_second: 1 });
    let etcd = &tenant.components["etcd"];
    assert_eq!((etcd.path.as_str(), etcd.honor_labels, etcd.scheme), ("/metrics", false, Scheme::Http));
    assert_eq!(etcd.limits.body_bytes, ByteSize(256 << 20));
    assert_eq!(etcd.timeout.0, Duration::from_secs(10));
    let token = "tokenReview: {kubeconfig: k, authorized: [a]}, clientCertificate:";
    let tenant = parse(&SMALL.replace("clientCertificate:", token)).unwrap();
    let review = tenant.authentication.token_review.unwrap();
    assert_eq!((review.cache_ttl.to_string(), review.refusal_ttl.to_string()), ("5m".into(), "10s".into()));
}

#[test]
fn what_is_written_is_what_is_read() {
    for text in [DEMO, SMALL] {
        let tenant = parse(text).unwrap();
        let written = to_yaml(&tenant).unwrap();
        assert_eq!(parse(&written).unwrap(), tenant, "{written}");
    }
}

#[test]
fn relative_paths_are_meant_from_where_the_file_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/demo.yaml");
    let tenant: Tenant = load(&path).unwrap();
    assert_eq!(tenant.serving.cert_file, path.with_file_name("serving/tls.crt"));
    let tls = tenant.components["etcd"].tls_config.as_ref().unwrap();
    assert_eq!(tls.ca_file, Some(path.with_file_name("etcd/ca.crt")));
    assert_eq!(tls.key_file, Some(PathBuf::from("/abs/tls.key")));
    let missing = load(Path::new("/nowhere/config.yaml")).unwrap_err().to_string();
    assert!(missing.starts_with("No such file"), "{missing}");
}

#[test]
fn every_file_is_listed_with_its_key_and_meant_from_where_the_configuration_is() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let tenant = load(&directory.join("demo.yaml")).unwrap();
    let files = tenant.files();
    let expected = [
        ("serving.certFile", "serving/tls.crt"),
        ("serving.keyFile", "serving/tls.key"),
        ("authentication.tokenReview.kubeconfig", "hosted/kubeconfig"),
        ("authentication.clientCertificate.caFile", "client-ca/ca.crt"),
        ("discovery.kubeconfig", "management/kubeconfig"),
        ("components.etcd.tlsConfig.caFile", "etcd/ca.crt"),
        ("components.etcd.tlsConfig.certFile", "etcd/tls.crt"),
        ("components.etcd.tlsConfig.keyFile", "/abs/tls.key"),
        ("components.kube-apiserver.tlsConfig.caFile", "root-ca/ca.crt"),
    ];
    let expected: Vec<(String, PathBuf)> =
        expected.iter().map(|(key, file)| (key.to_string(), directory.join(file))).collect();
    assert_eq!(files.iter().map(|(key, file)| (key.clone(), file.to_path_buf())).collect::<Vec<_>>(), expected);
}

#[test]
fn rules_and_limits_reach_the_codec_as_they_were_written() {
    let tenant = parse(DEMO).unwrap();
    let etcd = &tenant.components["etcd"];
    let rules = etcd.rules().unwrap();
    let keeps = |name: &str, le: &str| rules.decide(name, |label| (label == "le").then(|| le.to_string())).keep;
    assert!(!keeps("a", "1") && keeps("a", "3") && keeps("b", "1"));
    let limits = Limits::from(etcd.limits);
    assert_eq!((limits.line_bytes, limits.body_bytes, limits.samples), (256 << 10, 256 << 20, 0));
}

#[test]
fn a_wrong_shape_is_named_by_line_column_and_key() {
    let cases = [
        ("emitUp: maybe\n", "line 1, column 9: emitUp: invalid type: string \"maybe\", expected a boolean"),
        ("hostname: [a]\n", "line 1, column 1: unknown field `hostname`, expected one of `hostnames`"),
        ("components: {etcd: {}, etcd: {}}\n", "line 1, column 20: components.etcd: missing field `labels`"),
        ("serving: {certFile: a, keyFile: b, keyfile: c}\n", "line 1, column 36: serving: unknown field `keyfile`"),
        ("hostnames: [a\n", "line 2, column 1: did not find expected ',' or ']'"),
        ("limits: {connections: -1}\n", "line 1, column 23: limits.connections: invalid type: integer `-1`"),
    ];
    for (text, expected) in cases {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    let twice = SMALL
        .replace("components:\n", "components:\n  etcd: {labels: {job: a, namespace: b, service: c, endpoint: d}}\n");
    let error = parse(&twice).unwrap_err().to_string();
    assert!(error.contains("component \"etcd\" stands twice"), "{error}");
    for (from, to, expected) in [
        ("127.0.0.1:9979", "localhost:9979", "invalid socket address syntax"),
        ("scheme: http", "scheme: ftp", "unknown variant `ftp`, expected `https` or `http`"),
        ("scheme: http", "port: 70000", "a port's number is between 1 and 65535"),
        ("scheme: http", "timeout: soon", "\"soon\" is no time like 10s"),
        ("scheme: http", "limits: {bodyBytes: 1MB}", "\"1MB\" is no size like"),
        (
            "scheme: http",
            "metricRelabelings: [{action: replace}]",
            "unknown variant `replace`, expected `keep` or `drop`",
        ),
    ] {
        let error = parse(&SMALL.replacen(from, to, 1)).unwrap_err();
        assert!(matches!(error, ConfigError::Syntax { line: 5.., .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{to}: {error}");
    }
}

#[test]
fn what_makes_no_sense_is_named_by_its_path() {
    let etcd = "targets: [{pod: etcd-0, address: \"127.0.0.1:9979\"}]";
    let cases = [
        (
            "authorized: [prometheus]",
            "authorized: []",
            "authentication.clientCertificate.authorized: must name who is let in",
        ),
        (
            "{clientCertificate: {caFile: ca.crt, authorized: [prometheus]}}",
            "{}",
            "authentication: tokenReview or clientCertificate is needed",
        ),
        ("components:", "podLabels: []\ncomponents:", "podLabels: at least one label must carry the pod's name"),
        ("components:", "podLabels: [le]\ncomponents:", "components.etcd.labels: label name \"le\" is reserved"),
        ("components:", "podLabels: [job]\ncomponents:", "components.etcd.labels: label name \"job\" is given twice"),
        ("components:", "hostnames: [\"a b\"]\ncomponents:", "hostnames[0]: \"a b\" is no DNS name"),
        ("components:", "hostnames: [a.b, A.b]\ncomponents:", "hostnames[1]: \"A.b\" stands twice"),
        ("components:", "limits: {connections: 0}\ncomponents:", "limits.connections: 0 would let nobody in"),
        ("job: etcd,", "job: \"\",", "components.etcd.labels: label \"job\" has an empty value"),
        ("  etcd:\n", "  a/b:\n", "components.a/b: a component's name is made of letters, digits, '-', '_' and '.'"),
        (
            "scheme: http",
            "path: metrics\n    scheme: http",
            "components.etcd.path: must begin with '/' and have no query (that is what params is for)",
        ),
        ("scheme: http", "scheme: https", "components.etcd.tlsConfig: is needed with scheme https: at least caFile"),
        (
            "scheme: http",
            "tlsConfig: {serverName: a}",
            "components.etcd.tlsConfig.caFile: is needed: pods' certificates are not signed by public authorities",
        ),
        (
            "scheme: http",
            "tlsConfig: {caFile: a, certFile: b}",
            "components.etcd.tlsConfig: certFile and keyFile are needed together",
        ),
        ("scheme: http", "scheme: http\n    tlsConfig: {}", "components.etcd.tlsConfig: is of no use with scheme http"),
        ("scheme: http", "scheme: http\n    timeout: 0s", "components.etcd.timeout: 0 leaves no time to scrape"),
        (
            "scheme: http",
            "scheme: http\n    limits: {lineBytes: 0}",
            "components.etcd.limits.lineBytes: must be between 1 byte and 4 GiB: it bounds memory",
        ),
        ("scheme: http", "scheme: http\n    port: 1", "components.etcd.port: is part of each target's address"),
        (
            etcd,
            "targets: [{pod: a, address: \"127.0.0.1:1\"}, {pod: a, address: \"127.0.0.1:2\"}]",
            "components.etcd.targets[1].pod: \"a\" stands twice",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(problem_of(from, to), expected);
    }
    let namespace = problem_of("components:", "discovery: {namespace: Not_A_Namespace}\ncomponents:");
    assert_eq!(namespace, "discovery.namespace: \"Not_A_Namespace\" is no name that a namespace can have");
    let rule = problem_of(
        "scheme: http",
        "scheme: http\n    metricRelabelings: [{action: drop, regex: a}, {action: drop, regex: \"a(\"}]",
    );
    assert!(rule.starts_with("components.etcd.metricRelabelings[1].regex: \"a(\": "), "{rule}");
}

#[test]
fn all_problems_are_named_at_once() {
    let text = SMALL.replace("authorized: [prometheus]", "authorized: []").replace(
        "targets: [{pod: etcd-0, address: \"127.0.0.1:9979\"}]",
        "podSelector: {matchExpressions: [{key: a, operator: In}]}",
    );
    assert_eq!(
        problems(&text),
        [
            "authentication.clientCertificate.authorized: must name who is let in",
            "discovery: is needed, since not all components name their targets",
            "components.etcd.port: is needed with service and podSelector",
            "components.etcd.podSelector.matchExpressions[0].values: are for In and NotIn, which need at least one",
        ]
    );
}
