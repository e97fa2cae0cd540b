//! The merge: pods' streams become one, family by family.
//!
//! ```text
//! until all pods are over:
//!     let every pod find its next block                (asking for bytes where it has none)
//!     take the smallest family name among the blocks
//!     for each type that the pods with this block give it, the first pod's first:
//!         write HELP (once) and TYPE
//!         let each of these pods write its block       (asking for bytes, handing out full frames)
//! ```
//!
//! A pod that is ahead is not asked for bytes until its family's turn comes: that is what keeps memory flat.

use std::sync::Arc;

use bytes::Bytes;

use crate::block::Counts;
use crate::error::PodError;
use crate::family::{self, MetricType};
use crate::labels::TargetLabels;
use crate::limits::Limits;
use crate::pod::{Copied, Pod, Seek};
use crate::rules::Rules;
use crate::synthetic::{self, PodReport};
use crate::writer::Head;
use crate::{Format, Names};

/// What the pods of one response have in common.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// Samples these drop do not appear.
    pub rules: Arc<Rules>,
    /// An exporter's label wins over an injected one of the same name.
    pub honor_labels: bool,
    /// Which names the scraper can read.
    pub names: Names,
    /// Bounds on each pod's body.
    pub limits: Limits,
}

/// What the merge wants its caller to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Hand the output on and call again with an empty buffer.
    Frame,
    /// Call [`feed`](Merge::feed), [`end`](Merge::end) or [`fail`](Merge::fail) for this pod, then again. Until then
    /// nothing more can be written, whatever other pods have.
    Need(usize),
    /// This pod is over and not whole, because of its own bytes or because the caller [`fail`](Merge::fail)ed it: stop reading
    /// from it. Said once, as soon as it is known.
    Failed(usize),
    /// All pods are over; [`finish`](Merge::finish) writes what is left to say.
    Done,
}

/// How one pod's scrape ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Samples read and dropped.
    pub counts: Counts,
    /// The body was read to its end: `up` is 1.
    pub whole: bool,
    /// Why the pod is not whole, if that is known already.
    pub error: Option<PodError>,
}

/// Merges the bodies of several pods into one response. Sans I/O: the caller feeds bytes and takes bytes.
///
/// Pods are named by their place in the list given to [`new`](Self::new); any other number panics.
///
/// ```
/// use sluice_codec::{Merge, MergeOptions, Step, Synthetic, TargetLabels};
///
/// let pods = ["etcd-0", "etcd-1"].map(|pod| TargetLabels::new([("pod", pod)]).unwrap());
/// let mut bodies = [&b"# TYPE a gauge\na 1\n"[..], b"# TYPE a gauge\na 2\nb 3\n"].into_iter().map(Some).collect::<Vec<_>>();
/// let mut merge = Merge::new(pods, &MergeOptions::default());
/// let mut out = Vec::new();
/// loop {
///     match merge.step(&mut out) {
///         Step::Need(pod) => match bodies[pod].take() {
///             Some(body) => merge.feed(pod, body.into()),
///             None => merge.end(pod),
///         },
///         Step::Frame | Step::Failed(_) => {}
///         Step::Done => break,
///     }
/// }
/// assert_eq!(out, b"# TYPE a gauge\na{pod=\"etcd-0\"} 1\na{pod=\"etcd-1\"} 2\n# TYPE b untyped\nb{pod=\"etcd-1\"} 3\n");
/// let errors_before = [7, 0];
/// merge.finish(&mut out, Synthetic { component: "etcd", proxy: "sluice-0", emit_up: true }, |pod, outcome| {
///     errors_before[pod] + u64::from(!outcome.whole)
/// });
/// assert!(out.ends_with(b"up{pod=\"etcd-0\"} 1\nup{pod=\"etcd-1\"} 1\n"));
/// ```
#[derive(Debug)]
pub struct Merge {
    pods: Vec<Slot>,
    phase: Phase,
    /// The family being written; unescaped.
    family: Vec<u8>,
    /// The last TYPE line written: what Prometheus 3 takes the type of a family without one to be.
    last_type: Option<MetricType>,
}

#[derive(Debug)]
struct Slot {
    pod: Pod,
    stage: Stage,
}

/// Where a pod stands in the merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Looking for its next block.
    Seeking,
    /// Has found it.
    Ready,
    /// Its block is part of the family being written, under this type.
    Taken(MetricType),
    Over,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Seek,
    /// Writing the block of this pod, or of the next after it with the same type.
    Copy {
        pod: usize,
        kind: MetricType,
    },
}

/// What [`Merge::finish`] appends.
#[derive(Clone, Copy, Debug)]
pub struct Synthetic<'a> {
    /// The component's name.
    pub component: &'a str,
    /// Our own pod's name, since two replicas count apart.
    pub proxy: &'a str,
    /// Whether to write `up` too.
    pub emit_up: bool,
}

impl Merge {
    /// A merge of these pods. Their order is the order of their samples within each family, so it should
    /// be the same from scrape to scrape: by name.
    pub fn new(pods: impl IntoIterator<Item = TargetLabels>, options: &MergeOptions) -> Self {
        let slot = |(index, target)| Slot { pod: Pod::new(index, target, options), stage: Stage::Seeking };
        Self {
            pods: pods.into_iter().enumerate().map(slot).collect(),
            phase: Phase::Seek,
            family: Vec::new(),
            last_type: None,
        }
    }

    /// Says what a pod's body is written in, before its first frame; text 0.0.4 unless said otherwise.
    pub fn set_format(&mut self, pod: usize, format: Format) {
        self.pods[pod].pod.set_format(format);
    }

    /// The next frame of a pod that [`Step::Need`] asked for. One that was not asked for is kept too, but copied; one that comes
    /// when the pod is over is dropped.
    pub fn feed(&mut self, pod: usize, frame: Bytes) {
        self.pods[pod].pod.feed(frame);
    }

    /// The body of this pod is complete.
    pub fn end(&mut self, pod: usize) {
        self.pods[pod].pod.finish();
    }

    /// The body of this pod will not be completed. Whole lines that were fed still count. May be said at any time.
    pub fn fail(&mut self, pod: usize) {
        self.pods[pod].pod.abandon();
    }

    /// Appends to `out` what can be written, and says what is needed to go on. The caller may hand `out` on after any
    /// step, and should before it waits long for a pod.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Step {
        loop {
            let step = match self.phase {
                Phase::Seek => self.seek(out),
                Phase::Copy { pod, kind } => self.copy(pod, kind, out),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// How a pod's scrape ended, or has gone so far.
    pub fn outcome(&self, pod: usize) -> Outcome {
        let pod = &self.pods[pod].pod;
        let end = pod.end();
        Outcome { counts: pod.counts(), whole: end == Some(Ok(())), error: end.and_then(Result::err).cloned() }
    }

    /// Appends how the scrape of each pod went. `errors_total` is asked for the pod's error count,
    /// this scrape included.
    pub fn finish(
        &self,
        out: &mut Vec<u8>,
        synthetic: Synthetic<'_>,
        mut errors_total: impl FnMut(usize, &Outcome) -> u64,
    ) {
        if self.pods.is_empty() {
            return;
        }
        let report = |(index, slot)| {
            let Slot { pod, .. }: &Slot = slot;
            let outcome = self.outcome(index);
            PodReport { labels: pod.target(), up: outcome.whole, errors_total: errors_total(index, &outcome) }
        };
        let reports: Vec<_> = self.pods.iter().enumerate().map(report).collect();
        synthetic::write_errors(out, &reports, synthetic.component, synthetic.proxy);
        if synthetic.emit_up {
            synthetic::write_up(out, &reports);
        }
    }

    /// Lets each pod find its next block, then begins the smallest.
    fn seek(&mut self, out: &mut Vec<u8>) -> Option<Step> {
        for (index, slot) in self.pods.iter_mut().enumerate() {
            if slot.stage == Stage::Seeking {
                match slot.pod.seek() {
                    Seek::NeedBytes => return Some(Step::Need(index)),
                    Seek::Head => slot.stage = Stage::Ready,
                    Seek::Over => {
                        if slot.end() {
                            return Some(Step::Failed(index));
                        }
                    }
                }
            }
        }
        let heads = self.pods.iter().filter_map(Slot::head);
        let Some(smallest) = heads.map(|head| head.name).min() else { return Some(Step::Done) };
        self.family.clear();
        self.family.extend_from_slice(smallest);
        for slot in &mut self.pods {
            if let Some(head) = slot.head().filter(|head| head.name == self.family) {
                slot.stage = Stage::Taken(head.kind.unwrap_or(MetricType::Untyped));
            }
        }
        self.begin_group(true, out);
        None
    }

    /// Writes the metadata of the first type that pods still have blocks of; `first` of this family.
    fn begin_group(&mut self, first: bool, out: &mut Vec<u8>) {
        let next = self.pods.iter().enumerate().find_map(|(index, slot)| match slot.stage {
            Stage::Taken(kind) => Some((index, kind)),
            _ => None,
        });
        let Some((pod, kind)) = next else {
            self.phase = Phase::Seek;
            return;
        };
        let group = || self.pods.iter().filter(|slot| slot.stage == Stage::Taken(kind)).map(|slot| slot.pod.head());
        if first && let Some(head) = group().find(|head| !head.help.is_empty()) {
            family::write_help(out, &self.family, head.help);
        }
        let given = group().any(|head| head.kind.is_some());
        let inherited = self.last_type.is_some_and(|last| last != MetricType::Untyped);
        if given || inherited || !first {
            family::write_type(out, &self.family, kind);
            self.last_type = Some(kind);
        }
        self.phase = Phase::Copy { pod, kind };
    }

    /// Writes the blocks of the pods from `from` on that give the family this type.
    fn copy(&mut self, from: usize, kind: MetricType, out: &mut Vec<u8>) -> Option<Step> {
        for index in from..self.pods.len() {
            let slot = &mut self.pods[index];
            if slot.stage != Stage::Taken(kind) {
                continue;
            }
            self.phase = Phase::Copy { pod: index, kind };
            match slot.pod.copy(out) {
                Copied::NeedBytes => return Some(Step::Need(index)),
                Copied::Full => return Some(Step::Frame),
                Copied::BlockEnd => slot.stage = Stage::Seeking,
                Copied::Over => {
                    if slot.end() {
                        return Some(Step::Failed(index));
                    }
                }
            }
        }
        self.begin_group(false, out);
        None
    }
}

impl Slot {
    fn head(&self) -> Option<Head<'_>> {
        (self.stage == Stage::Ready).then(|| self.pod.head())
    }

    /// The pod is over; whether it failed.
    fn end(&mut self) -> bool {
        self.stage = Stage::Over;
        matches!(self.pod.end(), Some(Err(_)))
    }
}
