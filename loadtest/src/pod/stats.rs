//! What a pod remembers of those who came.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::watch;

use super::{Pod, lock};

/// A pod's counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodStats {
    /// Connections accepted since the start.
    pub accepted: usize,
    /// Connections open now.
    pub open: usize,
    /// TLS handshakes that failed since the start.
    pub failed_handshakes: usize,
    /// Requests read in full since the start.
    pub requests: usize,
    /// Answers sent in full, as the behaviour would have them, since the start.
    pub answered: usize,
    /// Bytes given to sockets since the start, before encryption.
    pub sent: u64,
}

/// A request as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// E.g. `GET`.
    pub method: String,
    /// Up to the question mark.
    pub path: String,
    /// Behind the question mark, if there is one.
    pub query: Option<String>,
    /// In their order and spelling.
    pub headers: Vec<(String, String)>,
    /// Of the certificate that the client showed, if it did.
    pub client_cert_common_name: Option<String>,
}

impl Request {
    /// The value of the first header of this name, in whatever case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

pub(super) struct Recorder {
    stats: watch::Sender<PodStats>,
    requests: Mutex<VecDeque<Request>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { stats: watch::Sender::new(PodStats::default()), requests: Mutex::default() }
    }
}

impl Recorder {
    pub(super) fn stats(&self) -> PodStats {
        *self.stats.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<PodStats> {
        self.stats.subscribe()
    }

    pub(super) fn requests(&self) -> Vec<Request> {
        lock(&self.requests).iter().cloned().collect()
    }

    pub(super) fn accepted(&self) {
        self.stats.send_modify(|stats| {
            stats.accepted += 1;
            stats.open += 1;
        });
    }

    pub(super) fn closed(&self) {
        self.stats.send_modify(|stats| stats.open -= 1);
    }

    pub(super) fn failed_handshake(&self) {
        self.stats.send_modify(|stats| stats.failed_handshakes += 1);
    }

    pub(super) fn requested(&self, request: Request) {
        let mut requests = lock(&self.requests);
        if requests.len() == Pod::REQUESTS_KEPT {
            requests.pop_front();
        }
        requests.push_back(request);
        drop(requests);
        self.stats.send_modify(|stats| stats.requests += 1);
    }

    pub(super) fn answered(&self) {
        self.stats.send_modify(|stats| stats.answered += 1);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.stats.send_modify(|stats| stats.sent += bytes as u64);
    }
}
