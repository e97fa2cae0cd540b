//! Who owns which field: server-side apply, and the record that other writes leave.

use serde_json::{Value, json};

use super::fields::{self, FieldSet, ListKind, Path};
use super::text;

/// Somebody who writes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    pub(super) operation: Operation,
    pub(super) api_version: &'a str,
    /// Empty for the object itself.
    pub(super) subresource: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// A field that somebody else owns with another value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: String,
    pub(super) field: String,
}

/// What becomes of `live` (null if there is none) when `writer` applies `wanted`; without `force` all conflicts instead, if there
/// are any.
pub(super) fn apply(live: &Value, wanted: &Value, writer: &Writer, force: bool) -> Result<Value, Vec<Conflict>> {
    let mut managers = Managers::of(live);
    let current = fields::leaves(live);
    let applied = fields::leaves(wanted);
    let differs = |path: &Path, value: &Value| current.get(path).is_some_and(|current| current != value);
    let contested: FieldSet =
        applied.iter().filter(|(path, value)| differs(path, value)).map(|(path, _)| path.clone()).collect();
    let conflicts = managers.conflicts(&contested, writer);
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    managers.disown(&contested, Some(writer));

    let mut object = if live.is_object() { live.clone() } else { json!({}) };
    let applied: FieldSet = applied.into_keys().collect();
    let formerly = managers.replace(writer, applied.clone());
    for path in formerly.difference(&applied) {
        if !managers.is_owned(path) {
            fields::remove(&mut object, path);
        }
    }
    merge(&mut object, wanted, &mut Vec::new());
    managers.write(&mut object);
    Ok(object)
}

/// Records in `object` that `writer` changed it from `live` (null if it is new).
pub(super) fn record(live: &Value, object: &mut Value, writer: &Writer) {
    let is_new = live.is_null();
    let mut managers = Managers::of(if is_new { object } else { live });
    let (before, after) = (fields::leaves(live), fields::leaves(object));
    let gone: FieldSet = before.keys().filter(|path| !after.contains_key(*path)).cloned().collect();
    let mut changed: FieldSet = FieldSet::new();
    for (path, value) in &after {
        // What a new object brings along as somebody's stays theirs.
        let theirs = is_new && managers.is_covered(path);
        if before.get(path) != Some(value) && !theirs {
            changed.insert(path.clone());
        }
    }
    managers.disown(&gone, None);
    managers.disown(&changed, Some(writer));
    managers.add(writer, changed);
    managers.write(object);
}

/// Lays `wanted` over `object`: maps field by field, lists by their kind.
fn merge(object: &mut Value, wanted: &Value, path: &mut Path) {
    match (&mut *object, wanted) {
        (Value::Object(fields), Value::Object(wanted)) if !wanted.is_empty() || !fields.is_empty() => {
            for (name, wanted) in wanted {
                if path.len() == 1 && path[0] == "f:metadata" && name == "managedFields" || wanted.is_null() {
                    continue;
                }
                path.push(format!("f:{name}"));
                merge(fields.entry(name).or_insert(Value::Null), wanted, path);
                path.pop();
            }
        }
        (Value::Null, Value::Object(_)) => {
            *object = json!({});
            merge(object, wanted, path);
        }
        (Value::Array(items), Value::Array(wanted_items)) => match ListKind::of(path, wanted_items) {
            ListKind::Atomic => items.clone_from(wanted_items),
            ListKind::Set => {
                for wanted in wanted_items {
                    if !items.contains(wanted) {
                        items.push(wanted.clone());
                    }
                }
            }
            ListKind::Map(key) => {
                for wanted in wanted_items {
                    path.push(fields::item_step(key, wanted));
                    match items.iter_mut().find(|item| item[key] == wanted[key]) {
                        Some(item) => merge(item, wanted, path),
                        None => items.push(wanted.clone()),
                    }
                    path.pop();
                }
            }
        },
        _ => *object = wanted.clone(),
    }
}

/// The owners of an object's fields.
struct Managers(Vec<Entry>);

struct Entry {
    /// All of the entry but its fields.
    head: Value,
    fields: FieldSet,
    touched: bool,
}

impl Managers {
    fn of(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array();
        let entry = |entry: &Value| Entry {
            head: entry.clone(),
            fields: fields::from_json(&entry["fieldsV1"]),
            touched: false,
        };
        Self(entries.into_iter().flatten().map(entry).collect())
    }

    fn conflicts(&self, contested: &FieldSet, writer: &Writer) -> Vec<Conflict> {
        let others = self.0.iter().filter(|entry| !entry.is_of(writer));
        others
            .flat_map(|entry| {
                let manager = entry.head["manager"].as_str().unwrap_or("");
                entry
                    .fields
                    .intersection(contested)
                    .map(move |path| Conflict { manager: manager.into(), field: fields::display(path) })
            })
            .collect()
    }

    fn is_owned(&self, path: &Path) -> bool {
        // Whoever owns a field of an item owns that there is such an item.
        self.0
            .iter()
            .any(|entry| entry.fields.range(path.clone()..).next().is_some_and(|owned| owned.starts_with(path)))
    }

    /// Whether somebody owns the field or all of what it is in.
    fn is_covered(&self, path: &Path) -> bool {
        let covers = |entry: &Entry| (1..=path.len()).any(|length| entry.fields.contains(&path[..length]));
        self.0.iter().any(covers)
    }

    /// Takes fields from all but `writer`.
    fn disown(&mut self, lost: &FieldSet, writer: Option<&Writer>) {
        for entry in self.0.iter_mut().filter(|entry| writer.is_none_or(|writer| !entry.is_of(writer))) {
            entry.fields.retain(|path| !lost.contains(path));
        }
    }

    /// Gives a writer these fields and no others; answers those it had.
    fn replace(&mut self, writer: &Writer, owned: FieldSet) -> FieldSet {
        let entry = self.entry(writer);
        entry.touched |= entry.fields != owned;
        std::mem::replace(&mut entry.fields, owned)
    }

    fn add(&mut self, writer: &Writer, more: FieldSet) {
        if !more.is_empty() {
            let entry = self.entry(writer);
            entry.touched = true;
            entry.fields.extend(more);
        }
    }

    fn entry(&mut self, writer: &Writer) -> &mut Entry {
        let place = self.0.iter().position(|entry| entry.is_of(writer)).unwrap_or_else(|| {
            self.0.push(Entry::new(writer));
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// An entry's time is that of its last change, so that a write that changes nothing leaves no trace.
    fn write(self, object: &mut Value) {
        let entries: Vec<Value> = self
            .0
            .into_iter()
            .filter(|entry| !entry.fields.is_empty())
            .map(|entry| {
                let mut head = entry.head;
                head["fieldsV1"] = fields::to_json(&entry.fields);
                if entry.touched {
                    head["time"] = json!(text::now());
                }
                head
            })
            .collect();
        if entries.is_empty() {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
        } else {
            object["metadata"]["managedFields"] = Value::Array(entries);
        }
    }
}

impl Entry {
    fn new(writer: &Writer) -> Self {
        let operation = if writer.operation == Operation::Apply { "Apply" } else { "Update" };
        let mut head = json!({"manager": writer.manager, "operation": operation, "apiVersion": writer.api_version,
            "time": text::now(), "fieldsType": "FieldsV1", "fieldsV1": {}});
        if !writer.subresource.is_empty() {
            head["subresource"] = json!(writer.subresource);
        }
        Self { head, fields: FieldSet::new(), touched: true }
    }

    fn is_of(&self, writer: &Writer) -> bool {
        let operation = if writer.operation == Operation::Apply { "Apply" } else { "Update" };
        self.head["manager"] == writer.manager
            && self.head["operation"] == operation
            && self.head["subresource"].as_str().unwrap_or("") == writer.subresource
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(manager: &str, operation: Operation) -> Writer<'_> {
        Writer { manager, operation, api_version: "v1", subresource: "" }
    }

    fn applied(live: &Value, manager: &str, wanted: &Value) -> Value {
        apply(live, wanted, &by(manager, Operation::Apply), false).unwrap()
    }

    #[test]
    fn a_field_left_out_goes_unless_another_applies_it_too() {
        let live = applied(&Value::Null, "a", &json!({"data": {"x": "1", "y": "2", "z": "3"}}));
        let live = applied(&live, "b", &json!({"data": {"y": "2"}}));
        let live = applied(&live, "a", &json!({"data": {"z": "3"}}));
        assert_eq!(live["data"], json!({"y": "2", "z": "3"}));
        let live = applied(&live, "b", &json!({}));
        assert_eq!(live["data"], json!({"z": "3"}));
    }

    #[test]
    fn another_value_for_somebodys_field_needs_force() {
        let live = applied(&Value::Null, "a", &json!({"data": {"x": "1"}}));
        let wanted = json!({"data": {"x": "2"}});
        let conflicts = apply(&live, &wanted, &by("b", Operation::Apply), false).unwrap_err();
        assert_eq!(conflicts, [Conflict { manager: "a".into(), field: ".data.x".into() }]);
        let live = apply(&live, &wanted, &by("b", Operation::Apply), true).unwrap();
        assert_eq!(live["data"]["x"], "2");
        let owners = live["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(owners.iter().map(|entry| &entry["manager"]).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn an_update_takes_over_what_it_changes() {
        let live = applied(&Value::Null, "a", &json!({"data": {"x": "1", "y": "1"}}));
        let mut object = live.clone();
        object["data"]["x"] = json!("2");
        record(&live, &mut object, &by("b", Operation::Update));
        let conflicts = apply(&object, &json!({"data": {"x": "1"}}), &by("a", Operation::Apply), false).unwrap_err();
        assert_eq!(conflicts.len(), 1);
        let object = applied(&object, "a", &json!({"data": {"y": "1"}}));
        assert_eq!(object["data"], json!({"x": "2", "y": "1"}), "x is no longer a's to remove");
    }

    #[test]
    fn finalizers_and_conditions_of_several_managers_live_side_by_side() {
        let first =
            json!({"metadata": {"finalizers": ["a/f"]}, "status": {"conditions": [{"type": "A", "status": "True"}]}});
        let second =
            json!({"metadata": {"finalizers": ["b/f"]}, "status": {"conditions": [{"type": "B", "status": "True"}]}});
        let live = applied(&applied(&Value::Null, "a", &first), "b", &second);
        assert_eq!(live["metadata"]["finalizers"], json!(["a/f", "b/f"]));
        let live = applied(&live, "a", &json!({}));
        assert_eq!(live["metadata"]["finalizers"], json!(["b/f"]));
        assert_eq!(live["status"]["conditions"], json!([{"type": "B", "status": "True"}]));
    }

    #[test]
    fn the_same_again_changes_nothing() {
        let wanted = json!({"data": {"x": "1"}, "metadata": {"labels": {"l": "1"}}});
        let live = applied(&Value::Null, "a", &wanted);
        assert_eq!(applied(&live, "a", &wanted), live);
        let mut same = live.clone();
        record(&live, &mut same, &by("b", Operation::Update));
        assert_eq!(same, live);
    }
}
