//! What a good scrape has in it, worked out without the proxy's own code.

use regex::Regex;

use super::rules::{Action, Rule};
use crate::scraper::{Sample, parse};

/// What a good scrape of a component has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Pods that are up.
    pub pods: usize,
    /// Samples that the pods have together.
    pub samples: usize,
    /// Those of them that pass the rules.
    pub kept: usize,
}

impl Expected {
    /// All samples of the answer: `up` and the count of errors come to each pod's own.
    pub fn answered(&self) -> usize {
        self.kept + 2 * self.pods
    }
}

pub(super) fn expected(body: &[u8], pods: usize, rules: &[Rule]) -> Expected {
    let samples = parse(body).unwrap_or_else(|bad| panic!("a pod's body: {bad}"));
    let compiled: Vec<(&Rule, Regex)> = rules.iter().map(|rule| (rule, whole(rule.regex))).collect();
    let passes = |sample: &&Sample| {
        compiled.iter().all(|(rule, regex)| {
            let values: Vec<&str> = rule.source_labels.iter().map(|label| value(sample, label)).collect();
            regex.is_match(&values.join(";")) == (rule.action == Action::Keep)
        })
    };
    let kept = samples.iter().filter(passes).count();
    Expected { pods, samples: samples.len() * pods, kept: kept * pods }
}

fn value<'a>(sample: &'a Sample, label: &str) -> &'a str {
    if label == "__name__" { &sample.name } else { sample.label(label) }
}

/// Prometheus' rules match as a whole.
fn whole(regex: &str) -> Regex {
    Regex::new(&format!("^(?s:{regex})$")).unwrap_or_else(|error| panic!("rule {regex:?}: {error}"))
}
