//! A tenant: one hosted control plane.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::component::{self, Component};
use crate::unit::Span;

/// Everything Sluice knows about one hosted control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tenant {
    /// The names clients ask for by SNI. Required where one process serves many tenants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// The certificate that scrapers see.
    pub serving: Serving,
    /// Who may scrape. At least one way; a request passes if one of them admits it.
    pub authentication: Authentication,
    /// Where pods are found. Not needed if all components name their targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// The labels that carry the pod's name.
    #[serde(default = "pod_labels", skip_serializing_if = "is_pod_labels")]
    pub pod_labels: Vec<String>,
    /// Whether responses carry `up` for each pod.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub emit_up: bool,
    /// What this tenant may use of the process.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: TenantLimits,
    /// What can be scraped, by the name in the path `/metrics/<component>`.
    #[serde(deserialize_with = "component::unique_names")]
    pub components: std::collections::BTreeMap<String, Component>,
}

/// The serving certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Serving {
    /// PEM, leaf first.
    pub cert_file: PathBuf,
    /// PEM.
    pub key_file: PathBuf,
}

/// The ways in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authentication {
    /// Bearer tokens, reviewed by the hosted API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_review: Option<TokenReview>,
    /// Client certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<ClientCertificate>,
}

/// Bearer tokens, reviewed by the hosted API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenReview {
    /// How to reach the hosted API server, with an identity that may only create token reviews.
    pub kubeconfig: PathBuf,
    /// The audiences a token must be for; none means the API server's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub audiences: Vec<String>,
    /// The user names that are let in. Never empty.
    pub authorized: Vec<String>,
    /// How long a good token is believed without asking again.
    #[serde(rename = "cacheTTL", default = "cache_ttl")]
    pub cache_ttl: Span,
    /// How long a bad token is refused without asking again.
    #[serde(rename = "refusalTTL", default = "refusal_ttl")]
    pub refusal_ttl: Span,
}

/// Client certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientCertificate {
    /// PEM: who may sign them.
    pub ca_file: PathBuf,
    /// The common or alternative names that are let in. Never empty.
    pub authorized: Vec<String>,
}

/// Where pods are found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Discovery {
    /// The control plane's namespace in the management cluster.
    pub namespace: String,
    /// How to reach the management cluster; from inside it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<PathBuf>,
}

/// What one tenant may use of the process, so that others have their share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TenantLimits {
    /// Two replicas scrape ten components each; twice that leaves room for a person who looks.
    pub concurrent_scrapes: u32,
    /// Ten connections for each scrape that may be under way, most of them idle.
    pub connections: u32,
    /// Reviews of tokens never seen before, with a burst of ten: a flood of random tokens must not become a flood on the
    /// hosted API server.
    pub token_reviews_per_second: u32,
}

impl Default for TenantLimits {
    fn default() -> Self {
        Self { concurrent_scrapes: 40, connections: 200, token_reviews_per_second: 1 }
    }
}

impl Tenant {
    /// All files it names, each with its key's path: `components.etcd.tlsConfig.caFile`.
    pub fn files(&self) -> Vec<(String, &Path)> {
        let authentication = &self.authentication;
        let review = authentication.token_review.as_ref().map(|review| &review.kubeconfig);
        let client = authentication.client_certificate.as_ref().map(|client| &client.ca_file);
        let discovery = self.discovery.as_ref().and_then(|discovery| discovery.kubeconfig.as_ref());
        let own = [
            ("serving.certFile", Some(&self.serving.cert_file)),
            ("serving.keyFile", Some(&self.serving.key_file)),
            ("authentication.tokenReview.kubeconfig", review),
            ("authentication.clientCertificate.caFile", client),
            ("discovery.kubeconfig", discovery),
        ];
        let own = own.into_iter().filter_map(|(key, file)| Some((key.to_string(), file?.as_path())));
        let of_components = self.components.iter().flat_map(|(name, component)| {
            component.files().into_iter().map(move |(key, file)| (format!("components.{name}.{key}"), file))
        });
        own.chain(of_components).collect()
    }

    /// Makes relative paths relative to `base`.
    pub(crate) fn resolve_paths(&mut self, base: &Path) {
        for path in self.files_mut() {
            *path = base.join(&*path);
        }
    }

    fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        let mut files = vec![&mut self.serving.cert_file, &mut self.serving.key_file];
        files.extend(self.authentication.token_review.as_mut().map(|review| &mut review.kubeconfig));
        files.extend(self.authentication.client_certificate.as_mut().map(|client| &mut client.ca_file));
        files.extend(self.discovery.as_mut().and_then(|discovery| discovery.kubeconfig.as_mut()));
        files.extend(self.components.values_mut().flat_map(Component::files_mut));
        files
    }
}

fn pod_labels() -> Vec<String> {
    vec!["pod".into()]
}

fn is_pod_labels(labels: &[String]) -> bool {
    labels == pod_labels()
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_yes(value: &bool) -> bool {
    *value
}

fn is_default(limits: &TenantLimits) -> bool {
    *limits == TenantLimits::default()
}

/// The seed's: reviews fall from 20 a minute to one in five minutes.
fn cache_ttl() -> Span {
    Span::seconds(300)
}

/// Long enough to blunt a scraper with a bad token, short enough for a token that becomes good.
fn refusal_ttl() -> Span {
    Span::seconds(10)
}
