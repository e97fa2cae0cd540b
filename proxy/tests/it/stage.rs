//! What every test needs: certificates, a hosted API server, pods, a configuration, and `sluice` before them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluice_loadtest::api::{ApiOptions, ApiServer, ApiTls, Identity};
use sluice_loadtest::certificate::{Authority, write_atomically};
use sluice_loadtest::pod::{Pod, PodOptions, PodTls};
use sluice_loadtest::process::Process;
use sluice_loadtest::scraper::{Scraped, Scraper, ScraperOptions};
use tempfile::TempDir;

/// The name that the serving certificate and the configuration have.
pub(crate) const HOST: &str = "metrics.demo.test";
/// Who may scrape.
pub(crate) const PROMETHEUS: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";
/// Its token, good for audience `sluice`.
pub(crate) const TOKEN: &str = "prometheus-k8s.token";

/// The world around `sluice`. Dropped last, so that it outlives the process.
pub(crate) struct Stage {
    pub(crate) dir: TempDir,
    /// Signs the serving certificate.
    pub(crate) serving_ca: Authority,
    /// Signs client certificates of scrapers.
    pub(crate) client_ca: Authority,
    /// Signs the certificates of pods, and of `sluice` towards them.
    pub(crate) pod_ca: Authority,
    /// The hosted API server.
    pub(crate) hosted: ApiServer,
    /// What is written to `config.yaml` by [`Stage::write_config`] and [`Stage::sluice`]; JSON is YAML.
    pub(crate) config: Value,
}

/// A running `sluice`.
pub(crate) struct Sluice {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    ca_pem: String,
}

impl Stage {
    /// Tokens and client certificates as ways in, and no components yet.
    pub(crate) async fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let [serving_ca, client_ca, pod_ca, hosted_ca] =
            ["serving-ca", "client-ca", "pod-ca", "hosted-ca"].map(Authority::new);
        let path = |name: &str| dir.path().join(name);
        for name in ["serving", "client-ca", "pods", "hosted"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        serving_ca.server(&[HOST]).write_to(&path("serving"), "tls");
        write_atomically(&path("client-ca"), "ca.crt", client_ca.cert_pem().as_bytes());
        write_atomically(&path("pods"), "ca.crt", pod_ca.cert_pem().as_bytes());
        pod_ca.client("sluice", &[]).write_to(&path("pods"), "client");
        let hosted_certificate = hosted_ca.server(&["127.0.0.1"]);
        let tls = ApiTls {
            certificate: hosted_certificate.cert_pem,
            key: hosted_certificate.key_pem,
            authority: hosted_ca.cert_pem(),
        };
        let options = ApiOptions { tls: Some(tls), tokens: vec!["sluice-reviewer".into()], ..ApiOptions::default() };
        let hosted = ApiServer::start(options).await;
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "prometheus-k8s", "namespace": "openshift-monitoring"}});
        hosted.apply(account);
        let identity = Identity::service_account("openshift-monitoring", "prometheus-k8s");
        hosted.add_token(TOKEN, Identity { audiences: vec!["sluice".into()], ..identity });
        write_atomically(&path("hosted"), "kubeconfig", hosted.kubeconfig().as_bytes());
        let config = json!({
            "hostnames": [HOST],
            "serving": {"certFile": "serving/tls.crt", "keyFile": "serving/tls.key"},
            "authentication": {
                "tokenReview": {"kubeconfig": "hosted/kubeconfig", "audiences": ["sluice"], "authorized": [PROMETHEUS]},
                "clientCertificate": {"caFile": "client-ca/ca.crt", "authorized": [PROMETHEUS]},
            },
            "components": {},
        });
        Self { dir, serving_ca, client_ca, pod_ca, hosted, config }
    }

    /// Pods of a component over plain HTTP, one for each body, named `<component>-0` and so on.
    pub(crate) fn plain_component(&mut self, name: &str, bodies: &[&str]) -> Vec<Pod> {
        let pods: Vec<_> = bodies.iter().map(|body| start_pod(body, PodTls::Plain)).collect();
        self.component(name, &pods, json!({"scheme": "http"}));
        pods
    }

    /// Configures a component with these pods as its targets; `more` is added to its section.
    pub(crate) fn component(&mut self, name: &str, pods: &[Pod], more: impl Into<Value>) {
        let targets: Vec<_> = pods
            .iter()
            .enumerate()
            .map(|(number, pod)| json!({"pod": format!("{name}-{number}"), "address": pod.address().to_string()}))
            .collect();
        let mut section = json!({"targets": targets, "labels": labels(name)});
        if let Value::Object(more) = more.into() {
            section.as_object_mut().unwrap().extend(more);
        }
        self.config["components"][name] = section;
    }

    /// TLS towards pods, with a client certificate.
    pub(crate) fn mutual_tls() -> Value {
        json!({"caFile": "pods/ca.crt", "certFile": "pods/client.crt", "keyFile": "pods/client.key", "serverName": "pod.test"})
    }

    /// How a pod speaks TLS that [`Self::mutual_tls`] fits.
    pub(crate) fn pod_tls(&self) -> PodTls {
        PodTls::Mutual { issued: self.pod_ca.server(&["pod.test"]), client_ca_pem: self.pod_ca.cert_pem() }
    }

    pub(crate) fn config_path(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    pub(crate) fn write_config(&self) {
        write_atomically(self.dir.path(), "config.yaml", self.config.to_string().as_bytes());
    }

    /// Starts `sluice serve` with this configuration, and waits until it listens.
    pub(crate) async fn sluice(&self) -> Sluice {
        self.sluice_with(&[]).await
    }

    pub(crate) async fn sluice_with(&self, more: &[&str]) -> Sluice {
        self.write_config();
        let config = self.config_path();
        let mut arguments = vec!["serve", "--config", config.to_str().unwrap()];
        arguments.extend(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        if !more.contains(&"--drain") {
            arguments.extend(["--drain", "0s"]);
        }
        arguments.extend(more);
        let process =
            Process::start(binary(), &arguments, &[("POD_NAME", "sluice-0"), ("RUST_LOG", "sluice=debug,info")]);
        let address = listening(&process, "scrapers").await;
        let admin = listening(&process, "admin").await;
        Sluice { process, address, admin, ca_pem: self.serving_ca.cert_pem() }
    }
}

impl Sluice {
    /// A scraper with no credentials.
    pub(crate) fn stranger(&self) -> ScraperOptions {
        ScraperOptions::new(self.address, HOST, &self.ca_pem)
    }

    /// A scraper with the good token.
    pub(crate) fn prometheus(&self) -> ScraperOptions {
        self.stranger().with_bearer(TOKEN)
    }

    /// One good scrape of a component.
    pub(crate) async fn scrape(&self, component: &str) -> Scraped {
        let scraped = Scraper::new(self.prometheus()).scrape(&format!("/metrics/{component}")).await;
        let scraped = scraped.unwrap_or_else(|error| panic!("{component}: {error}"));
        assert_eq!(scraped.status, 200, "{component}: {}", scraped.text());
        scraped
    }

    /// What the admin port says.
    pub(crate) async fn admin(&self, path: &str) -> Scraped {
        let scraped =
            Scraper::new(ScraperOptions { gzip: false, ..ScraperOptions::plain(self.admin) }).scrape(path).await;
        scraped.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The value of a metric of its own, the sum over all labels that have these; 0 if there is none.
    pub(crate) async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.admin("/metrics").await;
        // OpenMetrics; what differs from text 0.0.4 is in comments.
        let samples = text.samples_named(name);
        let fits =
            |sample: &&sluice_loadtest::scraper::Sample| labels.iter().all(|(key, value)| sample.label(key) == *value);
        samples.iter().filter(fits).map(|sample| sample.value.parse::<f64>().unwrap()).sum()
    }

    /// Has the configuration and its files looked at now, not in some seconds.
    pub(crate) fn reload(&self) {
        self.process.signal("HUP");
    }
}

/// Starts a pod at a free port of 127.0.0.1.
pub(crate) fn start_pod(body: &str, tls: PodTls) -> Pod {
    Pod::start(PodOptions { address: "127.0.0.1:0".parse().unwrap(), body: body.to_string().into(), tls })
}

/// The labels of a component called `name`.
pub(crate) fn labels(name: &str) -> Value {
    json!({"job": name, "namespace": format!("openshift-{name}"), "service": format!("{name}-svc"), "endpoint": "https"})
}

pub(crate) fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_sluice"))
}

/// Waits until something is true; fails after half a minute.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut is_true: impl FnMut() -> F) {
    let start = Instant::now();
    while !is_true().await {
        assert!(start.elapsed() < Duration::from_secs(30), "not true in half a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn listening(process: &Process, whom: &str) -> SocketAddr {
    let said = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["message"] == "listening" && line["whom"] == whom)
            .then(|| line["address"].as_str().unwrap().parse().unwrap())
    };
    said(&process.wait_for_line(|line| said(line).is_some()).await).unwrap()
}
