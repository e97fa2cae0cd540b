//! A component of a control plane: which pods it has, how they are scraped, and what becomes of their metrics.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{self, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_codec::{Action, LabelError, Limits, PodIdentity, Rule, RuleError, Rules, TargetLabels};

use crate::unit::{ByteSize, Span};

/// One component, such as etcd. Its pods are found by `service`, by `podSelector`, or named in `targets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Component {
    /// The Service whose `EndpointSlices` list the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The labels of the pods, for a component that has no Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// The port of the slice or of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
    /// The pods themselves, where there is no Kubernetes to ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// Where the metrics are.
    #[serde(default = "metrics_path", skip_serializing_if = "is_metrics_path")]
    pub path: String,
    /// The query, as Prometheus' `params`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Vec<String>>,
    /// Whether the pods speak TLS.
    #[serde(default, skip_serializing_if = "Scheme::is_https")]
    pub scheme: Scheme,
    /// How they are trusted, and how we identify ourselves to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<TlsConfig>,
    /// The labels a standalone cluster's target would have.
    pub labels: IdentityLabels,
    /// The exporter's labels win over ours.
    #[serde(default, skip_serializing_if = "is_false")]
    pub honor_labels: bool,
    /// Rules on the samples, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metric_relabelings: Vec<Relabeling>,
    /// Bounds on one pod's body.
    #[serde(default, skip_serializing_if = "is_default_limits")]
    pub limits: ComponentLimits,
    /// The longest a scrape of this component may take.
    #[serde(default = "timeout")]
    pub timeout: Span,
}

/// A pod by name and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    /// The pod's name.
    pub pod: String,
    /// `ip:port`, IPv6 in brackets.
    pub address: std::net::SocketAddr,
}

/// A port by name (`""` is the one without a name) or by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// By name.
    Name(String),
    /// By number.
    Number(u16),
}

/// How pods are spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// TLS, the default.
    #[default]
    Https,
    /// Plain HTTP.
    Http,
}

/// TLS towards the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM: who signs the pods' certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// PEM: our certificate, where they want one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_file: Option<PathBuf>,
    /// PEM: its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_file: Option<PathBuf>,
    /// The name their certificates must have, instead of their address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
}

/// The four labels that say what a component is; `pod` and `instance` come from each pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IdentityLabels {
    /// The scrape job.
    pub job: String,
    /// The namespace in a standalone cluster.
    pub namespace: String,
    /// The Service in a standalone cluster.
    pub service: String,
    /// The name of its port.
    pub endpoint: String,
}

/// A rule on samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Relabeling {
    /// What the rule does.
    pub action: RelabelAction,
    /// The labels whose values are joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_labels: Vec<String>,
    /// What stands between them.
    #[serde(default = "separator", skip_serializing_if = "is_separator")]
    pub separator: String,
    /// Must match the whole.
    #[serde(default = "any")]
    pub regex: String,
}

/// What a rule may do. Prometheus' other actions are not honoured, and hence not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelabelAction {
    /// Only samples that match go on.
    Keep,
    /// Samples that match do not go on.
    Drop,
}

/// Bounds on one pod's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ComponentLimits {
    /// Thirty times a large kube-apiserver's; 0 for none.
    pub body_bytes: ByteSize,
    /// As the codec's own default, which says why.
    pub line_bytes: ByteSize,
    /// 0 for none.
    pub samples: u64,
}

/// Which pods, as Kubernetes selects them. An empty one would select all pods, and is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// All of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// And all of these conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<MatchExpression>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MatchExpression {
    /// The label.
    pub key: String,
    /// What must be true of it.
    pub operator: Operator,
    /// With `In` and `NotIn` at least one, with the others none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Kubernetes' four operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or no such label.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is none.
    DoesNotExist,
}

impl Component {
    /// The rules on samples, compiled; a component that was [parsed](crate::parse) has no error.
    pub fn rules(&self) -> Result<Rules, RuleError> {
        let rules: Vec<Rule> = self.metric_relabelings.iter().map(Relabeling::to_rule).collect();
        Rules::compile(&rules)
    }

    /// The files it names, each with its key's path below the component: `tlsConfig.caFile`.
    pub fn files(&self) -> Vec<(String, &Path)> {
        let Some(tls) = &self.tls_config else { return Vec::new() };
        let keys = [("caFile", &tls.ca_file), ("certFile", &tls.cert_file), ("keyFile", &tls.key_file)];
        let named = keys.into_iter().filter_map(|(key, file)| Some((key, file.as_deref()?)));
        named.map(|(key, file)| (format!("tlsConfig.{key}"), file)).collect()
    }

    pub(crate) fn files_mut(&mut self) -> Vec<&mut PathBuf> {
        let Some(tls) = &mut self.tls_config else { return Vec::new() };
        [&mut tls.ca_file, &mut tls.cert_file, &mut tls.key_file].into_iter().flatten().collect()
    }
}

impl IdentityLabels {
    /// The labels that are injected into the samples of one pod. `pod_labels` are the tenant's.
    pub fn of_pod(&self, pod_labels: &[String], pod: &str, instance: &str) -> Result<TargetLabels, LabelError> {
        let identity = PodIdentity {
            pod,
            namespace: &self.namespace,
            job: &self.job,
            service: &self.service,
            endpoint: &self.endpoint,
            instance,
        };
        TargetLabels::of_pod(pod_labels.iter().map(String::as_str), identity)
    }
}

impl Relabeling {
    /// The rule in the codec's words.
    pub fn to_rule(&self) -> Rule {
        let action = match self.action {
            RelabelAction::Keep => Action::Keep,
            RelabelAction::Drop => Action::Drop,
        };
        Rule {
            action,
            source_labels: self.source_labels.clone(),
            separator: self.separator.clone(),
            regex: self.regex.clone(),
        }
    }
}

impl From<ComponentLimits> for Limits {
    fn from(limits: ComponentLimits) -> Self {
        Self {
            // What was parsed is below 4 GiB.
            line_bytes: u32::try_from(limits.line_bytes.0).unwrap_or(u32::MAX),
            body_bytes: limits.body_bytes.0,
            samples: limits.samples,
        }
    }
}

impl Scheme {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_https(&self) -> bool {
        *self == Self::Https
    }
}

impl Default for ComponentLimits {
    fn default() -> Self {
        let line_bytes = ByteSize(Limits::LINE_BYTES.into());
        Self { body_bytes: ByteSize(256 << 20), line_bytes, samples: 0 }
    }
}

impl Serialize for Port {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Name(name) => serializer.serialize_str(name),
            Self::Number(number) => serializer.serialize_u16(*number),
        }
    }
}

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PortVisitor;
        impl Visitor<'_> for PortVisitor {
            type Value = Port;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port's name, \"\" for the one without a name, or its number")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Port, E> {
                Ok(Port::Name(name.into()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Port, E> {
                let number = u16::try_from(number).ok().filter(|number| *number > 0);
                number.map(Port::Number).ok_or_else(|| E::custom("a port's number is between 1 and 65535"))
            }
        }
        deserializer.deserialize_any(PortVisitor)
    }
}

/// Components by name, where the same name twice is an error and not the loss of one of them.
pub(crate) fn unique_names<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Component>, D::Error> {
    struct Unique;
    impl<'de> Visitor<'de> for Unique {
        type Value = BTreeMap<String, Component>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("components by name")
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut components = BTreeMap::new();
            while let Some(name) = map.next_key::<String>()? {
                if components.contains_key(&name) {
                    return Err(de::Error::custom(format_args!("component {name:?} stands twice")));
                }
                components.insert(name, map.next_value()?);
            }
            Ok(components)
        }
    }
    deserializer.deserialize_map(Unique)
}

fn metrics_path() -> String {
    "/metrics".into()
}

fn is_metrics_path(path: &str) -> bool {
    path == metrics_path()
}

fn separator() -> String {
    ";".into()
}

fn is_separator(text: &str) -> bool {
    text == separator()
}

/// Prometheus' default.
fn any() -> String {
    "(.*)".into()
}

/// Prometheus' default scrape timeout.
fn timeout() -> Span {
    Span::seconds(10)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn is_default_limits(limits: &ComponentLimits) -> bool {
    *limits == ComponentLimits::default()
}
