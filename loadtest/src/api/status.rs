//! What the server says when it does not do what was asked: the `Status` object and its reasons.

use serde_json::{Map, Value, json};

use super::resource::Resource;

/// A refusal, as the client gets it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Failure {
    /// The HTTP status.
    pub code: u16,
    /// The machine's word for it, as in Kubernetes' `metav1.StatusReason`.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    /// What it is about: name, group, kind, causes.
    pub details: Option<Value>,
    /// Where an expired list can go on, though not consistently with what was already read.
    pub go_on: Option<String>,
}

impl Failure {
    pub(super) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, go_on: None }
    }

    /// Of the status code alone: for servers that are told to fail.
    pub(super) fn of_code(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the server rejected our request for an unknown reason"),
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden"),
            404 => ("NotFound", "the server could not find the requested resource"),
            409 => ("Conflict", "the server reported a conflict"),
            410 => ("Expired", "too old resource version"),
            429 => ("TooManyRequests", "the server has received too many requests and has asked us to try again later"),
            500 => ("InternalError", "an error on the server has prevented the request from succeeding"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the server was unable to return a response in the time allotted"),
            _ => ("", "the server answers what it was told to"),
        };
        Self::new(code, reason, message)
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn unknown_path() -> Self {
        Self { details: Some(json!({})), ..Self::of_code(404) }
    }

    pub(super) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self { details: Some(json!({})), ..Self::new(405, "MethodNotAllowed", message) }
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::about(resource, name, 404, "NotFound", message)
    }

    pub(super) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::about(resource, name, 409, "AlreadyExists", message)
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified());
        Self::about(resource, name, 409, "Conflict", message)
    }

    /// The conflict of optimistic concurrency: somebody else was faster.
    pub(super) fn stale(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(super) fn invalid(resource: &Resource, name: &str, field: &str, problem: &str) -> Self {
        let kind = &resource.kind;
        let kind = if resource.group.is_empty() { kind.clone() } else { format!("{kind}.{}", resource.group) };
        let message = format!("{kind} \"{name}\" is invalid: {field}: {problem}");
        let causes = json!([{"reason": "FieldValueInvalid", "message": problem, "field": field}]);
        let mut failure = Self::new(422, "Invalid", message);
        failure.details = Some(json!({"name": name, "group": resource.group, "kind": resource.kind, "causes": causes}));
        failure
    }

    pub(super) fn too_old(asked: u64, oldest: u64) -> Self {
        Self::new(410, "Expired", format!("too old resource version: {asked} ({oldest})"))
    }

    pub(super) fn too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        let details = json!({"causes": causes, "retryAfterSeconds": 1});
        Self { details: Some(details), ..Self::new(504, "Timeout", message) }
    }

    fn about(resource: &Resource, name: &str, code: u16, reason: &'static str, message: String) -> Self {
        Self { details: Some(details(resource, name)), ..Self::new(code, reason, message) }
    }

    /// The `Status` object.
    pub fn body(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(go_on) = &self.go_on {
            metadata.insert("continue".into(), json!(go_on));
        }
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code});
        if !self.reason.is_empty() {
            body["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            body["details"] = details.clone();
        }
        body
    }
}

/// The `Status` that a delete answers with when the object is gone at once.
pub(super) fn deleted(resource: &Resource, name: &str, uid: &Value) -> Value {
    let mut details = details(resource, name);
    details["uid"] = uid.clone();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// In a `Status` the kind is the name of the resource, and the core group is left out.
fn details(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    details
}
