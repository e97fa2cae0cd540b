//! What the server says of itself: discovery and version.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::resource::{Registry, Resource};

/// The document at a path; none if there is none. `aggregated`: all groups with their resources at once.
pub(super) fn document(path: &str, aggregated: bool, registry: &Registry) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["version"] => Some(version()),
        ["api"] if aggregated => Some(aggregate(registry, str::is_empty)),
        ["apis"] if aggregated => Some(aggregate(registry, |group| !group.is_empty())),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:443"}]})),
        ["apis"] => {
            let groups: Vec<Value> = groups(registry)
                .iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, of)| group(name, of))
                .collect();
            Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        ["api", version] => resources("", version, registry),
        ["apis", name] => {
            let mut document = group(name, groups(registry).get(*name)?);
            document["kind"] = json!("APIGroup");
            document["apiVersion"] = json!("v1");
            Some(document)
        }
        ["apis", group, version] => resources(group, version, registry),
        _ => None,
    }
}

/// The resources that are only written to, by group version, name and kind.
const VIRTUAL: (&str, &str, &str, &str) = ("authentication.k8s.io", "v1", "tokenreviews", "TokenReview");

fn version() -> Value {
    json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0", "gitCommit": "0", "gitTreeState": "clean",
        "buildDate": "2025-04-23T13:00:00Z", "goVersion": "go1.24.2", "compiler": "gc", "platform": "linux/amd64"})
}

/// The versions of each group.
fn groups(registry: &Registry) -> BTreeMap<String, Vec<String>> {
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    groups.insert(VIRTUAL.0.into(), vec![VIRTUAL.1.into()]);
    for resource in registry.all() {
        let versions = groups.entry(resource.group.clone()).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
    }
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let version = |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let versions: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": name, "preferredVersion": versions[0], "versions": versions})
}

fn resources(group: &str, version: &str, registry: &Registry) -> Option<Value> {
    let mut resources = Vec::new();
    for resource in registry.all().iter().filter(|r| r.group == group && r.version == version) {
        resources.push(json!({"name": resource.plural, "singularName": singular(resource), "kind": resource.kind,
            "namespaced": resource.namespaced, "verbs": VERBS}));
        if resource.status {
            resources.push(json!({"name": format!("{}/status", resource.plural), "singularName": "",
                "kind": resource.kind, "namespaced": resource.namespaced, "verbs": STATUS_VERBS}));
        }
        if resource.kind == "ServiceAccount" {
            resources.push(json!({"name": "serviceaccounts/token", "singularName": "", "namespaced": true,
                "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest", "verbs": ["create"]}));
        }
    }
    if (group, version) == (VIRTUAL.0, VIRTUAL.1) {
        resources.push(json!({"name": VIRTUAL.2, "singularName": "tokenreview", "kind": VIRTUAL.3,
            "namespaced": false, "verbs": ["create"]}));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    (!resources.is_empty()).then(|| {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources})
    })
}

fn aggregate(registry: &Registry, wanted: impl Fn(&str) -> bool) -> Value {
    let resource = |resource: &Resource| {
        let kind = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
        let mut shown = json!({"resource": resource.plural, "responseKind": kind, "verbs": VERBS,
            "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "singularResource": singular(resource)});
        if resource.status {
            shown["subresources"] = json!([{"subresource": "status", "responseKind": kind, "verbs": STATUS_VERBS}]);
        }
        shown
    };
    let version = |group: &str, version: &str| {
        let of = registry.all().iter().filter(|r| r.group == group && r.version == version);
        json!({"version": version, "freshness": "Current", "resources": of.map(|r| resource(r)).collect::<Vec<_>>()})
    };
    let groups = groups(registry);
    let items = groups.iter().filter(|(group, _)| wanted(group)).map(|(group, versions)| {
        let versions: Vec<Value> = versions.iter().map(|known| version(group, known)).collect();
        json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
    });
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": items.collect::<Vec<_>>()})
}

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

fn singular(resource: &Resource) -> String {
    resource.kind.to_lowercase()
}
