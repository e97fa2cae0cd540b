//! Bodies for components of which there is no capture: what such a Go program shows, and what marks this one.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;

/// A valid body, families sorted, for the component of this name: what every Go program and every Kubernetes client
/// shows, and the few families by which people know this component. An unknown component has the former only.
///
/// It has at least `samples` samples, and no more than a histogram above that, unless its families alone have more.
pub fn plausible(component: &str, samples: usize) -> Bytes {
    let mut families = Families::default();
    add_process(&mut families);
    add_client(&mut families);
    add_characteristic(&mut families, component);
    let mut queue = 0;
    while queue == 0 || families.samples < samples {
        add_workqueue(&mut families, &queue_name(component, queue));
        queue += 1;
    }
    families.written()
}

#[derive(Default)]
struct Families {
    by_name: BTreeMap<String, Family>,
    samples: usize,
}

struct Family {
    kind: &'static str,
    help: String,
    lines: String,
}

impl Families {
    fn family(&mut self, name: &str, kind: &'static str, help: &str) -> &mut Family {
        self.by_name.entry(name.to_owned()).or_insert_with(|| Family {
            kind,
            help: help.to_owned(),
            lines: String::new(),
        })
    }

    /// One sample of a gauge or counter; `labels` as they stand between the braces, or nothing.
    fn add(&mut self, name: &str, kind: &'static str, help: &str, labels: &str, value: f64) {
        let family = self.family(name, kind, help);
        let series = if labels.is_empty() { name.to_owned() } else { format!("{name}{{{labels}}}") };
        writeln!(family.lines, "{series} {value}").expect("a string takes it");
        self.samples += 1;
    }

    fn gauge(&mut self, name: &str, help: &str, labels: &str, value: f64) {
        self.add(name, "gauge", help, labels, value);
    }

    fn counter(&mut self, name: &str, help: &str, labels: &str, value: f64) {
        self.add(name, "counter", help, labels, value);
    }

    /// One histogram of `count` observations, spread evenly over its buckets; `labels` must not be empty.
    fn histogram(&mut self, name: &str, help: &str, labels: &str, count: u32) {
        const BOUNDS: [&str; 8] = ["0.005", "0.025", "0.1", "0.5", "1", "2", "10", "+Inf"];
        let lines = &mut self.family(name, "histogram", help).lines;
        for (place, bound) in (1u32..).zip(BOUNDS) {
            let below = count * place / BOUNDS.len() as u32;
            writeln!(lines, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}").expect("a string takes it");
        }
        writeln!(lines, "{name}_sum{{{labels}}} {}", f64::from(count) * 0.37).expect("a string takes it");
        writeln!(lines, "{name}_count{{{labels}}} {count}").expect("a string takes it");
        self.samples += BOUNDS.len() + 2;
    }

    fn written(self) -> Bytes {
        let mut body = String::new();
        for (name, Family { kind, help, lines }) in self.by_name {
            write!(body, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}").expect("a string takes it");
        }
        body.into()
    }
}

fn add_process(families: &mut Families) {
    families.counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "", 41.37);
    families.gauge("process_max_fds", "Maximum number of open file descriptors.", "", 1_048_576.0);
    families.gauge("process_open_fds", "Number of open file descriptors.", "", 23.0);
    families.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", "", 78_540_800.0);
    families.gauge("process_start_time_seconds", "Start time since unix epoch in seconds.", "", 1_794_786_106.81);
    families.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", "", 1_374_896_128.0);
    families.gauge("go_goroutines", "Number of goroutines that currently exist.", "", 214.0);
    families.gauge("go_info", "Information about the Go environment.", "version=\"go1.24.4\"", 1.0);
    families.gauge("go_threads", "Number of OS threads created.", "", 14.0);
    let allocated = "Number of bytes allocated in heap and currently in use.";
    families.gauge("go_memstats_alloc_bytes", allocated, "", 31_457_280.0);
    let quantiles = [("0", 3.1e-5), ("0.25", 4.6e-5), ("0.5", 6.9e-5), ("0.75", 1.2e-4), ("1", 9.8e-4)];
    let pauses = "A summary of the wall-time pause (stop-the-world) duration in garbage collection cycles.";
    for (quantile, value) in quantiles {
        let labels = format!("quantile=\"{quantile}\"");
        families.add("go_gc_duration_seconds", "summary", pauses, &labels, value);
    }
    let lines = &mut families.family("go_gc_duration_seconds", "summary", pauses).lines;
    lines.push_str("go_gc_duration_seconds_sum 0.0721\ngo_gc_duration_seconds_count 604\n");
    families.samples += 2;
}

fn add_client(families: &mut Families) {
    const HOST: &str = "kube-apiserver.clusters-demo.svc:6443";
    let requests = "Number of HTTP requests, partitioned by status code, method, and host.";
    for (code, method, count) in [
        ("200", "GET", 5120.0),
        ("200", "PUT", 818.0),
        ("201", "POST", 97.0),
        ("404", "GET", 12.0),
        ("409", "PUT", 3.0),
    ] {
        let labels = format!("code=\"{code}\",host=\"{HOST}\",method=\"{method}\"");
        families.counter("rest_client_requests_total", requests, &labels, count);
    }
    for verb in ["GET", "POST", "PUT"] {
        let labels = format!("host=\"{HOST}\",verb=\"{verb}\"");
        families.histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            &labels,
            960,
        );
    }
}

fn add_workqueue(families: &mut Families, queue: &str) {
    let labels = format!("name=\"{queue}\"");
    families.counter("workqueue_adds_total", "Total number of adds handled by workqueue", &labels, 733.0);
    families.gauge("workqueue_depth", "Current depth of workqueue", &labels, 0.0);
    families.counter("workqueue_retries_total", "Total number of retries handled by workqueue", &labels, 9.0);
    let waited = "How long in seconds an item stays in workqueue before being requested.";
    families.histogram("workqueue_queue_duration_seconds", waited, &labels, 733);
    let worked = "How long in seconds processing an item from workqueue takes.";
    families.histogram("workqueue_work_duration_seconds", worked, &labels, 733);
}

fn queue_name(component: &str, number: usize) -> String {
    // Padded, so that the order of numbers is also the order of names.
    format!("{component}-{number:05}")
}

fn add_characteristic(families: &mut Families, component: &str) {
    match component {
        "openshift-apiserver" => {
            let inflight =
                "Maximal number of currently used inflight request limit of this apiserver per request kind.";
            families.gauge("apiserver_current_inflight_requests", inflight, "request_kind=\"mutating\"", 0.0);
            families.gauge("apiserver_current_inflight_requests", inflight, "request_kind=\"readOnly\"", 2.0);
            let requests = "Counter of apiserver requests broken out for each verb, resource and HTTP response code.";
            for (resource, group) in [
                ("builds", "build.openshift.io"),
                ("imagestreams", "image.openshift.io"),
                ("routes", "route.openshift.io"),
                ("templates", "template.openshift.io"),
            ] {
                for verb in ["GET", "LIST", "WATCH"] {
                    let labels = format!(
                        "code=\"200\",component=\"openshift-apiserver\",group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\",version=\"v1\""
                    );
                    families.counter("apiserver_request_total", requests, &labels, 311.0);
                    let labels = format!("group=\"{group}\",resource=\"{resource}\",verb=\"{verb}\"");
                    families.histogram(
                        "apiserver_request_duration_seconds",
                        "Response latency distribution in seconds for each verb and resource.",
                        &labels,
                        311,
                    );
                }
                let objects = "Number of stored objects at the time of last check split by kind.";
                let labels = format!("resource=\"{resource}.{group}\"");
                families.gauge("apiserver_storage_objects", objects, &labels, 57.0);
            }
        }
        "openshift-controller-manager" => {
            let builds = "Total number of builds by phase.";
            for (phase, count) in [("Cancelled", 1.0), ("Complete", 214.0), ("Failed", 5.0)] {
                let labels = format!("phase=\"{phase}\",strategy=\"source\"");
                families.counter("openshift_build_status_phase_total", builds, &labels, count);
            }
        }
        "openshift-route-controller-manager" => {
            let unmanaged = "Number of routes the controller found that it does not manage.";
            families.gauge("openshift_ingress_to_route_controller_route_with_unmanaged_owner", unmanaged, "", 0.0);
        }
        "cluster-version-operator" => add_cluster_version(families),
        "olm-operator" => {
            for (name, version, succeeded) in [
                ("loki-operator", "6.3.0", 1.0),
                ("packageserver", "0.0.1-snapshot", 1.0),
                ("web-terminal", "1.13.0", 0.0),
            ] {
                let labels =
                    format!("name=\"{name}.v{version}\",namespace=\"openshift-operators\",version=\"{version}\"");
                families.gauge("csv_succeeded", "Successful CSV install", &labels, succeeded);
            }
            families.counter(
                "csv_abnormal",
                "CSV is not installed",
                "name=\"web-terminal.v1.13.0\",namespace=\"openshift-operators\",phase=\"Failed\",reason=\"ComponentUnhealthy\",version=\"1.13.0\"",
                1.0,
            );
            families.gauge("csv_count", "Number of CSVs successfully registered", "", 3.0);
        }
        "catalog-operator" => {
            families.counter(
                "subscription_sync_total",
                "Monotonic count of subscription syncs",
                "approval=\"Automatic\",channel=\"stable-6.3\",installed=\"loki-operator.v6.3.0\",name=\"loki-operator\",package=\"loki-operator\"",
                28.0,
            );
            families.histogram(
                "olm_resolution_duration_seconds",
                "The duration of a dependency resolution attempt",
                "outcome=\"succeeded\"",
                31,
            );
            families.gauge(
                "catalogsource_ready",
                "State of a CatalogSource. 1 indicates that the CatalogSource is in a READY state.",
                "name=\"redhat-operators\",namespace=\"openshift-marketplace\"",
                1.0,
            );
        }
        "node-tuning-operator" => {
            for (node, profile) in [("worker-0", "openshift-node"), ("worker-1", "openshift-node-performance")] {
                let labels = format!("node=\"{node}\",profile=\"{profile}\"");
                let calculated = "The number of times a Tuned profile was calculated for a given node.";
                families.counter("nto_profile_calculated_total", calculated, &labels, 4.0);
            }
            families.gauge("nto_build_info", "Build information.", "version=\"v4.21.0\"", 1.0);
        }
        _ => {}
    }
}

fn add_cluster_version(families: &mut Families) {
    const VERSION: &str = "4.21.0";
    for kind in ["cluster", "completed", "current", "initial"] {
        families.gauge(
            "cluster_version",
            "Reports the version of the cluster in terms of seconds since the epoch.",
            &format!(
                "from_version=\"\",image=\"quay.io/openshift-release-dev/ocp-release@sha256:6f1c\",type=\"{kind}\",version=\"{VERSION}\""
            ),
            1_794_700_000.0,
        );
    }
    let updates = "Report the count of available versions for an upstream and channel.";
    let upstream = "channel=\"stable-4.21\",upstream=\"<default>\"";
    families.gauge("cluster_version_available_updates", updates, upstream, 2.0);
    for (kind, count) in [("applied", 812.0), ("pending", 0.0)] {
        let labels = format!("type=\"{kind}\",version=\"{VERSION}\"");
        families.gauge("cluster_version_payload", "Report the number of entries in the payload.", &labels, count);
    }
    let installer = "Reports info about the installation process and, if applicable, the install tool.";
    families.gauge("cluster_installer", installer, "invoker=\"hypershift\",type=\"other\",version=\"\"", 1.0);
    for operator in ["console", "dns", "image-registry", "ingress", "insights", "monitoring", "network", "storage"] {
        families.gauge(
            "cluster_operator_up",
            "1 if a cluster operator is Available=True. 0 otherwise.",
            &format!("name=\"{operator}\",reason=\"AsExpected\",version=\"{VERSION}\""),
            1.0,
        );
        for (condition, value) in [("Available", 1.0), ("Degraded", 0.0), ("Progressing", 0.0), ("Upgradeable", 1.0)] {
            families.gauge(
                "cluster_operator_conditions",
                "Report the conditions for active cluster operators. 0 is False and 1 is True.",
                &format!("condition=\"{condition}\",name=\"{operator}\",reason=\"AsExpected\""),
                value,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::sample_lines;
    use crate::scraper::parse;

    const COMPONENTS: [(&str, &str); 7] = [
        ("openshift-apiserver", "apiserver_storage_objects"),
        ("openshift-controller-manager", "openshift_build_status_phase_total"),
        ("openshift-route-controller-manager", "openshift_ingress_to_route_controller_route_with_unmanaged_owner"),
        ("cluster-version-operator", "cluster_operator_up"),
        ("olm-operator", "csv_succeeded"),
        ("catalog-operator", "subscription_sync_total"),
        ("node-tuning-operator", "nto_profile_calculated_total"),
    ];

    #[test]
    fn each_component_has_what_marks_it_in_a_valid_sorted_body_of_the_wanted_size() {
        for (component, mark) in COMPONENTS {
            let body = plausible(component, 2000);
            let samples = parse(&body).expect("a valid body");
            assert_eq!(samples.len(), sample_lines(&body));
            assert!((2000..2100).contains(&samples.len()), "{component}: {}", samples.len());
            assert!(samples.iter().any(|sample| sample.name == mark), "{component} has {mark}");

            let text = std::str::from_utf8(&body).expect("UTF-8");
            let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
            assert!(types.is_sorted(), "{component}: families are sorted");
        }
    }
}
