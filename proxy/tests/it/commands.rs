//! The command line.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::stage::{Stage, binary};

fn run(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn check_says_ok_or_everything_that_is_wrong() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.write_config();
    let config = stage.config_path();
    let config = config.to_str().unwrap();
    let good = run(&["check", "--config", config]);
    assert_eq!((good.status.code(), text(&good.stdout)), (Some(0), format!("{config}: ok, 1 components\n")));

    stage.config["hostnames"] = json!(["not a name"]);
    stage.config["components"]["etcd"]["path"] = json!("metrics");
    stage.write_config();
    let bad = run(&["check", "--config", config]);
    assert_eq!(bad.status.code(), Some(64));
    let said = text(&bad.stderr);
    assert!(said.contains(&format!("{config}: hostnames[0]: \"not a name\" is no DNS name")), "{said}");
    assert!(said.contains(&format!("{config}: components.etcd.path: must begin with '/'")), "{said}");
}

#[tokio::test]
async fn check_reads_the_files_too() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.component(
        "mutual",
        &[],
        json!({"tlsConfig": Stage::mutual_tls(), "targets": [{"pod": "a", "address": "127.0.0.1:1"}]}),
    );
    stage.write_config();
    let path = |name: &str| stage.dir.path().join(name);
    stage.pod_ca.client("other", &[]).write_to(&path("pods"), "other");
    std::fs::rename(path("pods/other.key"), path("pods/client.key")).unwrap();
    std::fs::write(path("serving/tls.crt"), "nonsense").unwrap();
    std::fs::remove_file(path("client-ca/ca.crt")).unwrap();
    std::fs::write(path("hosted/kubeconfig"), "token: [secret").unwrap();
    let bad = run(&["check", "--config", stage.config_path().to_str().unwrap()]);
    assert_eq!(bad.status.code(), Some(64));
    let said = text(&bad.stderr);
    for expected in [
        "serving: ",
        "serving/tls.crt: no certificate in it",
        "authentication.clientCertificate.caFile: ",
        "No such file",
        "authentication.tokenReview.kubeconfig: ",
        "hosted/kubeconfig: not a kubeconfig",
        "components.mutual: ",
        "pods/client.crt: ",
    ] {
        assert!(said.contains(expected), "{expected:?} is not in\n{said}");
    }
    assert!(!said.contains("secret"), "{said}");
}

#[test]
fn serve_with_a_bad_configuration_ends_with_64_before_it_listens() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.yaml");
    let ends = |content: Option<&str>| {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let ended = run(&["serve", "--config", file.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        assert_eq!(ended.status.code(), Some(64));
        text(&ended.stderr)
    };
    assert!(ends(None).contains("No such file"));
    let syntax = ends(Some("components:\n  etcd:\n    prot: metrics\n"));
    assert!(syntax.contains("line 3, column 5: components.etcd: unknown field `prot`"), "{syntax}");
    assert!(!syntax.contains("listening"));
}

#[tokio::test]
async fn serve_without_a_serving_certificate_ends_with_64_and_names_it() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.write_config();
    std::fs::remove_file(stage.dir.path().join("serving/tls.key")).unwrap();
    let ended = run(&["serve", "--config", stage.config_path().to_str().unwrap(), "--listen", "127.0.0.1:0"]);
    assert_eq!(ended.status.code(), Some(64));
    assert!(text(&ended.stderr).contains("serving/tls.key: No such file"), "{}", text(&ended.stderr));
}

#[tokio::test]
async fn serve_says_that_the_address_is_taken() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.write_config();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let listener = std::net::TcpListener::bind(taken.unwrap()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let ended = run(&["serve", "--config", stage.config_path().to_str().unwrap(), "--listen", &address]);
    assert_ne!(ended.status.code(), Some(0));
    assert!(text(&ended.stderr).contains(&format!("cannot listen on {address}: Address already in use")));
}

#[tokio::test]
async fn explain_says_what_becomes_of_each_line() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["components"]["etcd"]["metricRelabelings"] =
        json!([{"action": "drop", "sourceLabels": ["__name__"], "regex": "b.*"}]);
    stage.write_config();
    let config = stage.config_path();
    let explain = |component: &str, input: &str| {
        let arguments = ["explain", "--config", config.to_str().unwrap(), "--component", component, "--pod", "etcd-0"];
        let mut command = Command::new(binary());
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It may end without having read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    };
    let explained = explain("etcd", "# TYPE a gauge\na{namespace=\"x\"} 1\nbb 2\nnonsense\n");
    let said = text(&explained.stdout);
    assert_eq!(explained.status.code(), Some(0), "{said}");
    assert!(
        said.contains("a{pod=\"etcd-0\",namespace=\"openshift-etcd\"") && said.contains("exported_namespace=\"x\""),
        "{said}"
    );
    assert!(said.contains("drop") && said.contains("b.*"), "{said}");
    assert!(said.contains("error"), "{said}");
    let unknown = explain("nonesuch", "");
    assert_eq!(unknown.status.code(), Some(64));
    assert!(text(&unknown.stderr).contains("etcd"), "the ones there are: {}", text(&unknown.stderr));
}

#[test]
fn help_is_help_and_nonsense_is_64() {
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("explain"));
    assert_eq!(run(&["--version"]).status.code(), Some(0));
    for nonsense in [&["serve"][..], &["nonsense"], &["serve", "--config", "x", "--drain", "soon"]] {
        let ended = run(nonsense);
        assert_eq!(ended.status.code(), Some(64), "{nonsense:?}");
        assert!(!ended.stderr.is_empty());
    }
}
