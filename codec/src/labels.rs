//! The labels that every sample of one pod gets, escaped and joined once.

use thiserror::Error;

use crate::canonical::NameKey;
use crate::sample::is_legacy_label_name;
use crate::text;

/// Who a pod is, in the words a standalone cluster's Prometheus would use for its target.
#[derive(Clone, Copy, Debug)]
pub struct PodIdentity<'a> {
    /// The pod's name.
    pub pod: &'a str,
    /// The namespace the component has in a standalone cluster.
    pub namespace: &'a str,
    /// The scrape job.
    pub job: &'a str,
    /// The Service.
    pub service: &'a str,
    /// The Service's port name.
    pub endpoint: &'a str,
    /// `ip:port`, IPv6 in brackets.
    pub instance: &'a str,
}

/// The injected labels of one pod, in the order in which they are written; none by default.
#[derive(Clone, Debug, Default)]
pub struct TargetLabels {
    labels: Vec<TargetLabel>,
    /// `pod="…",namespace="…",…`: what is copied into every sample.
    text: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) struct TargetLabel {
    pub(crate) name: Box<str>,
    pub(crate) value: Box<str>,
    pub(crate) key: NameKey,
}

/// A label that cannot be injected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LabelError {
    /// Not a legacy label name, which is what every Prometheus reads.
    #[error("label name {0:?} must match [a-zA-Z_][a-zA-Z0-9_]*")]
    Name(String),
    /// A name that Prometheus or the exposition format has a use of its own for.
    #[error("label name {0:?} is reserved")]
    Reserved(String),
    /// The same name twice.
    #[error("label name {0:?} is given twice")]
    Duplicate(String),
    /// An empty value means "no such label" to Prometheus.
    #[error("label {0:?} has an empty value")]
    Empty(String),
}

impl TargetLabels {
    /// The labels of a standalone cluster's target. `pod_labels` are the names under which the pod's
    /// name is given, usually just `pod`.
    pub fn of_pod<'a>(
        pod_labels: impl IntoIterator<Item = &'a str>,
        identity: PodIdentity<'a>,
    ) -> Result<Self, LabelError> {
        let PodIdentity { pod, namespace, job, service, endpoint, instance } = identity;
        let rest = [
            ("namespace", namespace),
            ("job", job),
            ("service", service),
            ("endpoint", endpoint),
            ("instance", instance),
        ];
        Self::new(pod_labels.into_iter().map(|name| (name, pod)).chain(rest))
    }

    /// Any labels, in the order given; at least one is expected of a caller who wants to tell pods apart.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, LabelError> {
        let mut target = Self { labels: Vec::new(), text: Vec::new() };
        for (name, value) in pairs {
            if !is_legacy_label_name(name.as_bytes()) {
                return Err(LabelError::Name(name.into()));
            }
            // `component` and `proxy` are labels of the error counter already.
            if name.starts_with("__") || matches!(name, "le" | "quantile" | "component" | "proxy") {
                return Err(LabelError::Reserved(name.into()));
            }
            if target.get(name.as_bytes()).is_some() {
                return Err(LabelError::Duplicate(name.into()));
            }
            if value.is_empty() {
                return Err(LabelError::Empty(name.into()));
            }
            if !target.text.is_empty() {
                target.text.push(b',');
            }
            let label = TargetLabel { name: name.into(), value: value.into(), key: NameKey::of(name.as_bytes()) };
            label.write(&mut target.text);
            target.labels.push(label);
        }
        Ok(target)
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&TargetLabel> {
        self.labels.iter().find(|label| label.name.as_bytes() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TargetLabel> {
        self.labels.iter()
    }

    /// All of them, joined by commas; empty only if there are none.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

impl TargetLabel {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(b"=\"");
        text::escape_into(out, self.value.as_bytes());
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETCD: PodIdentity<'static> = PodIdentity {
        pod: "etcd-0",
        namespace: "openshift-etcd",
        job: "etcd",
        service: "etcd",
        endpoint: "etcd-metrics",
        instance: "[fd00::1]:9979",
    };

    #[test]
    fn the_six_labels_come_in_the_designs_order() {
        let labels = TargetLabels::of_pod(["pod"], ETCD).unwrap();
        assert_eq!(
            String::from_utf8_lossy(labels.text()),
            r#"pod="etcd-0",namespace="openshift-etcd",job="etcd",service="etcd",endpoint="etcd-metrics",instance="[fd00::1]:9979""#
        );
    }

    #[test]
    fn the_pods_name_may_go_by_two_names() {
        let labels = TargetLabels::of_pod(["pod", "source_pod"], ETCD).unwrap();
        assert!(labels.text().starts_with(br#"pod="etcd-0",source_pod="etcd-0",namespace="#));
    }

    #[test]
    fn values_are_escaped() {
        let labels = TargetLabels::new([("a", "x\\y\"z\nw")]).unwrap();
        assert_eq!(labels.text(), br#"a="x\\y\"z\nw""#);
    }

    #[test]
    fn what_cannot_be_injected_is_refused_by_name() {
        let error = |name, value| TargetLabels::new([("a", "1"), (name, value)]).unwrap_err();
        assert_eq!(error("a", "2"), LabelError::Duplicate("a".into()));
        assert_eq!(error("b", ""), LabelError::Empty("b".into()));
        for name in ["le", "quantile", "component", "proxy", "__name__", "__x"] {
            assert_eq!(error(name, "1"), LabelError::Reserved(name.into()));
        }
        for name in ["", "1a", "a:b", "a.b", "é"] {
            assert_eq!(error(name, "1"), LabelError::Name(name.into()));
        }
    }
}
