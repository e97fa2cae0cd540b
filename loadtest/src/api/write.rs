//! Create, update, patch, apply and delete, with what the server itself keeps of an object.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::apply::{self, Operation, Writer};
use super::resource::Resource;
use super::status::Failure;
use super::storage::{Key, Store};
use super::{check, patch, text};

/// One write to one resource.
pub(super) struct Write<'a> {
    pub(super) store: &'a mut Store,
    pub(super) resource: &'a Resource,
    /// Who is recorded as the owner of the fields.
    pub(super) manager: &'a str,
    pub(super) part: Part,
    /// Answer as if, but store nothing.
    pub(super) dry_run: bool,
}

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// All but the status, if the resource has a status subresource.
    Main,
    /// The status alone.
    Status,
    /// Everything: for the simulation itself, that plays the kubelet and the controllers, too.
    Whole,
}

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Merge,
    Json,
    Apply { force: bool },
}

/// What a delete wants to be true.
#[derive(Debug, Default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

/// What became of an object that was to be deleted.
#[derive(Debug)]
pub(super) enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Value>),
    /// Its finalizers hold it.
    Waiting(Arc<Value>),
}

impl Write<'_> {
    pub(super) fn create(&mut self, namespace: &str, mut object: Value) -> Result<Arc<Value>, Failure> {
        check::check_identity(self.resource, namespace, None, &mut object)?;
        let generate = object["metadata"]["generateName"].as_str().map(str::to_owned);
        if let (None, Some(prefix)) = (name_of(&object), generate) {
            object["metadata"]["name"] = json!(format!("{prefix}{}", text::name_suffix()));
        }
        let Some(name) = name_of(&object).map(str::to_owned) else {
            return Err(Failure::invalid(
                self.resource,
                "",
                "metadata.name",
                "Required value: name or generateName is required",
            ));
        };
        check::check_name(self.resource, &name)?;
        if object["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            return Err(Failure::bad_request("resourceVersion should not be set on objects to be created"));
        }
        let key = (namespace.to_owned(), name);
        if self.store.get(self.resource, &key).is_some() {
            return Err(Failure::already_exists(self.resource, &key.1));
        }
        if self.part == Part::Main && self.resource.status {
            remove_field(&mut object, "status");
        }
        if self.part != Part::Whole {
            remove_field(&mut object["metadata"], "managedFields");
        }
        self.complete(&mut object);
        let api_version = self.resource.api_version();
        apply::record(&Value::Null, &mut object, &self.writer(Operation::Update, &api_version));
        Ok(self.put(key, object))
    }

    /// Replaces an object.
    pub(super) fn update(&mut self, key: &Key, mut object: Value) -> Result<Arc<Value>, Failure> {
        let live = self.live(key)?;
        check::check_identity(self.resource, &key.0, Some(&key.1), &mut object)?;
        let unversioned = object["metadata"]["resourceVersion"].as_str().is_none_or(str::is_empty);
        if unversioned && self.resource.custom && self.part != Part::Whole {
            let problem = "Invalid value: 0: must be specified for an update";
            return Err(Failure::invalid(self.resource, &key.1, "metadata.resourceVersion", problem));
        }
        self.replace(key, &live, object, true)
    }

    /// Patches an object; an applied one need not be there.
    pub(super) fn patch(&mut self, key: &Key, kind: PatchKind, patch: &Value) -> Result<Arc<Value>, Failure> {
        match kind {
            PatchKind::Apply { force } => self.apply(key, patch.clone(), force),
            PatchKind::Merge => {
                let live = self.live(key)?;
                let mut object = Value::clone(&live);
                patch::merge(&mut object, patch);
                check::check_identity(self.resource, &key.0, Some(&key.1), &mut object)?;
                self.replace(key, &live, object, true)
            }
            PatchKind::Json => {
                let live = self.live(key)?;
                let mut object = Value::clone(&live);
                patch::json_patch(&mut object, patch).map_err(|problem| Failure::new(422, "Invalid", problem))?;
                check::check_identity(self.resource, &key.0, Some(&key.1), &mut object)?;
                self.replace(key, &live, object, true)
            }
        }
    }

    fn apply(&mut self, key: &Key, mut wanted: Value, force: bool) -> Result<Arc<Value>, Failure> {
        for field in ["apiVersion", "kind"] {
            if wanted[field].as_str().is_none_or(str::is_empty) {
                return Err(Failure::bad_request(format!(
                    "invalid object type: {field} must be set in an applied object"
                )));
            }
        }
        check::check_identity(self.resource, &key.0, Some(&key.1), &mut wanted)?;
        if wanted["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty()) {
            return Err(Failure::bad_request("metadata.managedFields must be nil"));
        }
        match self.part {
            Part::Main if self.resource.status => remove_field(&mut wanted, "status"),
            Part::Status => {
                let status = wanted["status"].take();
                let metadata = &wanted["metadata"];
                let metadata =
                    json!({"name": key.1, "resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]});
                wanted = json!({"apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "metadata": metadata,
                    "status": status});
            }
            _ => {}
        }
        let live = self.store.get(self.resource, key);
        if live.is_none() && self.part == Part::Status {
            return Err(Failure::not_found(self.resource, &key.1));
        }
        let api_version = self.resource.api_version();
        let writer = self.writer(Operation::Apply, &api_version);
        let base = live.as_deref().unwrap_or(&Value::Null);
        let applied = apply::apply(base, &wanted, &writer, force);
        let mut object = applied.map_err(|conflicts| conflict_failure(&conflicts, &api_version))?;
        if let Some(live) = live {
            return self.replace(key, &live, object, false);
        }
        if wanted["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty()) {
            return Err(Failure::stale(self.resource, &key.1));
        }
        check::check_name(self.resource, &key.1)?;
        if self.resource.namespaced {
            object["metadata"]["namespace"] = json!(key.0);
        }
        object["metadata"]["name"] = json!(key.1);
        self.complete(&mut object);
        Ok(self.put(key.clone(), object))
    }

    pub(super) fn delete(&mut self, key: &Key, wanted: &Preconditions) -> Result<Deleted, Failure> {
        let live = self.live(key)?;
        let metadata = &live["metadata"];
        for (name, wanted) in [("UID", &wanted.uid), ("ResourceVersion", &wanted.resource_version)] {
            let field = if name == "UID" { "uid" } else { "resourceVersion" };
            if let Some(wanted) = wanted.as_deref().filter(|wanted| metadata[field] != *wanted) {
                let actual = metadata[field].as_str().unwrap_or("");
                let why =
                    format!("Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {actual}");
                return Err(Failure::conflict(self.resource, &key.1, &why));
            }
        }
        if !has_finalizers(&live) {
            let last = Value::clone(&live);
            return Ok(Deleted::Gone(if self.dry_run {
                live
            } else {
                self.store.remove(self.resource, key.clone(), last)
            }));
        }
        if !metadata["deletionTimestamp"].is_null() {
            return Ok(Deleted::Waiting(live));
        }
        let mut object = Value::clone(&live);
        object["metadata"]["deletionTimestamp"] = json!(text::now());
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if let Some(generation) = metadata["generation"].as_u64() {
            object["metadata"]["generation"] = json!(generation + 1);
        }
        Ok(Deleted::Waiting(self.put(key.clone(), object)))
    }

    /// Puts `object` in the place of `live`, with the fields that are not the writer's to change as they were. The object is
    /// removed if this took its last finalizer. A write that changes nothing is none.
    fn replace(
        &mut self,
        key: &Key,
        live: &Arc<Value>,
        mut object: Value,
        record: bool,
    ) -> Result<Arc<Value>, Failure> {
        for (field, why) in [("resourceVersion", None), ("uid", Some("Precondition failed: UID"))] {
            let wanted = object["metadata"][field].as_str().filter(|wanted| !wanted.is_empty());
            if wanted.is_some_and(|wanted| live["metadata"][field] != wanted) {
                let stale = || Failure::stale(self.resource, &key.1);
                return Err(why.map_or_else(stale, |why| Failure::conflict(self.resource, &key.1, why)));
            }
        }
        match self.part {
            Part::Main if self.resource.status => copy_field(live, &mut object, "status"),
            Part::Status => {
                let (status, managed) = (object["status"].take(), object["metadata"]["managedFields"].take());
                object = Value::clone(live);
                object["status"] = status;
                if !record {
                    object["metadata"]["managedFields"] = managed;
                }
            }
            Part::Main | Part::Whole => {}
        }
        for field in [
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
        ] {
            copy_field(&live["metadata"], &mut object["metadata"], field);
        }
        self.normalise(&mut object);
        check::check_finalizers(self.resource, key, live, &object)?;
        if record {
            copy_field(&live["metadata"], &mut object["metadata"], "managedFields");
            let api_version = self.resource.api_version();
            apply::record(live, &mut object, &self.writer(Operation::Update, &api_version));
        }
        if object == **live {
            return Ok(Arc::clone(live));
        }
        if self.resource.generation && content(live) != content(&object) {
            let generation = live["metadata"]["generation"].as_u64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
        if !object["metadata"]["deletionTimestamp"].is_null() && !has_finalizers(&object) && !self.dry_run {
            return Ok(self.store.remove(self.resource, key.clone(), object));
        }
        Ok(self.put(key.clone(), object))
    }

    fn put(&mut self, key: Key, object: Value) -> Arc<Value> {
        if self.dry_run { Arc::new(object) } else { self.store.put(self.resource, key, object) }
    }

    fn live(&self, key: &Key) -> Result<Arc<Value>, Failure> {
        self.store.get(self.resource, key).ok_or_else(|| Failure::not_found(self.resource, &key.1))
    }

    /// What the server adds to a new object.
    fn complete(&self, object: &mut Value) {
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(text::uid());
        metadata["creationTimestamp"] = json!(text::now());
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "resourceVersion", "selfLink"] {
            remove_field(metadata, field);
        }
        if self.resource.generation {
            metadata["generation"] = json!(1);
        }
        self.normalise(object);
    }

    /// What the server makes of an object at every write: no nulls, and a Secret's `stringData` in `data`.
    fn normalise(&self, object: &mut Value) {
        if self.resource.kind == "Secret" && self.resource.group.is_empty() {
            let plain = object["stringData"].take();
            for (name, value) in plain.as_object().into_iter().flatten() {
                object["data"][name] = json!(text::base64(value.as_str().unwrap_or("").as_bytes()));
            }
        }
        strip_nulls(object);
    }

    fn writer<'w>(&'w self, operation: Operation, api_version: &'w str) -> Writer<'w> {
        let subresource = if self.part == Part::Status { "status" } else { "" };
        Writer { manager: self.manager, operation, api_version, subresource }
    }
}

fn conflict_failure(conflicts: &[apply::Conflict], api_version: &str) -> Failure {
    let one = |conflict: &apply::Conflict| {
        let message = format!("conflict with {:?} using {api_version}", conflict.manager);
        json!({"reason": "FieldManagerConflict", "message": message, "field": conflict.field})
    };
    let causes: Vec<Value> = conflicts.iter().map(one).collect();
    let fields: Vec<String> =
        conflicts.iter().map(|c| format!("conflict with {:?} using {api_version}: {}", c.manager, c.field)).collect();
    let plural = if conflicts.len() == 1 { "" } else { "s" };
    let message = format!("Apply failed with {} conflict{plural}: {}", conflicts.len(), fields.join(", "));
    Failure { details: Some(json!({"causes": causes})), ..Failure::new(409, "Conflict", message) }
}

fn name_of(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str().filter(|name| !name.is_empty())
}

fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// What a generation counts the changes of.
fn content(object: &Value) -> Map<String, Value> {
    let mut content = object.as_object().cloned().unwrap_or_default();
    content.retain(|field, _| !["apiVersion", "kind", "metadata", "status"].contains(&field.as_str()));
    content
}

pub(super) fn remove_field(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

fn copy_field(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) => to[field] = value.clone(),
        None => remove_field(to, field),
    }
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}
