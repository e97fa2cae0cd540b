//! What a path and a method ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;

use super::resource::{Registry, Resource};

/// The part of a path behind group and version.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    /// Empty for cluster-scoped objects and for all namespaces.
    pub(super) namespace: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

impl Target {
    /// The target of a path; none if no such resource is served.
    pub(super) fn of(path: &str, registry: &Registry) -> Option<Self> {
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        // `namespaces/NAME/status` is about the Namespace; any other third part is a resource in it.
        let (namespace, rest) = match rest {
            ["namespaces", _, "status" | "finalize", ..] => ("", rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource] => (plural, Some(name), Some(subresource)),
            _ => return None,
        };
        let resource = registry.by_path(group, version, plural)?;
        let misplaced =
            if resource.namespaced { namespace.is_empty() && name.is_some() } else { !namespace.is_empty() };
        let owned = |text: Option<&&str>| text.map(|text| (*text).to_owned());
        let target = Self { resource, namespace: namespace.into(), name: owned(name), subresource: owned(subresource) };
        (!misplaced).then_some(target)
    }

    /// The name in logs and counts: `pods`, `pods/status`.
    pub(super) fn resource_name(&self) -> String {
        match &self.subresource {
            Some(subresource) => format!("{}/{subresource}", self.resource.plural),
            None => self.resource.plural.clone(),
        }
    }
}

/// The verb of Kubernetes that a request is.
pub(super) fn verb(method: &Method, named: bool, query: &Query) -> &'static str {
    match (method.as_str(), named) {
        ("GET", _) if query.flag("watch") => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}

/// The parameters of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
        };
        Self(query.split('&').filter(|part| !part.is_empty()).map(pair).collect())
    }

    /// A parameter that is there and not empty: Kubernetes takes an empty one for none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Go's idea of a true boolean; a bare `watch` is one, too.
    pub(super) fn flag(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| matches!(value.as_str(), "" | "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// Whether it was said at all, true or not.
    pub(super) fn says(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

/// Percent decoding; what is no escape stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut place = 0;
    while place < bytes.len() {
        let escape = text.get(place + 1..place + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[place], escape) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                place += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                place += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn target(path: &str) -> Option<(String, String, Option<String>, Option<String>)> {
        let target = Target::of(path, &Registry::default())?;
        Some((target.resource.qualified(), target.namespace, target.name, target.subresource))
    }

    #[test]
    fn paths_name_collections_objects_and_subresources() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(target("/api/v1/pods"), Some(("pods".into(), String::new(), None, None)));
        assert_eq!(target("/api/v1/namespaces/a/pods"), Some(("pods".into(), "a".into(), None, None)));
        assert_eq!(target("/api/v1/namespaces/a"), Some(("namespaces".into(), String::new(), some("a"), None)));
        assert_eq!(
            target("/api/v1/namespaces/a/status"),
            Some(("namespaces".into(), String::new(), some("a"), some("status")))
        );
        let slice = target("/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/x%2Dy");
        assert_eq!(slice, Some(("endpointslices.discovery.k8s.io".into(), "a".into(), some("x-y"), None)));
    }

    #[test]
    fn paths_to_nowhere_name_nothing() {
        for path in
            ["/", "/api/v1", "/api/v2/pods", "/api/v1/pods/x", "/api/v1/gadgets", "/api/v1/namespaces/a/nodes", "/x/y"]
        {
            assert_eq!(target(path), None, "{path}");
        }
    }

    #[test]
    fn an_empty_parameter_is_none() {
        let query = Query::parse("resourceVersion=&labelSelector=a%3Db%2Cc+in+%28d%29&watch=true&force=false");
        assert_eq!(query.get("resourceVersion"), None);
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch") && !query.flag("force") && query.says("force"));
    }
}
