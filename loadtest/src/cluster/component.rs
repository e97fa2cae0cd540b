//! The components of a control plane, as HyperShift has them: how pods are found, trusted and labelled.

/// What is the same of a component in all clusters.
#[derive(Debug)]
pub(super) struct Component {
    /// In the path `/metrics/<name>`, and in the names of its pods.
    pub(super) name: &'static str,
    /// How many pods there are in a cluster that is highly available.
    pub(super) pods: usize,
    pub(super) found_by: FoundBy,
    pub(super) trust: Trust,
    /// The name in its certificates.
    pub(super) server_name: &'static str,
    pub(super) labels: Labels,
}

/// How the configuration says which pods they are.
#[derive(Clone, Copy, Debug)]
pub(super) enum FoundBy {
    /// By the slices of a Service: a ServiceMonitor.
    Service(&'static str, Port),
    /// By the label `app`, over the container's port `metrics`: a PodMonitor.
    AppLabel,
}

/// How the configuration says which port of the slice it is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Port {
    Named(&'static str),
    /// The Service has one port, without a name.
    Unnamed,
    Number,
}

/// Who signs, and who must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The cluster's root CA, for both sides.
    Mutual,
    /// etcd's own CA, for both sides.
    MutualEtcd,
    /// The cluster's root CA, for the pod alone.
    ServerOnly,
    /// Plain HTTP.
    Nobody,
}

/// What a standalone cluster's target would have.
#[derive(Debug)]
pub(super) struct Labels {
    pub(super) job: &'static str,
    pub(super) namespace: &'static str,
    pub(super) service: &'static str,
    pub(super) endpoint: &'static str,
}

const fn labels(job: &'static str, namespace: &'static str, service: &'static str, endpoint: &'static str) -> Labels {
    Labels { job, namespace, service, endpoint }
}

/// The ten of the enhancement, kube-scheduler, which HyperShift has added since, and cluster-autoscaler as the one with a
/// PodMonitor and without TLS.
pub(super) const COMPONENTS: [Component; 12] = [
    Component {
        name: "kube-apiserver",
        pods: 3,
        found_by: FoundBy::Service("kube-apiserver", Port::Unnamed),
        trust: Trust::Mutual,
        server_name: "kube-apiserver",
        labels: labels("apiserver", "default", "kubernetes", "https"),
    },
    Component {
        name: "etcd",
        pods: 3,
        found_by: FoundBy::Service("etcd-client", Port::Named("metrics")),
        trust: Trust::MutualEtcd,
        server_name: "etcd-client",
        labels: labels("etcd", "openshift-etcd", "etcd", "etcd-metrics"),
    },
    Component {
        name: "kube-controller-manager",
        pods: 2,
        found_by: FoundBy::Service("kube-controller-manager", Port::Named("client")),
        trust: Trust::Mutual,
        server_name: "kube-controller-manager",
        labels: labels(
            "kube-controller-manager",
            "openshift-kube-controller-manager",
            "kube-controller-manager",
            "https",
        ),
    },
    Component {
        name: "kube-scheduler",
        pods: 2,
        found_by: FoundBy::Service("kube-scheduler", Port::Named("client")),
        trust: Trust::Mutual,
        server_name: "kube-scheduler",
        labels: labels("kube-scheduler", "openshift-kube-scheduler", "kube-scheduler", "https"),
    },
    Component {
        name: "openshift-apiserver",
        pods: 3,
        found_by: FoundBy::Service("openshift-apiserver", Port::Named("https")),
        trust: Trust::Mutual,
        server_name: "openshift-apiserver",
        labels: labels("api", "openshift-apiserver", "api", "https"),
    },
    Component {
        name: "openshift-controller-manager",
        pods: 2,
        found_by: FoundBy::Service("openshift-controller-manager", Port::Named("https")),
        trust: Trust::Mutual,
        server_name: "openshift-controller-manager",
        labels: labels("controller-manager", "openshift-controller-manager", "controller-manager", "https"),
    },
    Component {
        name: "openshift-route-controller-manager",
        pods: 2,
        found_by: FoundBy::Service("openshift-route-controller-manager", Port::Named("https")),
        trust: Trust::Mutual,
        // It has the other's certificate.
        server_name: "openshift-controller-manager",
        labels: labels(
            "route-controller-manager",
            "openshift-route-controller-manager",
            "route-controller-manager",
            "https",
        ),
    },
    Component {
        name: "cluster-version-operator",
        pods: 1,
        found_by: FoundBy::Service("cluster-version-operator", Port::Named("https")),
        trust: Trust::ServerOnly,
        server_name: "cluster-version-operator",
        labels: labels("cluster-version-operator", "openshift-cluster-version", "cluster-version-operator", "metrics"),
    },
    Component {
        name: "olm-operator",
        pods: 1,
        found_by: FoundBy::Service("olm-operator-metrics", Port::Named("metrics")),
        trust: Trust::Mutual,
        server_name: "olm-operator-metrics",
        labels: labels(
            "olm-operator-metrics",
            "openshift-operator-lifecycle-manager",
            "olm-operator-metrics",
            "https-metrics",
        ),
    },
    Component {
        name: "catalog-operator",
        pods: 1,
        found_by: FoundBy::Service("catalog-operator-metrics", Port::Named("metrics")),
        trust: Trust::Mutual,
        server_name: "catalog-operator-metrics",
        labels: labels(
            "catalog-operator-metrics",
            "openshift-operator-lifecycle-manager",
            "catalog-operator-metrics",
            "https-metrics",
        ),
    },
    Component {
        name: "node-tuning-operator",
        pods: 1,
        found_by: FoundBy::Service("node-tuning-operator", Port::Number),
        trust: Trust::Mutual,
        server_name: "node-tuning-operator",
        labels: labels(
            "node-tuning-operator",
            "openshift-cluster-node-tuning-operator",
            "node-tuning-operator",
            "60000",
        ),
    },
    Component {
        name: "cluster-autoscaler",
        pods: 1,
        found_by: FoundBy::AppLabel,
        trust: Trust::Nobody,
        server_name: "",
        labels: labels("cluster-autoscaler", "kube-system", "cluster-autoscaler", "metrics"),
    },
];
