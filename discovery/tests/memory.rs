//! What is held of a cluster is what its targets are made of.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

#[path = "cluster/support.rs"]
mod support;

use serde_json::json;
use sluice_loadtest::api::{ApiOptions, pod};
use support::{Cluster, NAMESPACE, with_label};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Objects and bytes of a fat one's annotation and of its `managedFields`.
const PODS: usize = 100;
const FAT: usize = 20 << 10;

/// What may be held of a pod: name, address, port, a label, and its target.
const PER_POD: usize = 512;

/// Clients, connections and buffers on both sides of the watch, whatever they carry.
const FIXED: usize = 512 << 10;

#[tokio::test]
async fn fat_objects_leave_nothing_behind() {
    let _profiler = dhat::Profiler::builder().testing().build();
    // The server is not to remember old versions of objects, since it is measured with us.
    let cluster = Cluster::start_with(ApiOptions { history: 1, ..ApiOptions::default() }).await;
    let apply = |number: usize, address: &str| {
        let labels: Vec<_> = (0..20).map(|label| (format!("label-{label}"), "v".repeat(50))).collect();
        let mut labels: Vec<_> = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        labels.push(("app", "fat"));
        let mut pod = pod(NAMESPACE, &format!("pod-{number:03}"), &labels, address, &[("metrics", 8085)]);
        pod["metadata"]["annotations"] = json!({"fat": "x".repeat(FAT)});
        pod["metadata"]["managedFields"] = json!([{"manager": "y".repeat(FAT)}]);
        cluster.api.apply(pod);
    };
    for number in 0..PODS {
        apply(number, "10.0.0.1");
    }
    let before = dhat::HeapStats::get().curr_bytes;
    let discovery = cluster.discovery();
    let targets = discovery.targets(with_label("app", "fat"));
    cluster.api.wait_for_watches("pods", 1).await;
    // All of them once more, by the watch.
    for number in 0..PODS {
        apply(number, "10.0.0.2");
    }
    let all_moved = || targets.load().unwrap().iter().all(|target| target.address.ip().to_string() == "10.0.0.2");
    cluster.api.wait("all pods by their new address", all_moved).await;
    assert_eq!(targets.load().unwrap().len(), PODS);
    let held = dhat::HeapStats::get().curr_bytes.saturating_sub(before);
    assert!(held < FIXED + PODS * PER_POD, "{held} bytes are held of {} read", 2 * PODS * 2 * FAT);
}
