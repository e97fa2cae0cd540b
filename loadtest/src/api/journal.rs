//! What the server was asked.

use std::collections::{BTreeMap, VecDeque};

/// How many requests are remembered in full: enough for any test, and a load test of hours does not fill the memory.
/// Beyond it the oldest are forgotten; the counts go on.
const REMEMBERED: usize = 100_000;

/// A request as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRequest {
    /// The verb of Kubernetes (`get`, `list`, `watch`, …); empty if the path is none of a resource.
    pub verb: &'static str,
    /// The group of the resource; empty for the core group.
    pub group: String,
    /// The resource with its subresource, `pods` or `pods/status`; empty if the path is none of a resource.
    pub resource: String,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// Everything behind the question mark.
    pub query: String,
    /// The token the client showed.
    pub bearer: Option<String>,
    /// Whether the client showed a certificate.
    pub certificate: bool,
    /// Who the client said it is.
    pub user_agent: String,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    requests: VecDeque<ApiRequest>,
    counts: BTreeMap<(&'static str, String), usize>,
}

impl Journal {
    pub(super) fn record(&mut self, request: ApiRequest) {
        *self.counts.entry((request.verb, request.resource.clone())).or_default() += 1;
        self.requests.push_back(request);
        if self.requests.len() > REMEMBERED {
            self.requests.pop_front();
        }
    }

    pub(super) fn count(&self, verb: &str, resource: &str) -> usize {
        let wanted = |(known, of): &(&str, String)| *known == verb && of == resource;
        self.counts.iter().filter(|(key, _)| wanted(key)).map(|(_, count)| count).sum()
    }

    pub(super) fn counts(&self) -> BTreeMap<(&'static str, String), usize> {
        self.counts.clone()
    }

    pub(super) fn requests(&self) -> Vec<ApiRequest> {
        self.requests.iter().cloned().collect()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
