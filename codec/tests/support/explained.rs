//! What the explainer says, against what a merge of that pod alone does.

use std::collections::BTreeSet;

use sluice_codec::{Counts, Declaration, DropReason, Explainer, Fate, PodError, TargetLabels, Unwritten};

use super::model::{PodInput, Settings};
use super::{Chunking, options, run};

/// All that was said about a body, put together.
#[derive(Default)]
pub struct Summary {
    /// What the kept samples and their metadata come to.
    pub written: Vec<u8>,
    pub counts: Counts,
    pub error: Option<PodError>,
}

/// Explains a whole body, and checks what can be checked without knowing what it should come to.
pub fn explain(pod: &PodInput, settings: &Settings) -> Summary {
    let mut explainer = explainer(pod, settings);
    let mut summary = Summary::default();
    let mut kept = 0;
    // Metadata lines of which it is not known yet whether they are written.
    let mut open = BTreeSet::new();
    let close = |open: &mut BTreeSet<u64>, unwritten: &[Unwritten]| {
        for line in unwritten {
            assert!(open.remove(&line.number), "{line:?} was not pending");
        }
    };
    for (index, line) in pod.body.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let told = explainer.line(line);
        assert_eq!(told.number, index as u64 + 1);
        close(&mut open, &told.unwritten);
        match told.fate {
            Fate::Help(Declaration::Pending) | Fate::Type(Declaration::Pending) => {
                open.insert(told.number);
            }
            Fate::Kept(sample) => {
                assert_eq!(sample.output.split_inclusive(|byte| *byte == b'\n').count(), 1);
                summary.written.extend_from_slice(sample.metadata);
                summary.written.extend_from_slice(sample.output);
                kept += 1;
                for number in &sample.brings {
                    assert!(open.remove(number), "line {number} was not pending");
                }
                let metadata = sample.metadata.split_inclusive(|byte| *byte == b'\n').count();
                assert!(sample.brings.len() <= metadata, "{:?} bring {metadata}", sample.brings);
            }
            Fate::Dropped(dropped) => {
                assert_eq!(dropped.reason == DropReason::Rule, dropped.refusal.is_some(), "{dropped:?}");
            }
            Fate::Failed(failure) => {
                assert_eq!((failure.error.line, summary.error.take()), (told.number, None));
                let start: usize = pod.body.split_inclusive(|byte| *byte == b'\n').take(index).map(<[u8]>::len).sum();
                assert_eq!(start as u64 + failure.column - 1, failure.error.offset);
                summary.error = Some(failure.error);
            }
            Fate::Unread => assert!(summary.error.is_some()),
            _ => {}
        }
    }
    close(&mut open, &explainer.end());
    assert!(open.is_empty(), "lines {open:?} are neither written nor said to be unwritten");
    summary.counts = explainer.counts();
    let Counts { samples, dropped_by_rule, dropped_reserved, dropped_names } = summary.counts;
    assert_eq!(kept, samples - dropped_by_rule - dropped_reserved - dropped_names);
    summary
}

/// Asserts that the explainer has every sample, count and fault that the merge of this pod has, and no other.
pub fn assert_like_merged(pod: &PodInput, settings: &Settings) {
    // Nobody explains half a line.
    if pod.truncated {
        return;
    }
    let summary = explain(pod, settings);
    let (response, outcomes) = run(std::slice::from_ref(pod), settings, &Chunking::Whole);
    let (written, rest) = response.split_at_checked(summary.written.len()).unwrap_or((&response, b""));
    assert_eq!(summary.written.escape_ascii().to_string(), written.escape_ascii().to_string(), "explained and merged");
    assert!(rest.starts_with(b"# HELP metrics_aggregator_pod_scrape_errors_total "), "{}", rest.escape_ascii());
    assert_eq!((summary.counts, &summary.error), (outcomes[0].counts, &outcomes[0].error));
}

pub fn explainer(pod: &PodInput, settings: &Settings) -> Explainer {
    let labels = pod.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Explainer::new(TargetLabels::new(labels).unwrap(), &options(settings))
}
