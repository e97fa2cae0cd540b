//! What the tests share: a simulated cluster, a kubeconfig in a file, and queries to ask.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;
use std::time::Duration;

use sluice_discovery::{Discovery, Pods, Port, Query, Requirement, Scope, Selector, Source, Targets, Timing};
use sluice_loadtest::api::{ApiOptions, ApiServer, endpoint_slice};
use tempfile::TempDir;

pub(crate) const NAMESPACE: &str = "clusters-demo";
pub(crate) const SLICES: &str = "endpointslices";

pub(crate) struct Cluster {
    pub(crate) api: ApiServer,
    dir: TempDir,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::start_with(ApiOptions::default()).await
    }

    pub(crate) async fn start_with(options: ApiOptions) -> Self {
        // Another test of this process may have been first.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let cluster = Self { api: ApiServer::start(options).await, dir: tempfile::tempdir().unwrap() };
        cluster.write_kubeconfig(&cluster.api.kubeconfig());
        cluster
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    pub(crate) fn write_kubeconfig(&self, text: &str) {
        std::fs::write(self.kubeconfig(), text).unwrap();
    }

    pub(crate) fn source(&self) -> Source {
        Source::Kubeconfig(self.kubeconfig())
    }

    pub(crate) fn discovery(&self) -> Discovery {
        self.discovery_with(impatient())
    }

    pub(crate) fn discovery_with(&self, timing: Timing) -> Discovery {
        Discovery::start_with(self.source(), Scope::Namespace(NAMESPACE.into()), timing)
    }

    pub(crate) fn discovery_of_all(&self) -> Discovery {
        Discovery::start_with(self.source(), Scope::AllNamespaces, impatient())
    }

    /// A slice of etcd with these pods, by the last byte of their addresses.
    pub(crate) fn apply_etcd(&self, slice: &str, pods: &[(&str, u8)]) {
        self.apply_etcd_in(NAMESPACE, slice, pods);
    }

    pub(crate) fn apply_etcd_in(&self, namespace: &str, slice: &str, pods: &[(&str, u8)]) {
        let pods: Vec<_> = pods.iter().map(|(pod, last)| (*pod, format!("10.0.0.{last}"))).collect();
        let pods: Vec<_> = pods.iter().map(|(pod, address)| (*pod, address.as_str())).collect();
        self.api.apply(endpoint_slice(namespace, slice, "etcd-client", Some("metrics"), 9979, &pods));
    }

    pub(crate) fn delete_slice(&self, slice: &str) {
        assert!(self.api.delete("discovery.k8s.io/v1", "EndpointSlice", NAMESPACE, slice));
    }

    /// Waits until these are the pods of the targets.
    pub(crate) async fn wait_for_pods(&self, targets: &Targets, pods: &[&str]) {
        self.api.wait(&format!("pods {pods:?}"), || pods_of(targets).is_some_and(|found| found == pods)).await;
    }
}

/// Short pauses; silence is not expected to be noticed in a test that is not about it.
pub(crate) fn impatient() -> Timing {
    Timing { first_pause: Duration::from_millis(5), longest_pause: Duration::from_millis(50), ..Timing::default() }
}

pub(crate) fn etcd() -> Query {
    etcd_in(NAMESPACE)
}

pub(crate) fn etcd_in(namespace: &str) -> Query {
    Query {
        namespace: namespace.into(),
        pods: Pods::OfService("etcd-client".into()),
        port: Port::Name("metrics".into()),
    }
}

pub(crate) fn with_label(key: &str, value: &str) -> Query {
    let selector = Selector::new([Requirement::In(key.into(), vec![value.into()])]);
    Query { namespace: NAMESPACE.into(), pods: Pods::Selected(selector), port: Port::Name("metrics".into()) }
}

pub(crate) fn pods_of(targets: &Targets) -> Option<Vec<String>> {
    Some(targets.load()?.iter().map(|target| target.pod.clone()).collect())
}
