//! The stream of a watch.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http_body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::Shared;
use super::path::Query;
use super::render::View;
use super::resource::Resource;
use super::status::Failure;
use super::storage::{Signal, Start};

/// How long a watch lasts that does not say: the least of what Kubernetes takes (it draws between 30 and 60 minutes).
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(30);

/// What the parameters of a watch ask for.
#[derive(Debug)]
pub(super) struct Params {
    pub(super) start: Start,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
}

impl Params {
    pub(super) fn of(query: &Query, resource: &Resource) -> Result<Self, Failure> {
        let bookmarks = query.flag("allowWatchBookmarks");
        let version = version(query.get("resourceVersion"))?;
        let forbidden = |field: &str, problem: &str| {
            let problem = format!("Forbidden: {problem}");
            Err(Failure::invalid(resource, "", field, &problem))
        };
        let asked = query.says("sendInitialEvents");
        match query.get("resourceVersionMatch") {
            Some("NotOlderThan") if asked => {}
            None if !asked => {}
            None => {
                let problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                return forbidden("resourceVersionMatch", problem);
            }
            Some(_) => {
                return forbidden(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless \
                    sendInitialEvents is provided",
                );
            }
        }
        let start = match (asked.then(|| query.flag("sendInitialEvents")), version) {
            // The state sent is always the newest, hence never older than what was asked for.
            (Some(true), _) => Start::Initial { marked: bookmarks },
            (None, None | Some(0)) => Start::Initial { marked: false },
            (Some(false), None | Some(0)) => Start::Now,
            (_, Some(version)) => Start::After(version),
        };
        let timeout =
            query.get("timeoutSeconds").and_then(|seconds| seconds.parse().ok()).filter(|seconds| *seconds > 0);
        Ok(Self { start, bookmarks, timeout: timeout.map_or(DEFAULT_TIMEOUT, Duration::from_secs) })
    }
}

/// A resource version in a parameter.
pub(super) fn version(text: Option<&str>) -> Result<Option<u64>, Failure> {
    let parse = |text: &str| {
        text.parse().map_err(|_| Failure::bad_request(format!("Invalid value: {text:?}: invalid resource version")))
    };
    text.map(parse).transpose()
}

/// A watch that is being served; it is counted until it is dropped.
pub(super) struct Watch {
    registration: Registration,
    signals: mpsc::UnboundedReceiver<Signal>,
    bookmarks: Option<Interval>,
    deadline: Instant,
    resource: Arc<Resource>,
    view: View,
}

/// Ends the registration of a watch when its stream is dropped, whoever drops it.
pub(super) struct Registration {
    pub(super) shared: Arc<Shared>,
    pub(super) number: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.store().unwatch(self.number);
    }
}

impl Watch {
    pub(super) fn new(
        registration: Registration,
        signals: mpsc::UnboundedReceiver<Signal>,
        resource: Arc<Resource>,
        params: &Params,
        view: View,
    ) -> Self {
        let every = registration.shared.options.bookmark_interval;
        let bookmarks = params.bookmarks.then(|| {
            let mut interval = interval_at(Instant::now() + every, every);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        Self { registration, signals, bookmarks, deadline: Instant::now() + params.timeout, resource, view }
    }

    /// The frames of the body: one line of JSON each.
    pub(super) fn into_frames(self) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
        futures_util::stream::unfold(Some(self), |watch| async {
            let mut watch = watch?;
            let (line, is_last) = watch.next().await?;
            let mut bytes = line.to_string().into_bytes();
            bytes.push(b'\n');
            Some((Ok(Frame::data(Bytes::from(bytes))), (!is_last).then_some(watch)))
        })
    }

    /// The next event and whether it is the last; none at a clean end.
    async fn next(&mut self) -> Option<(Value, bool)> {
        loop {
            let signal = tokio::select! {
                biased;
                signal = self.signals.recv() => signal?,
                () = tick(self.bookmarks.as_mut()) => {
                    // By way of the signals, so that it comes behind all events of older versions.
                    self.registration.shared.store().bookmark(self.registration.number);
                    continue;
                }
                () = sleep_until(self.deadline) => return None,
            };
            match signal {
                Signal::Event(kind, object) => {
                    return Some((json!({"type": kind, "object": self.view.object(&object)}), false));
                }
                Signal::Bookmark { version, initial } => {
                    return Some((json!({"type": "BOOKMARK", "object": self.bookmark(version, initial)}), false));
                }
                Signal::Fail(failure) => return Some((json!({"type": "ERROR", "object": failure.body()}), true)),
                Signal::End => return None,
                Signal::Freeze => std::future::pending().await,
            }
        }
    }

    fn bookmark(&self, version: u64, initial: bool) -> Value {
        let mut object = self.resource.bookmark();
        object["metadata"] = json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if initial {
            object["metadata"]["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        self.view.object(&object)
    }
}

async fn tick(interval: Option<&mut Interval>) {
    match interval {
        Some(interval) => drop(interval.tick().await),
        None => std::future::pending().await,
    }
}
