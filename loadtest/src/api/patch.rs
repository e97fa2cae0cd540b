//! Merge patches and JSON patches.

use serde_json::{Map, Value};

/// RFC 7386: null removes, maps merge, everything else replaces.
///
/// Strategic merge patches are taken for merge patches: without schemas nothing is known of merge keys, so that their lists
/// replace the lists that are there.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(fields) = object else { return };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// RFC 6902: `add`, `replace`, `remove`, `test`, `copy` and `move`. What cannot be done is said in words, and `object` is
/// then half changed.
pub(super) fn json_patch(object: &mut Value, steps: &Value) -> Result<(), String> {
    let steps = steps.as_array().ok_or("a JSON patch is an array")?;
    for step in steps {
        let text = |name: &str| step[name].as_str().ok_or_else(|| format!("{name:?} is missing in {step}"));
        let value = || step.get("value").cloned().ok_or_else(|| format!("\"value\" is missing in {step}"));
        let path = text("path")?;
        let found = |object: &Value, path: &str| {
            object.pointer(path).cloned().ok_or_else(|| format!("the path {path:?} does not exist"))
        };
        match text("op")? {
            "add" => insert(object, path, value()?)?,
            "remove" => drop(take(object, path)?),
            "replace" => {
                found(object, path)?;
                *object.pointer_mut(path).ok_or("the path does not exist")? = value()?;
            }
            "test" if found(object, path)? == value()? => {}
            "test" => return Err(format!("testing path {path:?}: the value differs")),
            "copy" => {
                let copied = found(object, text("from")?)?;
                insert(object, path, copied)?;
            }
            "move" => {
                let moved = take(object, text("from")?)?;
                insert(object, path, moved)?;
            }
            other => return Err(format!("there is no operation {other:?}")),
        }
    }
    Ok(())
}

fn insert(object: &mut Value, path: &str, value: Value) -> Result<(), String> {
    if path.is_empty() {
        *object = value;
        return Ok(());
    }
    let (parent, last) = split(object, path)?;
    match parent {
        Value::Object(fields) => drop(fields.insert(last, value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let place = last.parse().ok().filter(|place| *place <= items.len());
            items.insert(place.ok_or_else(|| format!("{path:?} is outside of the list"))?, value);
        }
        _ => return Err(format!("{path:?} is in no map and no list")),
    }
    Ok(())
}

fn take(object: &mut Value, path: &str) -> Result<Value, String> {
    let (parent, last) = split(object, path)?;
    let taken = match parent {
        Value::Object(fields) => fields.remove(&last),
        Value::Array(items) => {
            last.parse().ok().filter(|place| *place < items.len()).map(|place: usize| items.remove(place))
        }
        _ => None,
    };
    taken.ok_or_else(|| format!("the path {path:?} does not exist"))
}

/// The value that holds the last part of a path, and that part without escapes.
fn split<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, last) = path.rsplit_once('/').ok_or_else(|| format!("{path:?} is no path"))?;
    let parent = object.pointer_mut(parent).ok_or_else(|| format!("the path {parent:?} does not exist"))?;
    Ok((parent, last.replace("~1", "/").replace("~0", "~")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_removes_with_null_and_replaces_lists() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "x"});
        merge(&mut object, &json!({"a": {"b": null, "d": {"e": null, "f": 1}}, "l": [3], "s": {"t": 1}}));
        assert_eq!(object, json!({"a": {"c": 2, "d": {"f": 1}}, "l": [3], "s": {"t": 1}}));
    }

    #[test]
    fn a_json_patch_goes_step_by_step() {
        let mut object = json!({"a": {"x/y": 1}, "l": [1, 3]});
        let patch = json!([
            {"op": "test", "path": "/a/x~1y", "value": 1},
            {"op": "add", "path": "/l/1", "value": 2},
            {"op": "add", "path": "/l/-", "value": 4},
            {"op": "replace", "path": "/a/x~1y", "value": 5},
            {"op": "copy", "from": "/l", "path": "/m"},
            {"op": "remove", "path": "/l/0"},
            {"op": "move", "from": "/m", "path": "/a/m"},
        ]);
        json_patch(&mut object, &patch).unwrap();
        assert_eq!(object, json!({"a": {"x/y": 5, "m": [1, 2, 3, 4]}, "l": [2, 3, 4]}));
    }

    #[test]
    fn a_json_patch_that_cannot_be_done_says_why() {
        for patch in [
            json!({"op": "add"}),
            json!([{"op": "add", "path": "/x/y", "value": 1}]),
            json!([{"op": "remove", "path": "/x"}]),
            json!([{"op": "replace", "path": "/x", "value": 1}]),
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "add", "path": "/l/7", "value": 2}]),
            json!([{"op": "dance", "path": "/a"}]),
            json!([{"op": "add", "path": "/b"}]),
        ] {
            assert!(json_patch(&mut json!({"a": 1, "l": []}), &patch).is_err(), "{patch}");
        }
    }
}
