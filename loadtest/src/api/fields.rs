//! Sets of fields: the leaves of an object, and `fieldsV1` of `metadata.managedFields`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// A field by the steps to it, as in `fieldsV1`: `f:` a field, `k:` the item of a list by its keys, `v:` a value in a set.
pub(super) type Path = Vec<String>;

/// Fields somebody owns.
pub(super) type FieldSet = BTreeSet<Path>;

/// All leaves of an object that can be owned, with their values: what identifies the object and what the server keeps itself
/// cannot.
pub(super) fn leaves(object: &Value) -> BTreeMap<Path, Value> {
    let mut found = BTreeMap::new();
    collect(object, &mut Vec::new(), &mut found);
    found.retain(|path, _| !is_server_kept(path));
    found
}

fn is_server_kept(path: &Path) -> bool {
    const OF_METADATA: [&str; 11] = [
        "f:name",
        "f:namespace",
        "f:uid",
        "f:resourceVersion",
        "f:generation",
        "f:creationTimestamp",
        "f:deletionTimestamp",
        "f:deletionGracePeriodSeconds",
        "f:managedFields",
        "f:generateName",
        "f:selfLink",
    ];
    match path.first().map(String::as_str) {
        None | Some("f:apiVersion" | "f:kind") => true,
        Some("f:metadata") => path.get(1).is_none_or(|field| OF_METADATA.contains(&field.as_str())),
        _ => false,
    }
}

fn collect(value: &Value, path: &mut Path, found: &mut BTreeMap<Path, Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                path.push(format!("f:{name}"));
                collect(value, path, found);
                path.pop();
            }
        }
        Value::Array(items) if !items.is_empty() => match ListKind::of(path, items) {
            ListKind::Atomic => drop(found.insert(path.clone(), value.clone())),
            ListKind::Set => {
                for item in items {
                    path.push(format!("v:{item}"));
                    found.insert(path.clone(), item.clone());
                    path.pop();
                }
            }
            ListKind::Map(key) => {
                for item in items {
                    path.push(item_step(key, item));
                    // The item itself is owned, too; it has no value of its own that could differ.
                    found.insert(path.clone(), Value::Null);
                    collect(item, path, found);
                    path.pop();
                }
            }
        },
        _ => drop(found.insert(path.clone(), value.clone())),
    }
}

/// How a list is merged. There are no schemas here; these are the lists that several writers share in practice, and all
/// others are atomic as in a custom resource that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// One value.
    Atomic,
    /// Each item on its own.
    Set,
    /// Items by the value of this key.
    Map(&'static str),
}

impl ListKind {
    pub(super) fn of(path: &[String], items: &[Value]) -> Self {
        let pod = path.strip_prefix(&["f:spec".into(), "f:template".into()][..]).unwrap_or(path);
        let names: Vec<&str> = pod.iter().map(String::as_str).collect();
        let kind = match names.as_slice() {
            ["f:metadata", "f:finalizers"] => Self::Set,
            ["f:metadata", "f:ownerReferences"] => Self::Map("uid"),
            ["f:status", "f:conditions"] => Self::Map("type"),
            ["f:spec", "f:containers" | "f:initContainers" | "f:volumes"]
            | ["f:spec", "f:containers" | "f:initContainers", _, "f:env"] => Self::Map("name"),
            _ => Self::Atomic,
        };
        match kind {
            Self::Map(key) if items.iter().any(|item| !item[key].is_string()) => Self::Atomic,
            kind => kind,
        }
    }
}

pub(super) fn item_step(key: &str, item: &Value) -> String {
    format!("k:{}", json!({key: item[key]}))
}

/// Takes a field out of an object, and what is left empty by that.
pub(super) fn remove(object: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else { return };
    match (step.split_at(2), &mut *object) {
        (("f:", name), Value::Object(fields)) => {
            let Some(value) = fields.get_mut(name) else { return };
            if !rest.is_empty() {
                remove(value, rest);
            }
            if rest.is_empty() || is_empty(value) {
                fields.remove(name);
            }
        }
        (("k:", keys), Value::Array(items)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let wanted = |item: &Value| keys.iter().all(|(key, value)| item[key] == *value);
            let Some(place) = items.iter().position(wanted) else { return };
            if rest.is_empty() {
                items.remove(place);
            } else {
                remove(&mut items[place], rest);
            }
        }
        (("v:", value), Value::Array(items)) => {
            let value: Value = serde_json::from_str(value).unwrap_or_default();
            items.retain(|item| *item != value);
        }
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// As in `fieldsV1`.
pub(super) fn to_json(set: &FieldSet) -> Value {
    let mut tree = json!({});
    for path in set {
        let mut node = &mut tree;
        for step in path {
            node = &mut node[step.as_str()];
            if node.is_null() {
                *node = json!({});
            }
        }
        node["."] = json!({});
    }
    plain_leaves(&mut tree);
    tree
}

/// `{".": {}}` alone is written `{}`.
fn plain_leaves(node: &mut Value) {
    let Value::Object(children) = node else { return };
    for (step, child) in children.iter_mut().filter(|(step, _)| *step != ".") {
        debug_assert!(step.len() > 1, "steps have a prefix");
        plain_leaves(child);
    }
    if children.len() == 1 && children.contains_key(".") {
        children.clear();
    }
}

/// From `fieldsV1`.
pub(super) fn from_json(tree: &Value) -> FieldSet {
    let mut set = FieldSet::new();
    gather(tree, &mut Vec::new(), &mut set);
    set
}

fn gather(node: &Value, path: &mut Path, set: &mut FieldSet) {
    let children = node.as_object();
    if children.is_none_or(Map::is_empty) && !path.is_empty() {
        set.insert(path.clone());
    }
    for (step, child) in children.into_iter().flatten() {
        if step == "." {
            set.insert(path.clone());
        } else {
            path.push(step.clone());
            gather(child, path, set);
            path.pop();
        }
    }
}

/// As messages show it: `.spec.replicas`.
pub(super) fn display(path: &[String]) -> String {
    path.iter()
        .map(|step| match step.split_at(2) {
            ("f:", name) => format!(".{name}"),
            (_, other) => format!("[{other}]"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_the_way_through_json() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["b", "a"]},
            "spec": {"containers": [{"name": "c", "image": "i", "args": ["1"]}], "empty": {}},
        });
        let set: FieldSet = leaves(&object).into_keys().collect();
        let tree = to_json(&set);
        assert_eq!(
            tree,
            json!({
                "f:metadata": {"f:labels": {"f:x": {}}, "f:finalizers": {"v:\"a\"": {}, "v:\"b\"": {}}},
                "f:spec": {
                    "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:image": {}, "f:args": {}}},
                    "f:empty": {},
                },
            })
        );
        assert_eq!(from_json(&tree), set);
    }

    #[test]
    fn what_becomes_empty_goes_with_its_last_field() {
        let mut object = json!({"metadata": {"finalizers": ["a", "b"]}, "data": {"x": {"y": 1}}, "other": {}});
        remove(&mut object, &["f:data".into(), "f:x".into(), "f:y".into()]);
        remove(&mut object, &["f:metadata".into(), "f:finalizers".into(), "v:\"a\"".into()]);
        assert_eq!(object, json!({"metadata": {"finalizers": ["b"]}, "other": {}}));
        remove(&mut object, &["f:not".into(), "f:there".into()]);
    }
}
