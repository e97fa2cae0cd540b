//! The verbs but `watch`: from a request taken apart to a status and an object.

use std::sync::Arc;

use serde_json::Value;

use super::http::Ask;
use super::path::Target;
use super::render::View;
use super::resource::Resource;
use super::selector::Selector;
use super::status::{self, Failure};
use super::storage::{Key, Page, Scope, Store};
use super::watch::version;
use super::write::{Deleted, Part, PatchKind, Preconditions, Write};
use super::{Shared, token};

/// Does what was asked.
pub(super) fn serve(shared: &Shared, ask: &Ask, target: &Target) -> Result<(u16, Value), Failure> {
    let part = match target.subresource.as_deref() {
        None => Part::Main,
        Some("status") if target.resource.status => Part::Status,
        Some("token") if target.resource.kind == "ServiceAccount" => return token::request(shared, ask, target),
        Some(_) => return Err(Failure::unknown_path()),
    };
    let view = View::of(&ask.headers);
    let key = target.name.as_ref().map(|name| (target.namespace.clone(), name.clone()));
    match (ask.verb, key) {
        ("list", None) => list(shared, ask, target, view),
        ("get", Some(key)) => {
            let object = shared.store().get(&target.resource, &key);
            let object = object.ok_or_else(|| Failure::not_found(&target.resource, &key.1))?;
            Ok((200, view.object(&object)))
        }
        ("create", None) => create(shared, ask, target, view),
        ("update", Some(key)) => {
            require_json(ask)?;
            let object = ask.json()?;
            let written = write(&mut shared.store(), ask, target, part).update(&key, object)?;
            Ok((200, view.object(&written)))
        }
        ("patch", Some(key)) => patch(shared, ask, target, part, &key),
        ("delete", Some(key)) if part == Part::Main => delete(shared, ask, target, &key),
        ("deletecollection", None) => delete_collection(shared, ask, target, view),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// What a list or watch covers.
pub(super) fn scope(ask: &Ask, target: &Target) -> Result<Scope, Failure> {
    let (labels, fields) = (ask.query.get("labelSelector"), ask.query.get("fieldSelector"));
    // A watch of a name in the path is one of the collection by that name.
    let named = target.name.as_ref().map(|name| format!("metadata.name={name}"));
    let selector = Selector::parse(labels, named.as_deref().or(fields), &target.resource.kind)?;
    Ok(Scope { resource: Arc::clone(&target.resource), namespace: target.namespace.clone(), selector })
}

fn list(shared: &Shared, ask: &Ask, target: &Target, view: View) -> Result<(u16, Value), Failure> {
    let scope = scope(ask, target)?;
    let page = page(&shared.store(), ask, &scope)?;
    let selected = ask.query.get("labelSelector").or(ask.query.get("fieldSelector")).is_some();
    Ok((200, view.list(&target.resource, &page, selected)))
}

/// The newest state satisfies every version but an exact one. A version that is not reached yet is refused at once, where
/// Kubernetes waits three seconds before.
fn page(store: &Store, ask: &Ask, scope: &Scope) -> Result<Page, Failure> {
    let limit = ask.query.get("limit").and_then(|limit| limit.parse().ok()).unwrap_or(0);
    let asked = version(ask.query.get("resourceVersion"))?;
    if let Some(token) = ask.query.get("continue") {
        if asked.is_some_and(|asked| asked > 0) {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Failure::bad_request(message));
        }
        return next_page(store, scope, token, limit);
    }
    if asked.is_some_and(|asked| asked > store.version()) {
        return Err(Failure::too_large(asked.unwrap_or(0), store.version()));
    }
    let at = match (asked, ask.query.get("resourceVersionMatch")) {
        (Some(asked), Some("Exact")) if asked > 0 => asked,
        (None | Some(0), Some("Exact")) => {
            let problem = "Forbidden: resourceVersionMatch \"Exact\" is forbidden without a resourceVersion";
            return Err(Failure::invalid(&scope.resource, "", "resourceVersionMatch", problem));
        }
        _ => store.version(),
    };
    store.page(scope, at, None, limit)
}

/// All pages of a list show the same state. When that is forgotten the client gets, with the refusal, a token by which it can
/// go on in the newest state.
fn next_page(store: &Store, scope: &Scope, token: &str, limit: usize) -> Result<Page, Failure> {
    let parsed = token.split_once('/').and_then(|(at, rest)| {
        let (namespace, name) = rest.split_once('/')?;
        Some((at.parse::<u64>().ok()?, (namespace.to_owned(), name.to_owned())))
    });
    let Some((at, after)) = parsed else { return Err(Failure::bad_request("continue key is not valid")) };
    let newest = at == 0;
    let at = if newest { store.version() } else { at };
    store.page(scope, at, Some(&after), limit).map_err(|failure| {
        let message = "The provided continue parameter is too old to display a consistent list result. You can start a new \
            list without the continue parameter, or use the continue token in this response to retrieve the remainder of \
            the results.";
        let go_on = Some(format!("0/{}/{}", after.0, after.1));
        Failure { message: message.into(), go_on, ..failure }
    })
}

fn create(shared: &Shared, ask: &Ask, target: &Target, view: View) -> Result<(u16, Value), Failure> {
    require_json(ask)?;
    let object = ask.json()?;
    if target.resource.namespaced && target.namespace.is_empty() {
        return Err(Failure::method_not_allowed());
    }
    let mut store = shared.store();
    check_namespace(shared, &store, target)?;
    let created = write(&mut store, ask, target, Part::Main).create(&target.namespace, object)?;
    Ok((201, view.object(&created)))
}

fn check_namespace(shared: &Shared, store: &Store, target: &Target) -> Result<(), Failure> {
    if !shared.options.namespaces_must_exist || !target.resource.namespaced {
        return Ok(());
    }
    let Some(namespaces) = shared.registry().by_path("", "v1", "namespaces") else { return Ok(()) };
    let key = (String::new(), target.namespace.clone());
    store.get(&namespaces, &key).map(drop).ok_or_else(|| Failure::not_found(&namespaces, &key.1))
}

fn patch(shared: &Shared, ask: &Ask, target: &Target, part: Part, key: &Key) -> Result<(u16, Value), Failure> {
    let kind = match ask.content_type() {
        "application/merge-patch+json" | "application/strategic-merge-patch+json" => PatchKind::Merge,
        "application/json-patch+json" => PatchKind::Json,
        // YAML that is no JSON is not understood; kube and client-go send JSON.
        "application/apply-patch+yaml" | "application/apply-patch+json" => {
            PatchKind::Apply { force: ask.query.flag("force") }
        }
        other => return Err(unsupported(other)),
    };
    if matches!(kind, PatchKind::Apply { .. }) && ask.query.get("fieldManager").is_none() {
        let problem = "Required value: is required for apply patch";
        return Err(Failure::new(
            422,
            "Invalid",
            format!("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: {problem}"),
        ));
    }
    let body = ask.json()?;
    let mut store = shared.store();
    let was_there = store.get(&target.resource, key).is_some();
    if !was_there && matches!(kind, PatchKind::Apply { .. }) {
        check_namespace(shared, &store, target)?;
    }
    let written = write(&mut store, ask, target, part).patch(key, kind, &body)?;
    Ok((if was_there { 200 } else { 201 }, View::of(&ask.headers).object(&written)))
}

fn delete(shared: &Shared, ask: &Ask, target: &Target, key: &Key) -> Result<(u16, Value), Failure> {
    let preconditions = preconditions(ask)?;
    let deleted = write(&mut shared.store(), ask, target, Part::Main).delete(key, &preconditions)?;
    Ok(match deleted {
        Deleted::Gone(last) => (200, status::deleted(&target.resource, &key.1, &last["metadata"]["uid"])),
        Deleted::Waiting(object) => (200, View::of(&ask.headers).object(&object)),
    })
}

/// Answers with the list of what was there.
fn delete_collection(shared: &Shared, ask: &Ask, target: &Target, view: View) -> Result<(u16, Value), Failure> {
    let preconditions = preconditions(ask)?;
    let scope = scope(ask, target)?;
    let mut store = shared.store();
    let mut page = Page { items: store.all(&scope), version: 0, next: None };
    for object in &page.items {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or("").to_owned();
        write(&mut store, ask, target, Part::Main).delete(&(text("namespace"), text("name")), &preconditions)?;
    }
    page.version = store.version();
    Ok((200, view.list(&target.resource, &page, true)))
}

/// Those in the body of a delete, which may be empty.
fn preconditions(ask: &Ask) -> Result<Preconditions, Failure> {
    if ask.body.is_empty() {
        return Ok(Preconditions::default());
    }
    let wanted = ask.json()?["preconditions"].take();
    let text = |field: &str| wanted[field].as_str().map(str::to_owned);
    Ok(Preconditions { uid: text("uid"), resource_version: text("resourceVersion") })
}

fn write<'a>(store: &'a mut Store, ask: &'a Ask, target: &'a Target, part: Part) -> Write<'a> {
    let resource: &Resource = &target.resource;
    let in_body = ask.verb.starts_with("delete") && ask.json().is_ok_and(|options| options["dryRun"][0] == "All");
    let dry_run = ask.query.get("dryRun") == Some("All") || in_body;
    Write { store, resource, manager: ask.manager(), part, dry_run }
}

/// Go's decoder takes a body without a type for JSON.
fn require_json(ask: &Ask) -> Result<(), Failure> {
    let kind = ask.content_type();
    if ["", "application/json", "*/*"].contains(&kind) { Ok(()) } else { Err(unsupported(kind)) }
}

fn unsupported(content_type: &str) -> Failure {
    let message = format!("the body of the request was in an unknown format - content type: {content_type:?}");
    Failure::new(415, "UnsupportedMediaType", message)
}
