//! One component of a tenant: everything a scrape of it needs, ready made.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use sluice_codec::{Merge, MergeOptions, Names};
use sluice_config::IdentityLabels;
use sluice_discovery::{Target, Targets};
use tracing::{debug, info, warn};

use crate::fanout::PodResult;
use crate::fault::PodFault;
use crate::metrics::{self, ComponentMetrics};
use crate::upstream::Upstream;

/// How long the counter of a pod that is gone is kept: a pod that comes back under its name within that goes on counting.
const FORGET_AFTER: Duration = Duration::from_mins(10);

/// A component, as of one load of the configuration.
pub(crate) struct Component {
    pub(crate) name: Arc<str>,
    pub(crate) tenant: Arc<str>,
    /// Our own pod's name.
    pub(crate) proxy: Arc<str>,
    pub(crate) emit_up: bool,
    pub(crate) labels: IdentityLabels,
    pub(crate) pod_labels: Vec<String>,
    /// For a scraper with legacy names.
    pub(crate) options: MergeOptions,
    pub(crate) targets: Targets,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) scheme: &'static str,
    pub(crate) timeout: Duration,
    pub(crate) metrics: ComponentMetrics,
    /// Outlives reloads.
    pub(crate) history: Arc<History>,
}

/// What is remembered of a component's pods from scrape to scrape.
#[derive(Default)]
pub(crate) struct History {
    pods: Mutex<BTreeMap<String, PodHistory>>,
}

/// What is remembered of one pod.
#[derive(Clone)]
pub(crate) struct PodHistory {
    /// True counter of failed scrapes, from 0.
    pub(crate) errors: u64,
    pub(crate) at: SystemTime,
    pub(crate) duration: Duration,
    pub(crate) bytes: u64,
    pub(crate) samples: u64,
    /// Of the last scrape: reason and what there is to say.
    pub(crate) fault: Option<(&'static str, String)>,
}

impl Component {
    /// A merge of these pods for a scraper that can read these names.
    pub(crate) fn merge(&self, targets: &[Target], names: Names) -> Merge {
        let options = MergeOptions { names, ..self.options.clone() };
        let labels = targets.iter().map(|target| {
            let labels = self.labels.of_pod(&self.pod_labels, &target.pod, &target.address.to_string());
            // The names were checked with the configuration, and any text can be a value; so this is never empty.
            labels.unwrap_or_default()
        });
        Merge::new(labels, &options)
    }

    /// Counts a pod's scrape and remembers it; gives the pod's count of errors.
    pub(crate) fn record(&self, result: &PodResult<'_>) -> u64 {
        let counts = result.outcome.counts;
        let ComponentMetrics { pod_scrape_duration, upstream_bytes, .. } = &self.metrics;
        self.metrics.pod_scraped(result.fault.map_or(metrics::OK, PodFault::reason));
        pod_scrape_duration.observe(result.duration.as_secs_f64());
        upstream_bytes.inc_by(result.bytes);
        self.metrics.dropped_by_rule.inc_by(counts.dropped_by_rule);
        self.metrics.dropped_reserved.inc_by(counts.dropped_reserved);
        self.metrics.dropped_names.inc_by(counts.dropped_names);
        let cancelled = matches!(result.fault, Some(PodFault::Cancelled));
        let mut pods = self.history.pods();
        let before = pods.get(&result.target.pod);
        let errors = before.map_or(0, |before| before.errors);
        if cancelled {
            return errors;
        }
        self.log(result, before);
        let errors = errors + u64::from(result.fault.is_some());
        let now = PodHistory {
            errors,
            at: SystemTime::now(),
            duration: result.duration,
            bytes: result.bytes,
            samples: counts.samples,
            fault: result.fault.map(|fault| (fault.reason(), fault.to_string())),
        };
        match pods.get_mut(&result.target.pod) {
            Some(entry) => *entry = now,
            None => {
                pods.insert(result.target.pod.clone(), now);
            }
        }
        errors
    }

    /// Says when a pod begins to fail, fails in another way, or is well again; what merely goes on is no news.
    fn log(&self, result: &PodResult<'_>, before: Option<&PodHistory>) {
        let (tenant, component, pod) = (&*self.tenant, &*self.name, &*result.target.pod);
        let reason_before = before.and_then(|before| before.fault.as_ref()).map(|fault| fault.0);
        match result.fault {
            Some(fault) if reason_before == Some(fault.reason()) => {
                debug!(tenant, component, pod, reason = fault.reason(), error = %fault, "the pod still fails");
            }
            Some(fault) => {
                let address = result.target.address;
                warn!(tenant, component, pod, %address, reason = fault.reason(), error = %fault, duration = ?result.duration, "the pod failed");
            }
            None if reason_before.is_some() => info!(tenant, component, pod, "the pod is well again"),
            None => {}
        }
    }
}

impl History {
    /// Forgets pods that are gone and were not scraped for a while.
    pub(crate) fn forget_gone(&self, targets: &[Target]) {
        let now = SystemTime::now();
        self.pods().retain(|pod, history| {
            let is_known = targets.binary_search_by(|target| target.pod.as_str().cmp(pod)).is_ok();
            is_known || now.duration_since(history.at).is_ok_and(|age| age < FORGET_AFTER)
        });
    }

    /// What is remembered of this pod.
    pub(crate) fn of(&self, pod: &str) -> Option<PodHistory> {
        self.pods().get(pod).cloned()
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, PodHistory>> {
        // A panic while it was held ends the process, in release; in tests the map is as good as before.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
