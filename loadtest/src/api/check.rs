//! What is checked of an object: its identity, its name, its finalizers. There are no schemas, so that nothing else is.

use serde_json::{Value, json};

use super::resource::Resource;
use super::status::Failure;
use super::storage::Key;
use super::write;

/// The object is of this resource and, if they are given, of this namespace and name; what it leaves out is added.
pub(super) fn check_identity(
    resource: &Resource,
    namespace: &str,
    name: Option<&str>,
    object: &mut Value,
) -> Result<(), Failure> {
    if !object.is_object() || !(object["metadata"].is_null() || object["metadata"].is_object()) {
        return Err(Failure::bad_request("the object provided is no object with metadata"));
    }
    for (field, wanted) in [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())] {
        let given = object[field].as_str().unwrap_or("");
        if !given.is_empty() && given != wanted {
            let message = format!("the {field} in the data ({given}) does not match the expected {field} ({wanted})");
            return Err(Failure::bad_request(message));
        }
        object[field] = json!(wanted);
    }
    if object["metadata"].is_null() {
        object["metadata"] = json!({});
    }
    let metadata = &mut object["metadata"];
    let given = metadata["namespace"].as_str().unwrap_or("");
    if resource.namespaced {
        if !given.is_empty() && given != namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(message));
        }
        metadata["namespace"] = json!(namespace);
    } else {
        write::remove_field(metadata, "namespace");
    }
    if let Some(name) = name {
        let given = metadata["name"].as_str().unwrap_or("");
        if !given.is_empty() && given != name {
            let message = format!("the name of the object ({given}) does not match the name on the URL ({name})");
            return Err(Failure::bad_request(message));
        }
        metadata["name"] = json!(name);
    }
    Ok(())
}

/// RBAC names may hold anything that fits into a path; all others are DNS subdomains.
pub(super) fn check_name(resource: &Resource, name: &str) -> Result<(), Failure> {
    let letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    let subdomain = name.bytes().all(letter) && ends(name.bytes().next()) && ends(name.bytes().last());
    let path_segment = !name.is_empty() && ![".", ".."].contains(&name) && !name.contains(['/', '%']);
    let valid = if resource.group == "rbac.authorization.k8s.io" { path_segment } else { subdomain };
    if valid && name.len() <= 253 {
        return Ok(());
    }
    let problem = format!(
        "Invalid value: {name:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character"
    );
    Err(Failure::invalid(resource, name, "metadata.name", &problem))
}

/// An object that is being deleted takes no new finalizers.
pub(super) fn check_finalizers(resource: &Resource, key: &Key, live: &Value, object: &Value) -> Result<(), Failure> {
    let names = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let held = names(live);
    let added = names(object).into_iter().any(|name| !held.contains(&name));
    if added && !live["metadata"]["deletionTimestamp"].is_null() {
        let problem = "Forbidden: no new finalizers can be added if the object is being deleted";
        return Err(Failure::invalid(resource, &key.1, "metadata.finalizers", problem));
    }
    Ok(())
}
