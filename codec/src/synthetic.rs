//! The families that are ours: how each pod's scrape went.

use crate::labels::TargetLabels;
use crate::text;

const ERRORS: &str = "metrics_aggregator_pod_scrape_errors_total";
const UP: &str = "up";

/// Whether samples of this name are written by the merge, and hence not by pods.
pub(crate) fn is_reserved(name: &[u8]) -> bool {
    name == UP.as_bytes() || name == ERRORS.as_bytes()
}

/// One pod's part.
pub(crate) struct PodReport<'a> {
    pub(crate) labels: &'a TargetLabels,
    pub(crate) up: bool,
    pub(crate) errors_total: u64,
}

/// Appends the error counter of every pod, for `component` as seen by this `proxy`.
pub(crate) fn write_errors(out: &mut Vec<u8>, pods: &[PodReport<'_>], component: &str, proxy: &str) {
    out.extend_from_slice(
        b"# HELP metrics_aggregator_pod_scrape_errors_total Total number of pod scrape errors per component and pod.\n",
    );
    out.extend_from_slice(b"# TYPE metrics_aggregator_pod_scrape_errors_total counter\n");
    let mut source = b"component=\"".to_vec();
    text::escape_into(&mut source, component.as_bytes());
    source.extend_from_slice(b"\",proxy=\"");
    text::escape_into(&mut source, proxy.as_bytes());
    source.push(b'"');
    for pod in pods {
        write_sample(out, ERRORS, pod.labels.text(), &source, pod.errors_total);
    }
}

/// Appends `up` of every pod: 1 if its body was read to its end.
pub(crate) fn write_up(out: &mut Vec<u8>, pods: &[PodReport<'_>]) {
    out.extend_from_slice(b"# HELP up 1 if the pod was scraped successfully, 0 if the scrape failed.\n");
    out.extend_from_slice(b"# TYPE up gauge\n");
    for pod in pods {
        write_sample(out, UP, pod.labels.text(), b"", pod.up.into());
    }
}

fn write_sample(out: &mut Vec<u8>, name: &str, labels: &[u8], more: &[u8], value: u64) {
    out.extend_from_slice(name.as_bytes());
    if !(labels.is_empty() && more.is_empty()) {
        out.push(b'{');
        out.extend_from_slice(labels);
        if !labels.is_empty() && !more.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(more);
        out.push(b'}');
    }
    out.push(b' ');
    out.extend_from_slice(value.to_string().as_bytes());
    out.push(b'\n');
}
