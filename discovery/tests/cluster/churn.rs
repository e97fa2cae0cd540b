//! Objects, queries and troubles in any order: in the end the targets are what the cluster says.

use std::collections::BTreeMap;

use crate::support::{Cluster, etcd_in};
use sluice_discovery::Targets;

const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Numbers that look like chance and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[tokio::test]
async fn whatever_happens_the_targets_come_out_right() {
    for seed in 0..6 {
        let cluster = Cluster::start().await;
        let mut dice = Dice(seed);
        let mut asked: BTreeMap<&str, Targets> = BTreeMap::new();
        let discovery = cluster.discovery_of_all();
        for step in 0..400 {
            let namespace = NAMESPACES[dice.roll(3)];
            let name = NAMES[dice.roll(4)];
            match dice.roll(40) {
                0 => cluster.api.drop_watches(),
                1 => cluster.api.end_watches(),
                2 => cluster.api.expire_watches(),
                3 => cluster.api.compact(),
                4..8 => drop(asked.remove(namespace)),
                8..14 => drop(asked.insert(namespace, discovery.targets(etcd_in(namespace)))),
                14..24 => drop(cluster.api.delete("discovery.k8s.io/v1", "EndpointSlice", namespace, name)),
                _ => cluster.apply_etcd_in(namespace, name, &[(&format!("{name}-{step}"), 1)]),
            }
            if dice.roll(4) == 0 {
                // Let the watches run a little, each time for another while.
                for _ in 0..dice.roll(50) {
                    tokio::task::yield_now().await;
                }
            }
        }
        for namespace in NAMESPACES {
            let targets = asked.entry(namespace).or_insert_with(|| discovery.targets(etcd_in(namespace)));
            let slices = cluster.api.list("discovery.k8s.io/v1", "EndpointSlice", Some(namespace));
            let pod =
                |slice: &serde_json::Value| slice["endpoints"][0]["targetRef"]["name"].as_str().unwrap().to_owned();
            let mut expected: Vec<_> = slices.iter().map(pod).collect();
            expected.sort();
            let expected: Vec<_> = expected.iter().map(String::as_str).collect();
            cluster.wait_for_pods(targets, &expected).await;
        }
    }
}
