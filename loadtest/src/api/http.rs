//! From a request to its answer.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::Incoming;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::journal::ApiRequest;
use super::path::{Query, Target, verb};
use super::render::View;
use super::status::Failure;
use super::watch::{Params, Registration, Watch};
use super::{Shared, documents, serve, token};

/// The largest body that is read, that of Kubernetes; a larger one is answered with 413.
const MAX_BODY: usize = 3 << 20;

/// What is answered: a document, or the stream of a watch.
pub(super) type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Where a request comes from.
pub(super) struct Caller {
    /// Whether a client certificate was shown that is trusted.
    pub(super) certified: bool,
    /// Cancelled, the connection is cut.
    pub(super) connection: CancellationToken,
}

/// A request taken apart.
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) verb: &'static str,
    pub(super) target: Option<Target>,
    pub(super) body: Bytes,
}

/// Answers one request.
pub(super) async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    caller: Caller,
) -> Result<Response<Body>, Infallible> {
    Ok(match answer(&shared, request, caller).await {
        Ok(response) => response,
        Err(failure) => refusal(&failure),
    })
}

async fn answer(shared: &Arc<Shared>, request: Request<Incoming>, caller: Caller) -> Result<Response<Body>, Failure> {
    let (head, body) = request.into_parts();
    let query = Query::parse(head.uri.query().unwrap_or(""));
    let path = head.uri.path().to_owned();
    let target = Target::of(&path, &shared.registry());
    let reviewed = token::is_review(&path);
    let named = target.as_ref().is_some_and(|target| target.name.is_some());
    let verb = if target.is_some() || reviewed { verb(&head.method, named, &query) } else { "" };
    let mut ask = Ask { method: head.method, path, query, headers: head.headers, verb, target, body: Bytes::new() };
    let bearer = bearer(&ask.headers);
    let recorded = ask.record(head.uri.query().unwrap_or(""), bearer.clone(), caller.certified);
    let resource = recorded.resource.clone();
    shared.journal().record(recorded);

    if let Some(code) = shared.knobs().fail_with {
        return Err(Failure::of_code(code));
    }
    if !is_public(&ask.path) {
        token::admit(shared, bearer.as_deref(), caller.certified, &ask, &resource)?;
    }
    ask.body = read(body).await?;
    if reviewed {
        return token::review(shared, &ask).await;
    }
    let Some(target) = &ask.target else { return describe(shared, &ask) };
    if ask.verb == "watch" {
        return watch(shared, &ask, target, caller.connection).await;
    }
    let (status, body) = serve::serve(shared, &ask, target)?;
    Ok(json(status, &body))
}

impl Ask {
    fn record(&self, query: &str, bearer: Option<String>, certificate: bool) -> ApiRequest {
        let (group, resource) = match &self.target {
            Some(target) => (target.resource.group.clone(), target.resource_name()),
            None if token::is_review(&self.path) => ("authentication.k8s.io".into(), "tokenreviews".into()),
            None => (String::new(), String::new()),
        };
        ApiRequest {
            verb: self.verb,
            group,
            resource,
            method: self.method.to_string(),
            path: self.path.clone(),
            query: query.to_owned(),
            bearer,
            certificate,
            user_agent: self.header(&USER_AGENT).to_owned(),
        }
    }

    fn header(&self, name: &http::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// Without parameters.
    pub(super) fn content_type(&self) -> &str {
        self.header(&CONTENT_TYPE).split(';').next().unwrap_or("").trim()
    }

    /// Who is recorded as the owner of what is written: what the client says, or what it is called.
    pub(super) fn manager(&self) -> &str {
        let agent = self.header(&USER_AGENT).split('/').next().unwrap_or("");
        self.query.get("fieldManager").unwrap_or(if agent.is_empty() { "unknown" } else { agent })
    }

    pub(super) fn json(&self) -> Result<Value, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::bad_request(format!("the object provided is unrecognized (must be of type JSON): {error}"))
        })
    }
}

async fn read(body: Incoming) -> Result<Bytes, Failure> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(Failure::new(413, "RequestEntityTooLarge", format!("limit is {MAX_BODY}")))
        }
        Err(error) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
    }
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
}

/// What everybody may read in a cluster.
fn is_public(path: &str) -> bool {
    is_health(path) || path == "/version"
}

fn is_health(path: &str) -> bool {
    matches!(path, "/livez" | "/readyz" | "/healthz")
}

fn describe(shared: &Shared, ask: &Ask) -> Result<Response<Body>, Failure> {
    if is_health(&ask.path) {
        return Ok(response(200, "text/plain; charset=utf-8", Bytes::from_static(b"ok")));
    }
    let accept = ask.header(&http::header::ACCEPT);
    let aggregated = accept.contains("as=APIGroupDiscoveryList");
    let document = documents::document(&ask.path, aggregated, &shared.registry());
    match document {
        Some(document) if ask.method == Method::GET => Ok(json(200, &document)),
        Some(_) => Err(Failure::method_not_allowed()),
        None => Err(Failure::unknown_path()),
    }
}

async fn watch(
    shared: &Arc<Shared>,
    ask: &Ask,
    target: &Target,
    connection: CancellationToken,
) -> Result<Response<Body>, Failure> {
    if target.subresource.is_some() {
        return Err(Failure::method_not_allowed());
    }
    let scope = serve::scope(ask, target)?;
    let params = Params::of(&ask.query, &target.resource)?;
    let refuse_expired = shared.knobs().refuse_expired;
    let (begun, frozen) = {
        let mut store = shared.store();
        (store.watch(scope, params.start, connection), store.frozen)
    };
    let (number, signals) = match begun {
        Ok(begun) => begun,
        Err(failure) if !refuse_expired && failure.code == 410 => {
            let event = serde_json::json!({"type": "ERROR", "object": failure.body()});
            return Ok(response(200, "application/json", Bytes::from(format!("{event}\n"))));
        }
        Err(failure) => return Err(failure),
    };
    let registration = Registration { shared: Arc::clone(shared), number };
    if frozen {
        // Counted as a watch for as long as the client waits.
        let _registration = registration;
        std::future::pending::<()>().await;
        return Err(Failure::of_code(504));
    }
    let watch = Watch::new(registration, signals, Arc::clone(&target.resource), &params, View::of(&ask.headers));
    let body = UnsyncBoxBody::new(StreamBody::new(watch.into_frames()));
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn refusal(failure: &Failure) -> Response<Body> {
    let mut response = json(failure.code, &failure.body());
    let retried = failure.details.as_ref().is_some_and(|details| details.get("retryAfterSeconds").is_some());
    if failure.code == 429 || retried {
        response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}

pub(super) fn json(status: u16, body: &Value) -> Response<Body> {
    response(status, "application/json", Bytes::from(body.to_string()))
}

pub(super) fn response(status: u16, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(UnsyncBoxBody::new(Full::new(body)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
