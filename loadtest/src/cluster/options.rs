//! What a control plane is to be like.

use std::net::IpAddr;
use std::time::Duration;

use super::network::Net;
use crate::api::ApiServer;

/// What a control plane is to be like.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// The cluster's name; its namespace, its host name and its directory have it in theirs.
    pub name: String,
    /// Where its servers and pods listen. Clusters may share one, but then an address does not tell them apart.
    pub net: Net,
    /// What its kube-apiservers serve.
    pub api_server_body: ApiServerBody,
    /// How many pods each component has; as the table of components says if none.
    pub pods: Option<usize>,
    /// Which rules the configuration has.
    pub metrics_set: MetricsSet,
    /// The longest a scrape of a component may take, in whole seconds.
    pub timeout: Duration,
    /// Who knows the pods.
    pub management: Management,
    /// Addresses that the serving certificate is good for, beside the host name.
    pub serving_addresses: Vec<IpAddr>,
}

/// How large the kube-apiservers' metrics are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApiServerBody {
    /// As captured: 8.2 MB.
    Captured,
    /// Like the captured one, and at least so many bytes.
    Bytes(usize),
}

/// Which rules are applied to samples, by HyperShift's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsSet {
    /// All but what nobody looks at: HyperShift's default.
    All,
    /// What is reported to the vendor.
    Telemetry,
    /// No rules.
    Everything,
}

/// The management cluster's API server.
#[derive(Clone, Debug)]
pub enum Management {
    /// Its own, over plain HTTP.
    Plain,
    /// Its own, over TLS.
    Tls,
    /// One that clusters have in common; each has its namespace there.
    Shared(ApiServer),
}

impl ClusterOptions {
    pub(super) fn namespace(&self) -> String {
        format!("clusters-{}", self.name)
    }

    pub(super) fn hostname(&self) -> String {
        format!("metrics-proxy.apps.{}.hypershift.local", self.name)
    }
}

impl Default for ClusterOptions {
    /// The cluster `demo`, with captured bodies, the All set and a management API server with TLS.
    fn default() -> Self {
        Self {
            name: "demo".into(),
            net: Net::new(1),
            api_server_body: ApiServerBody::Captured,
            pods: None,
            metrics_set: MetricsSet::All,
            // Prometheus' own default.
            timeout: Duration::from_secs(10),
            management: Management::Tls,
            serving_addresses: Vec::new(),
        }
    }
}
