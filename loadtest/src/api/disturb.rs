//! What can be done to the server from outside, and what is seen of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::ApiServer;
use super::journal::ApiRequest;
use super::listen::Door;
use super::review::{Account, Identity, ReviewMode};
use super::status::Failure;
use super::storage::Signal;

/// How long is waited for what a test waits for: far longer than any of it takes on a machine that is busy, and short enough
/// that a test that hangs is seen to. After it the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's mood.
#[derive(Debug, Default)]
pub(super) struct Knobs {
    pub(super) fail_with: Option<u16>,
    pub(super) refuse_expired: bool,
    forbidden: Vec<(String, String)>,
}

impl Knobs {
    pub(super) fn forbids(&self, verb: &str, resource: &str) -> bool {
        self.forbidden.iter().any(|(v, r)| v == verb && r == resource)
    }
}

/// Disturbances.
impl ApiServer {
    /// Cuts the connections of all watches with a TCP reset.
    pub fn drop_watches(&self) {
        let connections = self.shared().store().watched_connections();
        for connection in connections {
            connection.cancel();
        }
    }

    /// Ends all watches as if their time were over.
    pub fn end_watches(&self) {
        self.shared().store().signal_all(&Signal::End);
    }

    /// Ends all watches with an error event 410.
    pub fn expire_watches(&self) {
        let store = self.shared().store();
        store.signal_all(&Signal::Fail(Failure::too_old(store.version(), store.version() + 1)));
    }

    /// Silences all watches, as when the other side dies without a word: connections stay open, nothing is ever sent, not even
    /// headers to those that come while this is on. Watches silenced once stay silent; turned off, new ones are served again.
    pub fn freeze_watches(&self, frozen: bool) {
        let mut store = self.shared().store();
        store.frozen = frozen;
        if frozen {
            store.signal_all(&Signal::Freeze);
        }
    }

    /// Forgets all changes, so that watches and lists at older resource versions are answered 410.
    pub fn compact(&self) {
        self.shared().store().compact();
    }

    /// Answers a watch of an expired resource version with the HTTP status 410 instead of 200 and an error event, which is
    /// what Kubernetes' watch cache does. Lists are always refused by the status. kube's watcher only lists anew after the
    /// event; at the status it asks again for the same version, for ever, unless its user begins a new one.
    pub fn refuse_expired_watches(&self, refuse: bool) {
        self.shared().knobs().refuse_expired = refuse;
    }

    /// Answers every request with this status; watches that run go on.
    pub fn fail_with(&self, code: Option<u16>) {
        self.shared().knobs().fail_with = code;
    }

    /// Answers 403 to this verb on this resource (`"watch"`, `"pods"`), until [`allow_all`](Self::allow_all).
    pub fn forbid(&self, verb: &str, resource: &str) {
        self.shared().knobs().forbidden.push((verb.into(), resource.into()));
    }

    /// Takes back all that was forbidden.
    pub fn allow_all(&self) {
        self.shared().knobs().forbidden.clear();
    }

    /// Cuts all connections and refuses new ones. What is stored stays.
    pub async fn stop(&self) {
        let mut door = self.inner.door.lock().await;
        door.close(self.address()).await.unwrap_or_else(|error| panic!("{}: cannot stop: {error}", self.address()));
    }

    /// Listens again, at the same address.
    pub async fn start_again(&self) {
        let mut door = self.inner.door.lock().await;
        if let Door::Open { .. } = *door {
            return;
        }
        let (spare, _) = Door::bind((self.address().ip(), 0).into()).expect("the address of a running server");
        if let Door::Closed(socket) = std::mem::replace(&mut *door, Door::Closed(spare)) {
            *door = Door::open(socket, self.shared(), self.inner.tls.as_ref())
                .unwrap_or_else(|error| panic!("{}: cannot listen again: {error}", self.address()));
        }
    }
}

/// Tokens.
impl ApiServer {
    /// From now on a review of this token answers with this identity.
    pub fn add_token(&self, token: &str, identity: Identity) {
        self.shared().tokens().add(token, identity);
    }

    /// From now on this token is unknown.
    pub fn remove_token(&self, token: &str) {
        self.shared().tokens().remove(token);
    }

    /// Issues a token for a service account, which must exist, as a `TokenRequest` does, but of any lifetime.
    pub fn issue_token(&self, namespace: &str, name: &str, audiences: &[&str], lifetime: Duration) -> String {
        let account = self.get("v1", "ServiceAccount", namespace, name);
        let account = account.unwrap_or_else(|| panic!("there is no ServiceAccount {namespace}/{name}"));
        let audiences: Vec<String> = audiences.iter().map(|&audience| audience.to_owned()).collect();
        let uid = account["metadata"]["uid"].as_str().unwrap_or("");
        self.shared().tokens().issue(&Account { namespace, name, uid }, &audiences, lifetime)
    }

    /// How token reviews are answered from now on; those that hang are let go by any mode but [`ReviewMode::Hang`].
    pub fn answer_reviews(&self, mode: ReviewMode) {
        self.shared().review_mode.send_replace(mode);
    }

    /// How many token reviews there were, answered or not.
    pub fn reviews(&self) -> usize {
        self.shared().tokens().reviews()
    }

    /// How many of them were about this token.
    pub fn reviews_of(&self, token: &str) -> usize {
        self.shared().tokens().reviews_of(token)
    }
}

/// What is seen.
impl ApiServer {
    /// The watches that are open now, silent ones too, by resource.
    pub fn watches(&self) -> BTreeMap<String, usize> {
        self.shared().store().watches()
    }

    /// How many watches of a resource (`"pods"`) are open now.
    pub fn watches_of(&self, resource: &str) -> usize {
        self.watches().get(resource).copied().unwrap_or(0)
    }

    /// How many requests of this verb there were for a resource, `"pods"` or `"pods/status"`.
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        self.shared().journal().count(verb, resource)
    }

    /// The numbers of requests by verb and resource.
    pub fn counts(&self) -> BTreeMap<(&'static str, String), usize> {
        self.shared().journal().counts()
    }

    /// The requests in the order they came.
    pub fn requests(&self) -> Vec<ApiRequest> {
        self.shared().journal().requests()
    }

    /// Begins to count and to list anew.
    pub fn forget_requests(&self) {
        self.shared().journal().clear();
    }

    /// Waits until a number of watches of a resource is open.
    pub async fn wait_for_watches(&self, resource: &str, count: usize) {
        self.wait(&format!("{count} watches of {resource}"), || self.watches_of(resource) == count).await;
    }

    /// Waits until there were at least so many requests.
    pub async fn wait_for_requests(&self, verb: &str, resource: &str, count: usize) {
        self.wait(&format!("{count} × {verb} {resource}"), || self.count(verb, resource) >= count).await;
    }

    /// Waits until something is true; a test in which that does not happen fails with `what` and what the server saw.
    pub async fn wait(&self, what: &str, is_true: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_true() {
            assert!(
                begun.elapsed() < PATIENCE,
                "waited in vain for {what}; watches: {:?}; requests: {:?}",
                self.watches(),
                self.counts()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}
