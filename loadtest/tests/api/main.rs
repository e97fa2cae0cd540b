//! The simulated API server as the real client sees it.

#![allow(missing_docs, clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

mod access;
mod apply;
mod lists;
mod objects;
mod tokens;
mod watchers;
mod watches;

use std::time::Duration;

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Error};
use serde_json::{Value, json};
use sluice_loadtest::api::{ApiOptions, ApiServer};

/// A server as it comes.
async fn server() -> ApiServer {
    ApiServer::start(ApiOptions::default()).await
}

/// A client by the server's own kubeconfig.
async fn client(api: &ApiServer) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&api.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // Tests are about single answers; kube would repeat those with 429, 503 and 504 for minutes.
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Config maps of the namespace `n`: objects without status or generation.
async fn config_maps(api: &ApiServer) -> Api<k8s_openapi::api::core::v1::ConfigMap> {
    Api::namespaced(client(api).await, "n")
}

/// Hosted control planes of the namespace `n`: a custom resource.
async fn control_planes(api: &ApiServer) -> Api<DynamicObject> {
    let gvk = GroupVersionKind::gvk("hypershift.openshift.io", "v1beta1", "HostedControlPlane");
    Api::namespaced_with(client(api).await, "n", &ApiResource::from_gvk(&gvk))
}

fn control_plane(name: &str, spec: &Value) -> DynamicObject {
    let object = json!({"apiVersion": "hypershift.openshift.io/v1beta1", "kind": "HostedControlPlane",
        "metadata": {"name": name, "namespace": "n"}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn config_map(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "labels": labels}})
}

/// The code and reason of a refusal.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (u16, String) {
    match result.expect_err("this must be refused") {
        Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("no answer of the server: {other}"),
    }
}

/// A future that must be done: what hangs fails the test.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.unwrap_or_else(|_| panic!("in vain: {what}"))
}
