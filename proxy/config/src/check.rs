//! Whether a configuration makes sense: everything that does not, each thing by its path.

use std::collections::BTreeSet;

use sluice_codec::Rules;

use crate::component::{Component, LabelSelector, Operator, Scheme};
use crate::error::Problem;
use crate::tenant::Tenant;

/// All problems, in the order of the keys.
pub(crate) fn check(tenant: &Tenant) -> Vec<Problem> {
    let mut problems = Problems::default();
    check_hostnames(&tenant.hostnames, &mut problems);
    check_authentication(tenant, &mut problems);
    if tenant.pod_labels.is_empty() {
        problems.add("podLabels", "at least one label must carry the pod's name");
    }
    let limits = tenant.limits;
    for (key, value) in [
        ("concurrentScrapes", limits.concurrent_scrapes),
        ("connections", limits.connections),
        ("tokenReviewsPerSecond", limits.token_reviews_per_second),
    ] {
        if value == 0 {
            problems.add(&format!("limits.{key}"), "0 would let nobody in");
        }
    }
    if tenant.components.is_empty() {
        problems.add("components", "at least one is needed");
    }
    let discovered = tenant.components.values().any(|component| component.targets.is_empty());
    if discovered && tenant.discovery.is_none() {
        problems.add("discovery", "is needed, since not all components name their targets");
    }
    if let Some(namespace) = tenant.discovery.as_ref().map(|discovery| &discovery.namespace)
        && !is_namespace(namespace)
    {
        problems.add("discovery.namespace", &format!("{namespace:?} is no name that a namespace can have"));
    }
    for (name, component) in &tenant.components {
        problems.within(&format!("components.{name}"), |problems| {
            check_name(name, problems);
            check_component(component, &tenant.pod_labels, problems);
        });
    }
    problems.found
}

/// As Kubernetes has it: a DNS label in lower case.
fn is_namespace(name: &str) -> bool {
    let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(letters) && !name.starts_with('-') && !name.ends_with('-')
}

fn check_hostnames(hostnames: &[String], problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (place, name) in hostnames.iter().enumerate() {
        let path = format!("hostnames[{place}]");
        let is_label = |label: &str| {
            let letters = label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            !label.is_empty() && label.len() <= 63 && letters && !label.starts_with('-') && !label.ends_with('-')
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            problems.add(&path, &format!("{name:?} is no DNS name"));
        } else if !seen.insert(name.to_ascii_lowercase()) {
            problems.add(&path, &format!("{name:?} stands twice"));
        }
    }
}

fn check_authentication(tenant: &Tenant, problems: &mut Problems) {
    let authentication = &tenant.authentication;
    if authentication.token_review.is_none() && authentication.client_certificate.is_none() {
        problems.add("authentication", "tokenReview or clientCertificate is needed");
    }
    if let Some(review) = &authentication.token_review {
        check_authorized("authentication.tokenReview", &review.authorized, problems);
        if review.audiences.iter().any(String::is_empty) {
            problems.add("authentication.tokenReview.audiences", "an audience is empty");
        }
        if review.cache_ttl.0.is_zero() {
            problems.add("authentication.tokenReview.cacheTTL", "0 would ask the API server about every scrape");
        }
    }
    if let Some(client) = &authentication.client_certificate {
        check_authorized("authentication.clientCertificate", &client.authorized, problems);
    }
}

/// An empty list could be meant as "nobody" or as "everybody"; it must not be guessed.
fn check_authorized(path: &str, authorized: &[String], problems: &mut Problems) {
    if authorized.is_empty() || authorized.iter().any(String::is_empty) {
        problems.add(&format!("{path}.authorized"), "must name who is let in");
    }
}

/// The name is a segment of the path that scrapers ask for.
fn check_name(name: &str, problems: &mut Problems) {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.is_empty() || !name.bytes().all(allowed) || name.bytes().all(|b| b == b'.') {
        problems.add("", "a component's name is made of letters, digits, '-', '_' and '.'");
    }
}

fn check_component(component: &Component, pod_labels: &[String], problems: &mut Problems) {
    check_pods(component, problems);
    if !component.path.starts_with('/') || component.path.contains(['?', '#', ' ']) {
        problems.add("path", "must begin with '/' and have no query (that is what params is for)");
    }
    check_tls(component, problems);
    check_labels(component, pod_labels, problems);
    for (place, relabeling) in component.metric_relabelings.iter().enumerate() {
        if let Err(error) = Rules::compile(&[relabeling.to_rule()]) {
            problems.add(&format!("metricRelabelings[{place}].regex"), &format!("{:?}: {}", error.regex, error.reason));
        }
    }
    let line_bytes = component.limits.line_bytes.0;
    if line_bytes == 0 || u32::try_from(line_bytes).is_err() {
        problems.add("limits.lineBytes", "must be between 1 byte and 4 GiB: it bounds memory");
    }
    if component.timeout.0.is_zero() {
        problems.add("timeout", "0 leaves no time to scrape");
    }
}

fn check_pods(component: &Component, problems: &mut Problems) {
    let ways = [component.service.is_some(), component.pod_selector.is_some(), !component.targets.is_empty()];
    if ways.iter().filter(|way| **way).count() != 1 {
        problems.add("", "exactly one of service, podSelector and targets is needed");
    }
    match (component.targets.is_empty(), &component.port) {
        (true, None) => problems.add("port", "is needed with service and podSelector"),
        (false, Some(_)) => problems.add("port", "is part of each target's address"),
        _ => {}
    }
    if component.service.as_ref().is_some_and(String::is_empty) {
        problems.add("service", "is empty");
    }
    if let Some(selector) = &component.pod_selector {
        check_selector(selector, problems);
    }
    let mut pods = BTreeSet::new();
    for (place, target) in component.targets.iter().enumerate() {
        if target.pod.is_empty() {
            problems.add(&format!("targets[{place}].pod"), "is empty");
        } else if !pods.insert(&target.pod) {
            problems.add(&format!("targets[{place}].pod"), &format!("{:?} stands twice", target.pod));
        }
    }
}

fn check_selector(selector: &LabelSelector, problems: &mut Problems) {
    if selector.match_labels.is_empty() && selector.match_expressions.is_empty() {
        problems.add("podSelector", "would select every pod of the namespace");
    }
    for (place, expression) in selector.match_expressions.iter().enumerate() {
        let path = format!("podSelector.matchExpressions[{place}]");
        let wants_values = matches!(expression.operator, Operator::In | Operator::NotIn);
        if expression.key.is_empty() {
            problems.add(&format!("{path}.key"), "is empty");
        }
        if wants_values == expression.values.is_empty() {
            problems.add(&format!("{path}.values"), "are for In and NotIn, which need at least one");
        }
    }
}

fn check_tls(component: &Component, problems: &mut Problems) {
    match (component.scheme, &component.tls_config) {
        (Scheme::Http, Some(_)) => problems.add("tlsConfig", "is of no use with scheme http"),
        (Scheme::Https, None) => problems.add("tlsConfig", "is needed with scheme https: at least caFile"),
        (Scheme::Https, Some(tls)) => {
            if tls.ca_file.is_none() {
                problems.add("tlsConfig.caFile", "is needed: pods' certificates are not signed by public authorities");
            }
            if tls.cert_file.is_some() != tls.key_file.is_some() {
                problems.add("tlsConfig", "certFile and keyFile are needed together");
            }
        }
        (Scheme::Http, None) => {}
    }
}

/// The codec has the last word on labels; pod and instance are only known later, so any value stands for them.
fn check_labels(component: &Component, pod_labels: &[String], problems: &mut Problems) {
    if let Err(error) = component.labels.of_pod(pod_labels, "pod", "instance") {
        problems.add("labels", &error.to_string());
    }
}

/// Collects problems below a common path.
#[derive(Default)]
struct Problems {
    found: Vec<Problem>,
    prefix: String,
}

impl Problems {
    fn add(&mut self, path: &str, message: &str) {
        let path = match (self.prefix.is_empty(), path.is_empty()) {
            (true, _) => path.to_string(),
            (false, true) => self.prefix.clone(),
            (false, false) => format!("{}.{path}", self.prefix),
        };
        self.found.push(Problem { path, message: message.into() });
    }

    fn within(&mut self, prefix: &str, check: impl FnOnce(&mut Self)) {
        self.prefix = prefix.into();
        check(self);
        self.prefix.clear();
    }
}
