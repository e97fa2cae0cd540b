//! Requests about tokens, and who is let in.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use serde_json::Value;

use super::Shared;
use super::http::{Ask, Body, json, response};
use super::path::Target;
use super::review::{self, API_AUDIENCE, Account, Question, ReviewMode, Verdict};
use super::status::Failure;

/// Whether a path is that of token reviews.
pub(super) fn is_review(path: &str) -> bool {
    path == "/apis/authentication.k8s.io/v1/tokenreviews"
}

/// Answers a `TokenReview`, or does not, as the mode says.
pub(super) async fn review(shared: &Arc<Shared>, ask: &Ask) -> Result<Response<Body>, Failure> {
    if ask.verb != "create" {
        return Err(Failure::method_not_allowed());
    }
    let review = ask.json()?;
    let question = Question::of(&review)?;
    shared.tokens().count(&question.token);
    let mode = {
        let mut mode = shared.review_mode.subscribe();
        // The sender lives as long as the server.
        mode.wait_for(|mode| *mode != ReviewMode::Hang).await.map_or(ReviewMode::Answer, |mode| *mode)
    };
    if mode == ReviewMode::Fail {
        return Err(Failure::of_code(500));
    }
    let answer = review::answer(&review, &verdict(shared, &question.token, &question.audiences));
    Ok(match mode {
        ReviewMode::Garble => {
            let text = answer.to_string();
            response(201, "application/json", Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]))
        }
        _ => json(201, &answer),
    })
}

/// A token issued for a service account is only good while that is there.
fn verdict(shared: &Shared, token: &str, audiences: &[String]) -> Verdict {
    let verdict = shared.tokens().verdict(token, audiences);
    let Verdict::Valid { identity, bound_to: Some(key), .. } = &verdict else { return verdict };
    let accounts = shared.registry().by_path("", "v1", "serviceaccounts");
    let account = accounts.and_then(|accounts| shared.store().get(&accounts, key));
    match account {
        Some(account) if account["metadata"]["uid"] == identity.uid => verdict,
        _ => Verdict::Invalid("[invalid bearer token, service account token has been invalidated]".into()),
    }
}

/// Issues a token for a service account.
pub(super) fn request(shared: &Shared, ask: &Ask, target: &Target) -> Result<(u16, Value), Failure> {
    let (Some(name), "create") = (&target.name, ask.verb) else { return Err(Failure::method_not_allowed()) };
    let (audiences, lifetime) = review::requested(&ask.json()?)?;
    let account = shared.store().get(&target.resource, &(target.namespace.clone(), name.clone()));
    let account = account.ok_or_else(|| Failure::not_found(&target.resource, name))?;
    let uid = account["metadata"]["uid"].as_str().unwrap_or("");
    let account = Account { namespace: &target.namespace, name, uid };
    let token = shared.tokens().issue(&account, &audiences, lifetime);
    Ok((201, review::granted(&account, &audiences, lifetime, &token)))
}

/// Whether a request is let in. As in Kubernetes, a token that is no good is not authenticated, and nobody in particular is
/// `system:anonymous`, who may not do anything.
pub(super) fn admit(
    shared: &Shared,
    bearer: Option<&str>,
    certified: bool,
    ask: &Ask,
    resource: &str,
) -> Result<(), Failure> {
    let options = &shared.options;
    let closed = !options.tokens.is_empty() || options.client_authority.is_some();
    let mut user = "the user of the test";
    if closed {
        let issued = |token| matches!(verdict(shared, token, &[API_AUDIENCE.into()]), Verdict::Valid { .. });
        match bearer {
            Some(token) if options.tokens.iter().any(|known| known == token) || issued(token) => {}
            Some(_) => return Err(Failure::of_code(401)),
            None if certified => {}
            None => user = "system:anonymous",
        }
    }
    let forbidden = shared.knobs().forbids(ask.verb, resource);
    if !forbidden && user != "system:anonymous" {
        return Ok(());
    }
    let group = ask.target.as_ref().map_or("", |target| target.resource.group.as_str());
    let name = ask.target.as_ref().and_then(|target| target.name.as_deref()).unwrap_or("");
    let message = if resource.is_empty() {
        format!("forbidden: User {user:?} cannot {} path {:?}", ask.method.as_str().to_lowercase(), ask.path)
    } else {
        let suffix = if group.is_empty() { String::new() } else { format!(".{group}") };
        let subject = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        format!(
            "{resource}{suffix}{subject} is forbidden: User {user:?} cannot {} resource {resource:?} in API group {group:?}",
            ask.verb
        )
    };
    let details = serde_json::json!({"name": name, "group": group, "kind": resource});
    Err(Failure { details: Some(details), ..Failure::new(403, "Forbidden", message) })
}
