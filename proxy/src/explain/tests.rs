use std::io::{self, Cursor};

use super::*;

const CONFIG: &str = r#"
serving: {certFile: tls.crt, keyFile: tls.key}
authentication: {clientCertificate: {caFile: ca.crt, authorized: [prometheus]}}
components:
  etcd:
    targets: [{pod: etcd-0, address: "[fd00::1]:9979"}]
    scheme: http
    labels: {job: etcd, namespace: openshift-etcd, service: etcd, endpoint: etcd-metrics}
    metricRelabelings:
      - {action: drop, sourceLabels: [__name__], regex: "etcd_debugging_.*"}
      - {action: keep, sourceLabels: [job, namespace], regex: "etcd;openshift-.*"}
      - {action: drop, sourceLabels: [__name__, le], regex: "h_bucket;1"}
    limits: {lineBytes: 128}
  plain:
    targets: [{pod: a, address: "127.0.0.1:1"}]
    scheme: http
    honorLabels: true
    labels: {job: j, namespace: ns, service: s, endpoint: e}
"#;

fn explain_as(component: &str, pod: &str, metrics: &[u8]) -> Result<String, ExplainError> {
    let tenant = sluice_config::parse(CONFIG).unwrap();
    let mut output = Vec::new();
    run(&tenant, component, pod, &mut Cursor::new(metrics), &mut output)?;
    Ok(String::from_utf8(output).unwrap())
}

#[test]
fn every_line_is_explained_and_then_all_of_them() {
    let metrics = "\
# HELP etcd_debugging_x Not of interest.
# TYPE etcd_debugging_x gauge
etcd_debugging_x 1
# TYPE h histogram
# HELP h Of interest.
h_bucket{le=\"1\"} 1
h_bucket{le=\"2\",namespace=\"kube-system\"} 2

# a comment
up 1
{\"a.b\"} 1
h_sum nonsense
h_count 1
";
    let labels = r#"pod="etcd-0",namespace="openshift-etcd",job="etcd",service="etcd",endpoint="etcd-metrics",instance="[fd00::1]:9979""#;
    let expected = format!(
        r#"component etcd, pod etcd-0, instance [fd00::1]:9979
     1 help  # HELP etcd_debugging_x Not of interest.    (written with the first sample of its family that is kept)
     2 type  # TYPE etcd_debugging_x gauge    (written with the first sample of its family that is kept)
     3 drop  etcd_debugging_x 1    (rule 1: drop __name__ =~ "etcd_debugging_.*")
     1 help  (not written: no sample of its family is kept)
     2 type  (not written: no sample of its family is kept)
     4 type  # TYPE h histogram    (written with the first sample of its family that is kept)
     5 help  # HELP h Of interest.    (written with the first sample of its family that is kept)
     6 drop  h_bucket{{le="1"}} 1    (rule 3: drop __name__;le =~ "h_bucket;1"; it saw "h_bucket;1")
     7 keep  h_bucket{{{labels},le="2",exported_namespace="kube-system"}} 2    (renamed namespace → exported_namespace; brings lines 5, 4; kept by rule 2, passed 3 rules)
     8 skip  (an empty line)
     9 skip  # a comment    (a comment)
    10 drop  up 1    (Sluice writes this name itself)
    11 drop  {{"a.b"}} 1    (a name in quotes: only for scrapers that accept UTF-8 names)
    12 error h_sum nonsense    (expected a float as the sample's value, at byte 7; the pod ends before this line)
samples: 5 read, 1 kept, 4 dropped
     1 dropped by rule 1: drop __name__ =~ "etcd_debugging_.*"
     0 dropped by rule 2: keep only job;namespace =~ "etcd;openshift-.*"
     1 dropped by rule 3: drop __name__;le =~ "h_bucket;1"
     1 dropped: Sluice writes the name itself
     1 dropped: a name in quotes
     1 kept with labels renamed
not read to the end: up is 0
"#
    );
    assert_eq!(explain_as("etcd", "etcd-0", metrics.as_bytes()).unwrap(), expected);
}

#[test]
fn a_pod_without_a_known_address_has_a_placeholder() {
    let explained = explain_as("plain", "b", b"a{pod=\"mine\"} 1").unwrap();
    assert_eq!(
        explained,
        r#"component plain, pod b, instance 192.0.2.1:0, which stands for an address that is not in targets
     1 keep  a{namespace="ns",job="j",service="s",endpoint="e",instance="192.0.2.1:0",pod="mine"} 1    (honored the pod's own pod)
samples: 1 read, 1 kept, 0 dropped
     0 dropped: Sluice writes the name itself
     0 dropped: a name in quotes
     0 kept with labels renamed
read to the end: up is 1
"#
    );
}

#[test]
fn what_is_asked_for_must_exist() {
    let error = |component, pod| explain_as(component, pod, b"").unwrap_err().to_string();
    assert_eq!(error("etdc", "etcd-0"), "there is no component \"etdc\"; there are: etcd, plain");
    assert_eq!(error("etcd", ""), "the pod's name is empty");
}

#[test]
fn a_line_without_end_is_not_held() {
    struct Endless(u64);
    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(b'x');
            self.0 += buffer.len() as u64;
            assert!(self.0 < 1 << 20, "it is read on and on");
            Ok(buffer.len())
        }
    }
    let tenant = sluice_config::parse(CONFIG).unwrap();
    let mut output = Vec::new();
    run(&tenant, "etcd", "etcd-0", &mut io::BufReader::new(Endless(0)), &mut output).unwrap();
    let output = String::from_utf8(output).unwrap();
    assert!(
        output.contains("(over the limit of 128 bytes in a line, at byte 1; the pod ends before this line)"),
        "{output}"
    );
}

#[test]
fn a_pod_cannot_move_the_terminals_cursor() {
    let explained = explain_as("plain", "a", b"a{b=\"\x1b[2J\xc2\x9b\"} 1\n# \x07\n# HELP x \xff\n").unwrap();
    assert!(!explained.chars().any(|char| char.is_control() && char != '\n'), "{explained:?}");
    assert!(explained.contains(r#"b="\u{1b}[2J\u{9b}""#), "{explained}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error_and_a_full_disk_is() {
    struct Refuses(ErrorKind);
    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let tenant = sluice_config::parse(CONFIG).unwrap();
    let written = |kind| run(&tenant, "plain", "a", &mut Cursor::new(b"a 1\n"), &mut Refuses(kind));
    assert!(written(ErrorKind::BrokenPipe).is_ok());
    assert!(matches!(written(ErrorKind::StorageFull), Err(ExplainError::Write(_))));
}
