//! HyperShift's metrics sets (`support/metrics/sets.go`), as rules on samples.

use super::options::MetricsSet;

/// A rule: what matches is dropped, or all else is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) action: Action,
    /// The labels whose values, joined by semicolons, must match as a whole.
    pub(super) source_labels: &'static [&'static str],
    pub(super) regex: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Keep,
    Drop,
}

/// The rules of a component.
pub(super) fn rules(set: MetricsSet, component: &str) -> Vec<Rule> {
    match set {
        MetricsSet::All => all(component),
        MetricsSet::Telemetry => telemetry(component),
        MetricsSet::Everything => Vec::new(),
    }
}

const NAME: &[&str] = &["__name__"];
const ETCD_CLIENT: &str = "etcd_(debugging|disk|server).*";
const ETCD_REQUESTS: &str = "etcd_(debugging|disk|request|server).*";
/// Of the apiserver's many buckets every other.
const BUCKETS: &str = r"apiserver_request_duration_seconds_bucket;(0.15|0.25|0.3|0.35|0.4|0.45|0.6|0.7|0.8|0.9|1.25|1.5|1.75|2.5|3|3.5|4.5|6|7|8|9|15|25|30|50)(\.0)?";

/// What both API servers drop.
const API_SERVERS: [&str; 3] = [
    ETCD_CLIENT,
    "apiserver_admission_controller_admission_latencies_seconds_.*",
    "apiserver_admission_step_admission_latencies_seconds_.*",
];

/// What kube-apiserver drops beside.
const KUBE_API_SERVER: [&str; 7] = [
    "scheduler_(e2e_scheduling_latency_microseconds|scheduling_algorithm_predicate_evaluation|scheduling_algorithm_priority_evaluation|scheduling_algorithm_preemption_evaluation|scheduling_algorithm_latency_microseconds|binding_latency_microseconds|scheduling_latency_seconds)",
    "apiserver_(request_count|request_latencies|request_latencies_summary|dropped_requests|storage_data_key_generation_latencies_microseconds|storage_transformation_failures_total|storage_transformation_latencies_microseconds|proxy_tunnel_sync_latency_secs)",
    "docker_(operations|operations_latency_microseconds|operations_errors|operations_timeout)",
    "reflector_(items_per_list|items_per_watch|list_duration_seconds|lists_total|short_watches_total|watch_duration_seconds|watches_total)",
    "etcd_(helper_cache_hit_count|helper_cache_miss_count|helper_cache_entry_count|request_cache_get_latencies_summary|request_cache_add_latencies_summary|request_latencies_summary)",
    "transformation_(transformation_latencies_microseconds|failures_total)",
    "network_plugin_operations_latency_microseconds|sync_proxy_rules_latency_microseconds|rest_client_request_latency_seconds",
];

fn all(component: &str) -> Vec<Rule> {
    let drop = |regex| Rule { action: Action::Drop, source_labels: NAME, regex };
    let buckets = Rule { action: Action::Drop, source_labels: &["__name__", "le"], regex: BUCKETS };
    let names: &[&'static str] = match component {
        "kube-apiserver" | "openshift-apiserver" => &API_SERVERS,
        "kube-controller-manager" => &[
            ETCD_REQUESTS,
            "rest_client_request_latency_seconds_(bucket|count|sum)",
            "root_ca_cert_publisher_sync_duration_seconds_(bucket|count|sum)",
        ],
        "openshift-controller-manager" | "openshift-route-controller-manager" => &[ETCD_REQUESTS],
        "cluster-version-operator" | "olm-operator" | "catalog-operator" => &[ETCD_CLIENT],
        _ => &[],
    };
    let mut rules: Vec<Rule> = names.iter().map(|regex| drop(regex)).collect();
    if component == "kube-apiserver" {
        rules.extend(KUBE_API_SERVER.map(drop));
    }
    if names == API_SERVERS {
        rules.push(buckets);
    }
    rules
}

fn telemetry(component: &str) -> Vec<Rule> {
    let (action, regex) = match component {
        "cluster-version-operator" => (
            Action::Keep,
            "(cluster_version|cluster_version_available_updates|cluster_operator_up|cluster_operator_conditions|cluster_version_payload|cluster_installer)",
        ),
        "etcd" => (
            Action::Keep,
            "(etcd_disk_wal_fsync_duration_seconds_bucket|etcd_mvcc_db_total_size_in_bytes|etcd_network_peer_round_trip_time_seconds_bucket|etcd_mvcc_db_total_size_in_use_in_bytes|etcd_disk_backend_commit_duration_seconds_bucket|etcd_server_leader_changes_seen_total)",
        ),
        "kube-apiserver" | "openshift-apiserver" => {
            (Action::Keep, "(apiserver_storage_objects|apiserver_request_total|apiserver_current_inflight_requests)")
        }
        "kube-controller-manager" => (Action::Keep, "pv_collector_total_pv_count"),
        "openshift-controller-manager" => (Action::Keep, "openshift_build_status_phase_total"),
        "olm-operator" => (Action::Keep, "(csv_succeeded|csv_abnormal)"),
        "catalog-operator" => (Action::Keep, "(subscription_sync_total|olm_resolution_duration_seconds)"),
        "node-tuning-operator" => (Action::Keep, "nto_profile_calculated_total"),
        "kube-scheduler" | "openshift-route-controller-manager" => (Action::Drop, ".*"),
        _ => return Vec::new(),
    };
    vec![Rule { action, source_labels: NAME, regex }]
}
