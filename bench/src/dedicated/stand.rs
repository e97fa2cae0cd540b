//! What `sluice` needs to be measured: three pods, a hosted API server, certificates, a configuration.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use sluice_loadtest::api::{ApiOptions, ApiServer, Identity};
use sluice_loadtest::certificate::{Authority, write_atomically};
use sluice_loadtest::corpus;
use sluice_loadtest::pod::{Pod, PodOptions, PodTls};
use sluice_loadtest::process::Process;
use sluice_loadtest::scraper::ScraperOptions;
use tempfile::TempDir;

/// The name on the serving certificate.
pub(super) const HOST: &str = "metrics.bench.test";
const TOKEN: &str = "bench-token";
const USER: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";

/// The world around the contenders.
pub(super) struct Stand {
    pub(super) dir: TempDir,
    pub(super) ca_pem: String,
    /// Held so that they serve.
    _pods: Vec<Pod>,
    _hosted: ApiServer,
}

/// A running `sluice`.
pub(super) struct Sluice {
    pub(super) process: Process,
    address: SocketAddr,
    ca_pem: String,
}

impl Stand {
    pub(super) async fn new() -> std::io::Result<Self> {
        let dir = TempDir::new()?;
        let ca = Authority::new("bench-ca");
        ca.server(&[HOST]).write_to(dir.path(), "tls");
        let hosted = ApiServer::start(ApiOptions::default()).await;
        let identity = Identity::service_account("openshift-monitoring", "prometheus-k8s");
        hosted.add_token(TOKEN, Identity { audiences: vec!["sluice".into()], ..identity });
        write_atomically(dir.path(), "hosted", hosted.kubeconfig().as_bytes());
        let pods: Vec<_> = (0..3).map(|_| start_pod(&corpus::kube_apiserver())).collect();
        let target = |(number, pod): (usize, &Pod)| json!({"pod": format!("kube-apiserver-{number}"), "address": pod.address().to_string()});
        let targets: Vec<Value> = pods.iter().enumerate().map(target).collect();
        let labels = json!({"job": "apiserver", "namespace": "default", "service": "kubernetes", "endpoint": "https"});
        let config = json!({
            "hostnames": [HOST],
            "serving": {"certFile": "tls.crt", "keyFile": "tls.key"},
            "authentication": {"tokenReview": {"kubeconfig": "hosted", "audiences": ["sluice"], "authorized": [USER]}},
            "components": {"kube-apiserver": {"targets": targets, "scheme": "http", "labels": labels}},
        });
        write_atomically(dir.path(), "config.yaml", config.to_string().as_bytes());
        Ok(Self { dir, ca_pem: ca.cert_pem(), _pods: pods, _hosted: hosted })
    }

    pub(super) async fn sluice(&self, program: &Path) -> Sluice {
        let config = self.dir.path().join("config.yaml");
        let config = config.to_string_lossy();
        let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
        let process = Process::start(program, &[&["serve", "--config", &config][..], &listen].concat(), &[]);
        let said = |line: &str| {
            let line: Value = serde_json::from_str(line).ok()?;
            let ours = line["message"] == "listening" && line["whom"] == "scrapers";
            ours.then(|| line["address"].as_str()?.parse().ok()).flatten()
        };
        let line = process.wait_for_line(|line| said(line).is_some()).await;
        let address = said(&line).unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        Sluice { process, address, ca_pem: self.ca_pem.clone() }
    }
}

impl Sluice {
    pub(super) fn scraper(&self) -> ScraperOptions {
        ScraperOptions::new(self.address, HOST, &self.ca_pem).with_bearer(TOKEN)
    }
}

/// A pod that serves this over plain HTTP.
pub(super) fn start_pod(body: &bytes::Bytes) -> Pod {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    Pod::start(PodOptions { address, body: body.clone(), tls: PodTls::Plain })
}
