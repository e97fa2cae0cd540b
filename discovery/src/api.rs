//! The two calls to the API server: a page of a list, and a watch.

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use serde::Deserialize;

use crate::index::{Object, SERVICE_NAME};
use crate::lenient::{Lenient, lenient, lenient_structs};
use crate::query::Kind;
use crate::source::SourceError;
use crate::timing::Timing;

/// Objects in one page of a list. A page is in memory as JSON for a moment, and fifty pods of a control plane are about a
/// megabyte; a longer list takes more pages.
const PAGE: u32 = 50;

/// A refusal whose body is longer is no word of an API server's, and its connection is given up.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// What is told on of a refusal. Kubernetes says it in a sentence; the rest may be a page of some load balancer's.
const MAX_MESSAGE_CHARS: usize = 300;

/// Why a list or a watch did not come through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the API server answers {code}: {message}")]
    Refused { code: u16, message: String },
    #[error("cannot reach the API server: {}", causes(.0))]
    Client(#[source] kube::Error),
    #[error("cannot ask the API server: {0}")]
    Request(#[from] kube::core::request::Error),
    #[error("a list breaks off: {0}")]
    Body(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("a list that is not one: {0}")]
    NotAList(#[from] serde_json::Error),
    #[error("a list without a resource version")]
    NoVersion,
    #[error("no answer in time")]
    Slow,
    #[error("nothing came for too long")]
    Silent,
    #[error("the watch ended as soon as it began")]
    Closed,
}

impl Error {
    /// Whether a watch cannot go on from where it was: 410 and its like, or an event that cannot be read and would come again.
    /// A server that is merely busy, or does not know us, can be asked the same again.
    pub(crate) fn ends_position(&self) -> bool {
        match self {
            Self::Refused { code, .. } => !matches!(code, 401 | 403 | 429 | 503),
            Self::Client(kube::Error::SerdeError(_)) => true,
            _ => false,
        }
    }

    /// Whether the API server only says that we were away for too long, which is no failure of anybody.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Refused { code: 410, .. })
    }

    /// What the API server says instead of an answer or an event.
    pub(crate) fn refused(code: u16, status: &Status) -> Self {
        Self::Refused { code, message: status.message.chars().take(MAX_MESSAGE_CHARS).collect() }
    }
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(bound = "K: Lenient", default)]
pub(crate) struct Page<K> {
    #[serde(deserialize_with = "lenient")]
    pub(crate) metadata: PageMetadata,
    #[serde(deserialize_with = "lenient")]
    pub(crate) items: Vec<K>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    /// Where a watch goes on after this list.
    #[serde(deserialize_with = "lenient")]
    pub(crate) resource_version: String,
    /// What to ask the next page with; empty on the last.
    #[serde(rename = "continue", deserialize_with = "lenient")]
    pub(crate) next: String,
}

lenient_structs!(PageMetadata);

impl<K> Default for Page<K> {
    fn default() -> Self {
        Self { metadata: PageMetadata::default(), items: Vec::new() }
    }
}

/// One page of a namespace's objects: the newest there are, since a list of what an API server happens to have in its cache may be
/// older than what we know, and would not be paged.
pub(crate) async fn list<K: Object>(
    client: &Client,
    timing: &Timing,
    namespace: &str,
    next: String,
) -> Result<Page<K>, Error> {
    let params = ListParams {
        label_selector: selector(K::KIND),
        limit: Some(PAGE),
        continue_token: Some(next).filter(|next| !next.is_empty()),
        ..ListParams::default()
    };
    let request = Request::new(path(K::KIND, Some(namespace))).list(&params)?;
    let answer = async {
        let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
        if !head.status.is_success() {
            let body = Limited::new(body, MAX_REFUSAL_BYTES).collect().await.map_err(Error::Body)?.to_bytes();
            let status = serde_json::from_slice(&body).unwrap_or_default();
            return Err(Error::refused(head.status.as_u16(), &status));
        }
        // Read as it came, frame after frame: put together first, a page would be in memory twice.
        let body = body.collect().await.map_err(|error| Error::Body(error.into()))?.aggregate();
        Ok(serde_json::from_reader(body.reader())?)
    };
    tokio::time::timeout(timing.answer, answer).await.map_err(|_| Error::Slow)?
}

/// What changes from `version` on, in one namespace or in all.
pub(crate) async fn watch<K: Object>(
    client: &Client,
    timing: &Timing,
    namespace: Option<&str>,
    version: &str,
) -> Result<impl Stream<Item = Result<WatchEvent<K>, Error>>, Error> {
    let params = WatchParams {
        label_selector: selector(K::KIND),
        timeout: Some(timing.watch.as_secs().max(1) as u32),
        bookmarks: true,
        ..WatchParams::default()
    };
    let request = Request::new(path(K::KIND, namespace)).watch(&params, version)?;
    let events = tokio::time::timeout(timing.answer, client.request_events(request)).await.map_err(|_| Error::Slow)?;
    Ok(events?.map(|event| Ok(event?)))
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::refused(status.code, &status),
            kube::Error::Auth(_) => Self::Source(error.into()),
            other => Self::Client(other),
        }
    }
}

fn path(kind: Kind, namespace: Option<&str>) -> String {
    let group = match kind {
        Kind::Slices => "/apis/discovery.k8s.io/v1",
        Kind::Pods => "/api/v1",
    };
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("{group}{namespace}/{}", kind.name())
}

/// A slice of no Service is nobody's target.
fn selector(kind: Kind) -> Option<String> {
    (kind == Kind::Slices).then(|| SERVICE_NAME.to_owned())
}

/// The error and what lies beneath, each said once.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}
