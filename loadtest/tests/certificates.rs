//! Certificates say what was asked for, and their files change as they do in a pod.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on must fail, and say where")]

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluice_loadtest::certificate::{Authority, DAY, Purpose, Validity, Wanted, write_atomically, write_like_kubelet};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::X509Certificate;

fn read<T>(pem: &str, look: impl FnOnce(&X509Certificate<'_>) -> T) -> T {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).expect("PEM");
    look(&pem.parse_x509().expect("a certificate"))
}

#[test]
fn a_client_certificate_has_its_names_of_each_kind_and_its_groups() {
    let ca = Authority::new("demo-ca");
    let name = "system:serviceaccount:openshift-monitoring:prometheus-k8s";
    let names = ["prometheus-k8s.openshift-monitoring.svc", "spiffe://demo/prometheus", "127.0.0.1", "::1"];
    let mut wanted = Wanted::client(name, &names);
    wanted.organizations = vec!["system:serviceaccounts".to_owned()];
    read(&ca.issue(&wanted).cert_pem, |certificate| {
        let subject = certificate.subject();
        assert_eq!(subject.iter_common_name().next().expect("a common name").as_str(), Ok(name));
        let organization = subject.iter_organization().next().expect("an organization");
        assert_eq!(organization.as_str(), Ok("system:serviceaccounts"));
        let alternatives = certificate.subject_alternative_name().expect("readable").expect("there");
        let seen: Vec<String> = alternatives
            .value
            .general_names
            .iter()
            .map(|name| match name {
                GeneralName::DNSName(name) => format!("dns {name}"),
                GeneralName::URI(name) => format!("uri {name}"),
                GeneralName::IPAddress(bytes) => format!("ip {}", bytes.len()),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(
            seen,
            ["dns prometheus-k8s.openshift-monitoring.svc", "uri spiffe://demo/prometheus", "ip 4", "ip 16"]
        );
        let usage = certificate.extended_key_usage().expect("readable").expect("there");
        assert_eq!((usage.value.client_auth, usage.value.server_auth), (true, false));
    });
}

#[test]
fn purpose_and_validity_are_as_wanted() {
    let ca = Authority::new("demo-ca");
    let hour = Duration::from_hours(1);
    let validity = Validity { not_before: SystemTime::now() - hour, not_after: SystemTime::now() + hour };
    let issued = ca.issue(&Wanted { purpose: Purpose::Both, validity, ..Wanted::server(&["etcd-client"]) });
    read(&issued.cert_pem, |certificate| {
        let usage = certificate.extended_key_usage().expect("readable").expect("there");
        assert_eq!((usage.value.client_auth, usage.value.server_auth), (true, true));
        let seconds = |time: SystemTime| i64::try_from(time.duration_since(UNIX_EPOCH).expect("after 1970").as_secs());
        assert_eq!(Ok(certificate.validity().not_before.timestamp()), seconds(validity.not_before));
        assert_eq!(Ok(certificate.validity().not_after.timestamp()), seconds(validity.not_after));
        assert!(certificate.validity().is_valid());
    });
    read(&ca.expired_server(&["a"]).cert_pem, |certificate| assert!(!certificate.validity().is_valid()));
    read(&ca.future_client("a").cert_pem, |certificate| assert!(!certificate.validity().is_valid()));
    assert!(DAY == 24 * hour);
}

#[test]
fn a_pair_is_written_under_its_name_and_nothing_else_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let ca = Authority::new("demo-ca");
    for _ in 0..2 {
        let issued = ca.server(&["a"]);
        issued.write_to(dir.path(), "tls");
        assert_eq!(fs::read_to_string(dir.path().join("tls.crt")).expect("there"), issued.cert_pem);
        assert_eq!(fs::read_to_string(dir.path().join("tls.key")).expect("there"), issued.key_pem);
    }
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
}

#[test]
fn a_reader_never_sees_half_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let (long, short) = ("l".repeat(1 << 20), "s".repeat(10));
    write_atomically(dir.path(), "file", long.as_bytes());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                write_atomically(dir.path(), "file", short.as_bytes());
                write_atomically(dir.path(), "file", long.as_bytes());
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let read = fs::read_to_string(dir.path().join("file")).expect("always there");
            assert!(read == long || read == short, "{} bytes", read.len());
        }
    });
}

#[test]
fn a_volume_changes_as_kubelet_changes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let content = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
    write_like_kubelet(dir.path(), &[("tls.crt", b"1"), ("old", b"1")]);
    assert_eq!((content("tls.crt").as_deref(), content("old").as_deref()), (Some("1"), Some("1")));
    let first = fs::read_link(dir.path().join("..data")).expect("a link");

    write_like_kubelet(dir.path(), &[("tls.crt", b"2"), ("new", b"2")]);
    assert_eq!((content("tls.crt").as_deref(), content("new").as_deref()), (Some("2"), Some("2")));
    assert_eq!(content("old"), None);
    let second = fs::read_link(dir.path().join("..data")).expect("a link");
    assert_ne!(first, second);
    assert!(!dir.path().join(first).exists(), "the old generation is gone");
    assert_eq!(fs::read_link(dir.path().join("tls.crt")).expect("a link").to_str(), Some("..data/tls.crt"));
    // The generation, ..data, and the two links.
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 4);
}
