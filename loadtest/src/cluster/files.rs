//! The directory: what the proxy is given, and beside it what the scraper holds.
//!
//! ```text
//! config.yaml                  all paths in it are relative
//! serving/tls.{crt,key}        what scrapers see
//! client-ca/ca.crt             whose certificates scrapers may show
//! hosted/kubeconfig            who reviews tokens
//! management/kubeconfig        who knows the pods
//! root-ca/, metrics-client/    towards most pods
//! etcd-ca/, etcd-metrics-client/   towards etcd
//! scraper/                     ca.crt, token, authorization (the header), tls.{crt,key}
//! ```

use std::fmt::Write as _;
use std::fs;

use super::component::{FoundBy, Port, Trust};
use super::rules::{Action, rules};
use super::running::Running;
use super::{AUDIENCE, HostedCluster, PROMETHEUS};
use crate::certificate::{Authority, write_atomically};

/// Who signs the certificates of pods, and of the proxy towards them.
pub(super) struct Trusted {
    pub(super) root: Authority,
    pub(super) etcd: Authority,
}

impl HostedCluster {
    pub(super) fn write_files(&self, client_ca: &Authority, trusted: &Trusted) {
        self.write_serving_certificate();
        self.write("client-ca", "ca.crt", &client_ca.cert_pem());
        self.write("hosted", "kubeconfig", &self.hosted.kubeconfig());
        self.write("management", "kubeconfig", &self.management.kubeconfig());
        self.write("root-ca", "ca.crt", &trusted.root.cert_pem());
        trusted
            .root
            .client("system:serviceaccount:hypershift:prometheus", &[])
            .write_to(&self.folder("metrics-client"), "tls");
        self.write("etcd-ca", "ca.crt", &trusted.etcd.cert_pem());
        trusted.etcd.client("etcd-metrics-client", &[]).write_to(&self.folder("etcd-metrics-client"), "etcd-client");
        self.write("scraper", "ca.crt", &self.ca_pem());
        self.write("scraper", "token", &self.token);
        self.write("scraper", "authorization", &format!("Authorization: Bearer {}\n", self.token));
        self.client.write_to(&self.folder("scraper"), "tls");
        self.write("", "config.yaml", &self.config());
    }

    pub(super) fn write_serving_certificate(&self) {
        let addresses = self.options.serving_addresses.iter().map(ToString::to_string);
        let names: Vec<String> = std::iter::once(self.hostname()).chain(addresses).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.serving_ca.server(&names).write_to(&self.folder("serving"), "tls");
    }

    fn config(&self) -> String {
        let head = format!(
            "hostnames: [{}]\n\
             serving: {{certFile: serving/tls.crt, keyFile: serving/tls.key}}\n\
             authentication:\n\
             \x20 tokenReview:\n\
             \x20   kubeconfig: hosted/kubeconfig\n\
             \x20   audiences: [{AUDIENCE}]\n\
             \x20   authorized: [\"{PROMETHEUS}\"]\n\
             \x20 clientCertificate:\n\
             \x20   caFile: client-ca/ca.crt\n\
             \x20   authorized: [\"{PROMETHEUS}\"]\n\
             discovery: {{namespace: {}, kubeconfig: management/kubeconfig}}\n\
             components:\n",
            self.hostname(),
            self.namespace(),
        );
        self.components.values().fold(head, |text, running| text + &self.section(running))
    }

    /// A component's part of the configuration.
    fn section(&self, running: &Running) -> String {
        let component = running.component;
        let mut text = format!("  {}:\n", component.name);
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "    {line}").expect("a String takes everything");
        match component.found_by {
            FoundBy::Service(service, port) => {
                line(format_args!("service: {service}"));
                match port {
                    Port::Named(name) => line(format_args!("port: {name}")),
                    Port::Unnamed => line(format_args!("port: \"\"")),
                    Port::Number => line(format_args!("port: {}", running.port)),
                }
            }
            FoundBy::AppLabel => {
                line(format_args!("podSelector: {{matchLabels: {{app: {}}}}}", component.name));
                line(format_args!("port: metrics"));
            }
        }
        let name = component.server_name;
        match component.trust {
            Trust::Nobody => line(format_args!("scheme: http")),
            Trust::ServerOnly => line(format_args!("tlsConfig: {{caFile: root-ca/ca.crt, serverName: {name}}}")),
            Trust::Mutual => line(format_args!(
                "tlsConfig: {{caFile: root-ca/ca.crt, certFile: metrics-client/tls.crt, keyFile: metrics-client/tls.key, serverName: {name}}}"
            )),
            Trust::MutualEtcd => line(format_args!(
                "tlsConfig: {{caFile: etcd-ca/ca.crt, certFile: etcd-metrics-client/etcd-client.crt, keyFile: etcd-metrics-client/etcd-client.key, serverName: {name}}}"
            )),
        }
        let labels = &component.labels;
        line(format_args!(
            "labels: {{job: {}, namespace: {}, service: {}, endpoint: \"{}\"}}",
            labels.job, labels.namespace, labels.service, labels.endpoint
        ));
        line(format_args!("timeout: {}s", self.options.timeout.as_secs()));
        let rules = rules(self.options.metrics_set, component.name);
        if !rules.is_empty() {
            line(format_args!("metricRelabelings:"));
        }
        for rule in rules {
            let action = if rule.action == Action::Keep { "keep" } else { "drop" };
            let sources = rule.source_labels.join(", ");
            // No rule has a single quote, so that none has to be doubled.
            line(format_args!("- {{action: {action}, sourceLabels: [{sources}], regex: '{}'}}", rule.regex));
        }
        text
    }

    fn write(&self, folder: &str, name: &str, content: &str) {
        write_atomically(&self.folder(folder), name, content.as_bytes());
    }

    fn folder(&self, name: &str) -> std::path::PathBuf {
        let folder = self.dir().join(name);
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("creating {}: {error}", folder.display()));
        folder
    }
}
