//! What the process counts about itself. Handles are resolved once for each tenant and component; what a scrape does is an atomic
//! addition.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::fault::PodFault;

/// From a component that answers from memory to one that takes its whole time.
const SECONDS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// The outcome of a pod's scrape that went well.
pub(crate) const OK: &str = "ok";
const ENCODINGS: [&str; 2] = ["identity", "gzip"];
/// Why samples are not passed on.
const DROPPED: [&str; 3] = ["rule", "reserved", "names"];

/// All families, as they are registered.
#[derive(Clone)]
pub(crate) struct Families {
    requests: Family<RequestLabels, Counter>,
    request_duration: Family<ComponentLabels, Histogram, fn() -> Histogram>,
    pod_scrapes: Family<OutcomeLabels, Counter>,
    pod_scrape_duration: Family<ComponentLabels, Histogram, fn() -> Histogram>,
    upstream_bytes: Family<ComponentLabels, Counter>,
    response_bytes: Family<EncodingLabels, Counter>,
    dropped_samples: Family<ReasonLabels, Counter>,
    tokenreviews: Family<ResultLabels, Counter>,
    token_cache: Family<ResultLabels, Counter>,
    connections: Family<TenantLabels, Gauge>,
    scrapes_in_flight: Family<TenantLabels, Gauge>,
    handshake_failures: Family<CauseLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabels {
    tenant: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ComponentLabels {
    tenant: Arc<str>,
    component: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    tenant: Arc<str>,
    /// Empty for requests that are refused before the component is looked at, or name none.
    component: Arc<str>,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    tenant: Arc<str>,
    component: Arc<str>,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EncodingLabels {
    tenant: Arc<str>,
    component: Arc<str>,
    encoding: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    tenant: Arc<str>,
    component: Arc<str>,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    tenant: Arc<str>,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    reason: &'static str,
}

impl Families {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let families = Self {
            requests: Family::default(),
            request_duration: Family::new_with_constructor(histogram),
            pod_scrapes: Family::default(),
            pod_scrape_duration: Family::new_with_constructor(histogram),
            upstream_bytes: Family::default(),
            response_bytes: Family::default(),
            dropped_samples: Family::default(),
            tokenreviews: Family::default(),
            token_cache: Family::default(),
            connections: Family::default(),
            scrapes_in_flight: Family::default(),
            handshake_failures: Family::default(),
        };
        let registry = registry.sub_registry_with_prefix("sluice");
        registry.register("requests", "Requests of scrapers by the code of the answer", families.requests.clone());
        registry.register(
            "request_duration_seconds",
            "Time from a request to the last byte of its metrics",
            families.request_duration.clone(),
        );
        registry.register("pod_scrapes", "Scrapes of pods by how they ended", families.pod_scrapes.clone());
        registry.register(
            "pod_scrape_duration_seconds",
            "Time from connecting to a pod to its last byte",
            families.pod_scrape_duration.clone(),
        );
        registry.register("upstream_bytes", "Bytes of pods' bodies", families.upstream_bytes.clone());
        registry.register(
            "response_bytes",
            "Bytes of metrics sent to scrapers, as encoded",
            families.response_bytes.clone(),
        );
        registry.register(
            "dropped_samples",
            "Samples of pods that were not passed on, and why",
            families.dropped_samples.clone(),
        );
        registry.register(
            "tokenreviews",
            "Questions to the hosted API server about a token, by its answer",
            families.tokenreviews.clone(),
        );
        registry.register(
            "token_cache",
            "Tokens looked up in the cache, by what it knew",
            families.token_cache.clone(),
        );
        registry.register("connections", "Open connections of scrapers", families.connections.clone());
        registry.register("scrapes_in_flight", "Scrapes that are under way", families.scrapes_in_flight.clone());
        registry.register(
            "handshake_failures",
            "Connections that ended before a request, and why",
            families.handshake_failures.clone(),
        );
        families
    }

    /// A connection ended before there was a request.
    pub(crate) fn handshake_failed(&self, reason: &'static str) {
        self.handshake_failures.get_or_create(&CauseLabels { reason }).inc();
    }
}

/// What is counted for a tenant as a whole.
#[derive(Clone)]
pub(crate) struct TenantMetrics {
    families: Families,
    tenant: Arc<str>,
    pub(crate) connections: Gauge,
    pub(crate) scrapes_in_flight: Gauge,
    /// Not shown: the durations have a count.
    pub(crate) scrapes_ended: Counter,
}

impl TenantMetrics {
    pub(crate) fn new(families: &Families, tenant: &Arc<str>) -> Self {
        let labels = TenantLabels { tenant: Arc::clone(tenant) };
        Self {
            connections: families.connections.get_or_create_owned(&labels),
            scrapes_in_flight: families.scrapes_in_flight.get_or_create_owned(&labels),
            scrapes_ended: Counter::default(),
            families: families.clone(),
            tenant: Arc::clone(tenant),
        }
    }

    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// A request was answered with this code; `component` only where it exists and the scraper may know it.
    pub(crate) fn answered(&self, component: Option<&Arc<str>>, code: u16) {
        let component = component.cloned().unwrap_or_else(|| Arc::from(""));
        self.families
            .requests
            .get_or_create(&RequestLabels { tenant: Arc::clone(&self.tenant), component, code })
            .inc();
    }

    /// The hosted API server was asked.
    pub(crate) fn reviewed(&self, result: &'static str) {
        self.families.tokenreviews.get_or_create(&ResultLabels { tenant: Arc::clone(&self.tenant), result }).inc();
    }

    /// The cache was asked.
    pub(crate) fn looked_up(&self, result: &'static str) {
        self.families.token_cache.get_or_create(&ResultLabels { tenant: Arc::clone(&self.tenant), result }).inc();
    }

    pub(crate) fn component(&self, component: &str) -> ComponentMetrics {
        ComponentMetrics::new(&self.families, &self.tenant, &Arc::from(component))
    }
}

/// What is counted for one component.
#[derive(Clone)]
pub(crate) struct ComponentMetrics {
    families: Families,
    labels: ComponentLabels,
    pub(crate) request_duration: Histogram,
    pub(crate) pod_scrape_duration: Histogram,
    pub(crate) upstream_bytes: Counter,
    pub(crate) response_bytes_identity: Counter,
    pub(crate) response_bytes_gzip: Counter,
    pub(crate) dropped_by_rule: Counter,
    pub(crate) dropped_reserved: Counter,
    pub(crate) dropped_names: Counter,
}

impl ComponentMetrics {
    fn new(families: &Families, tenant: &Arc<str>, component: &Arc<str>) -> Self {
        let labels = ComponentLabels { tenant: Arc::clone(tenant), component: Arc::clone(component) };
        let encoding = |name| families.response_bytes.get_or_create_owned(&labels.encoding(name));
        let dropped = |name| families.dropped_samples.get_or_create_owned(&labels.reason(name));
        Self {
            families: families.clone(),
            request_duration: families.request_duration.get_or_create_owned(&labels),
            pod_scrape_duration: families.pod_scrape_duration.get_or_create_owned(&labels),
            upstream_bytes: families.upstream_bytes.get_or_create_owned(&labels),
            response_bytes_identity: encoding(ENCODINGS[0]),
            response_bytes_gzip: encoding(ENCODINGS[1]),
            dropped_by_rule: dropped(DROPPED[0]),
            dropped_reserved: dropped(DROPPED[1]),
            dropped_names: dropped(DROPPED[2]),
            labels,
        }
    }

    /// A pod's scrape ended: [`OK`], or the reason of its fault.
    pub(crate) fn pod_scraped(&self, outcome: &'static str) {
        self.families.pod_scrapes.get_or_create(&self.labels.outcome(outcome)).inc();
    }

    /// The component is configured no more: what was counted of it goes.
    pub(crate) fn forget(&self) {
        let Self { families, labels, .. } = self;
        families.request_duration.remove(labels);
        families.pod_scrape_duration.remove(labels);
        families.upstream_bytes.remove(labels);
        for encoding in ENCODINGS {
            families.response_bytes.remove(&labels.encoding(encoding));
        }
        for reason in DROPPED {
            families.dropped_samples.remove(&labels.reason(reason));
        }
        for outcome in PodFault::REASONS.into_iter().chain([OK]) {
            families.pod_scrapes.remove(&labels.outcome(outcome));
        }
        for code in 100..600 {
            families.requests.remove(&labels.code(code));
        }
    }
}

impl ComponentLabels {
    fn outcome(&self, outcome: &'static str) -> OutcomeLabels {
        let Self { tenant, component } = self.clone();
        OutcomeLabels { tenant, component, outcome }
    }

    fn encoding(&self, encoding: &'static str) -> EncodingLabels {
        let Self { tenant, component } = self.clone();
        EncodingLabels { tenant, component, encoding }
    }

    fn reason(&self, reason: &'static str) -> ReasonLabels {
        let Self { tenant, component } = self.clone();
        ReasonLabels { tenant, component, reason }
    }

    fn code(&self, code: u16) -> RequestLabels {
        let Self { tenant, component } = self.clone();
        RequestLabels { tenant, component, code }
    }
}
