//! A simulated hosted control plane: API servers, the pods of all components, certificates, tokens, and the configuration
//! directory that `sluice serve` takes.
//!
//! ```text
//! management API server   namespace clusters-NAME: EndpointSlices and Pods
//! hosted API server       reviews the scraper's token
//! pods                    127.x.y.z, each component on one port, with the TLS it has in HyperShift
//! directory               config.yaml and what it names; scraper/, what the other side holds
//! ```

mod body;
mod component;
mod expected;
mod files;
mod network;
mod options;
mod rules;
mod running;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

pub use expected::Expected;
pub use network::Net;
pub use options::{ApiServerBody, ClusterOptions, Management, MetricsSet};

use crate::api::{ApiOptions, ApiServer, ApiTls};
use crate::certificate::{Authority, DAY, Issued};
use crate::pod::{Behaviour, Pod};
use crate::scraper::ScraperOptions;
use component::COMPONENTS;
use files::Trusted;
use network::Addresses;
use running::Running;

/// The one who may scrape: the guest cluster's Prometheus.
pub const PROMETHEUS: &str = "system:serviceaccount:openshift-monitoring:prometheus-k8s";
/// The audience its token is for.
pub const AUDIENCE: &str = "sluice";

/// How long the token is good: longer than anyone looks at a demo, and an end, as all tokens have.
const TOKEN_LIFETIME: Duration = DAY;

/// There is no pod of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no pod {0:?}")]
pub struct NoSuchPod(pub String);

/// A running control plane. Dropping it stops it and removes its directory.
pub struct HostedCluster {
    options: ClusterOptions,
    dir: TempDir,
    serving_ca: Authority,
    client: Issued,
    token: String,
    management: ApiServer,
    hosted: ApiServer,
    addresses: Addresses,
    components: BTreeMap<&'static str, Running>,
}

impl HostedCluster {
    /// Starts everything; the directory is complete when this returns.
    pub async fn start(options: ClusterOptions) -> Self {
        let dir = tempfile::Builder::new().prefix(&format!("sluice-{}-", options.name)).tempdir();
        let dir = dir.unwrap_or_else(|error| panic!("a temporary directory: {error}"));
        let [serving_ca, client_ca] = ["metrics-proxy-ca", "kube-csr-signer"].map(Authority::new);
        let trusted = Trusted { root: Authority::new("root-ca"), etcd: Authority::new("etcd-signer") };
        let mut addresses = Addresses::new(options.net);
        let management = match &options.management {
            Management::Shared(server) => server.clone(),
            Management::Plain => start_api_server(options.net, Net::MANAGEMENT, None, "sluice-discovery").await,
            Management::Tls => {
                let authority = Authority::new("management-root-ca");
                start_api_server(options.net, Net::MANAGEMENT, Some(&authority), "sluice-discovery").await
            }
        };
        let hosted = start_api_server(options.net, Net::HOSTED, Some(&trusted.root), "sluice-reviewer").await;
        let token = issue_token(&hosted);
        management.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace()}}));
        let mut components = BTreeMap::new();
        for component in &COMPONENTS {
            let running = Running::start(component, &options, &trusted, &mut addresses);
            running.announce(&management, &options.namespace());
            components.insert(component.name, running);
        }
        let client = client_ca.client(PROMETHEUS, &[]);
        let cluster = Self { options, dir, serving_ca, client, token, management, hosted, addresses, components };
        cluster.write_files(&client_ca, &trusted);
        cluster
    }

    /// The directory with the configuration and all it names.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// What `sluice serve --config` is given.
    pub fn config_path(&self) -> PathBuf {
        self.dir().join("config.yaml")
    }

    /// The control plane's namespace in the management cluster.
    pub fn namespace(&self) -> String {
        self.options.namespace()
    }

    /// The name that scrapers ask for.
    pub fn hostname(&self) -> String {
        self.options.hostname()
    }

    /// The API server that knows the pods.
    pub fn management(&self) -> &ApiServer {
        &self.management
    }

    /// The API server that knows the tokens.
    pub fn hosted(&self) -> &ApiServer {
        &self.hosted
    }

    /// The scraper's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The scraper's certificate.
    pub fn client_certificate(&self) -> &Issued {
        &self.client
    }

    /// The authority of the serving certificate.
    pub fn ca_pem(&self) -> String {
        self.serving_ca.cert_pem()
    }

    /// The guest's Prometheus, with its token and as much time as the pods have, for the proxy at this address.
    pub fn prometheus(&self, address: SocketAddr) -> ScraperOptions {
        let options = ScraperOptions::new(address, &self.hostname(), &self.ca_pem()).with_bearer(&self.token);
        ScraperOptions { timeout: self.options.timeout, ..options }
    }

    /// The names of all components.
    pub fn components(&self) -> impl Iterator<Item = &'static str> {
        self.components.keys().copied()
    }

    /// The names of a component's pods, sorted.
    pub fn pods_of(&self, component: &str) -> Vec<&str> {
        self.component(component).pods.keys().map(String::as_str).collect()
    }

    /// A pod, to ask it or to have it behave in whatever way.
    pub fn pod(&self, name: &str) -> Result<&Pod, NoSuchPod> {
        self.components
            .values()
            .find_map(|component| component.pods.get(name))
            .ok_or_else(|| NoSuchPod(name.to_owned()))
    }

    /// How many samples the pods of a component have together, before any rule.
    pub fn samples_of(&self, component: &str) -> usize {
        self.component(component).samples()
    }

    /// What a good scrape of a component has in it.
    pub fn expected(&self, component: &str) -> Expected {
        self.component(component).expected(self.options.metrics_set)
    }

    /// Has a pod's process die: connections are refused and those that are open end. The API server still lists it as
    /// ready, as it does in the first seconds.
    pub fn kill(&self, pod: &str) -> Result<(), NoSuchPod> {
        let pod = self.pod(pod)?;
        pod.behave(Behaviour::RefuseConnections);
        pod.disconnect();
        Ok(())
    }

    /// Has a pod behave well again.
    pub fn restore(&self, pod: &str) -> Result<(), NoSuchPod> {
        self.pod(pod)?.behave(Behaviour::Serve);
        Ok(())
    }

    /// Deletes a pod; another takes its place under a new name and address, which this returns. The API server knows
    /// before the old one is gone, but scrapes of it that are under way are cut.
    pub fn replace(&mut self, pod: &str) -> Result<String, NoSuchPod> {
        let component = self.components.values_mut().find(|component| component.pods.contains_key(pod));
        let component = component.ok_or_else(|| NoSuchPod(pod.to_owned()))?;
        let (old, new) = component.replace(pod, &mut self.addresses);
        component.announce(&self.management, &self.options.namespace());
        self.management.delete("v1", "Pod", &self.options.namespace(), pod);
        self.addresses.give_back(old.address());
        Ok(new)
    }

    /// Renews the serving certificate, with a new key, by the same authority.
    pub fn renew_serving_certificate(&self) {
        self.write_serving_certificate();
    }

    fn component(&self, name: &str) -> &Running {
        self.components.get(name).unwrap_or_else(|| panic!("there is no component {name:?}"))
    }
}

/// An API server that lets in only the bearer of `token`.
async fn start_api_server(net: Net, last: u8, authority: Option<&Authority>, token: &str) -> ApiServer {
    let ip = net.address(last);
    let tls = authority.map(|authority| {
        let issued = authority.server(&[&ip.to_string()]);
        ApiTls { certificate: issued.cert_pem, key: issued.key_pem, authority: authority.cert_pem() }
    });
    ApiServer::start(ApiOptions {
        address: SocketAddr::from((ip, 0)),
        tls,
        tokens: vec![token.to_owned()],
        ..ApiOptions::default()
    })
    .await
}

fn issue_token(hosted: &ApiServer) -> String {
    let (namespace, name) = ("openshift-monitoring", "prometheus-k8s");
    hosted.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace}}));
    hosted.issue_token(namespace, name, &[AUDIENCE], TOKEN_LIFETIME)
}
