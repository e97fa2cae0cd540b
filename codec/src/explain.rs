//! What becomes of each line of one pod's body, and why.
//!
//! The merge itself decides: it is given one line at a time, and what it wrote and counted is what became of that line.
//! The reasons come from the same parts that the merge is made of, asked once more about that line. Far slower than a merge, and for
//! people only. Text 0.0.4; OpenMetrics is not explained.

use std::sync::Arc;

use bytes::Bytes;

use crate::block::Counts;
use crate::conflict::{LabelChange, Resolved};
use crate::error::PodError;
use crate::family::Metadata;
use crate::gate::DropReason;
use crate::labels::TargetLabels;
use crate::merge::{Merge, MergeOptions, Step};
use crate::metadata::{self, Statement};
use crate::rules::{Refusal, Rules};
use crate::sample::{Sample, skip_blanks};
use crate::text;

/// Explains the lines of one pod's body, in order.
///
/// ```
/// use sluice_codec::{Explainer, Fate, MergeOptions, TargetLabels};
///
/// let target = TargetLabels::new([("pod", "etcd-0")]).unwrap();
/// let mut explainer = Explainer::new(target, &MergeOptions::default());
/// let explained = explainer.line(b"a{pod=\"x\"} 1\n");
/// let Fate::Kept(kept) = explained.fate else { panic!() };
/// assert_eq!(kept.output, b"a{pod=\"etcd-0\",exported_pod=\"x\"} 1\n");
/// ```
#[derive(Debug)]
pub struct Explainer {
    /// Of this one pod.
    merge: Merge,
    rules: Arc<Rules>,
    target: TargetLabels,
    honor_labels: bool,
    number: u64,
    /// Where in the body the next line begins.
    offset: u64,
    /// What the lines so far declare, as the merge has it.
    family: Metadata,
    /// The lines whose HELP and TYPE no sample has brought along yet.
    pending: Pending,
    /// Nothing is read any more.
    over: bool,
    /// The line at hand, always with a newline.
    line: Vec<u8>,
    /// What the merge wrote for it.
    written: Vec<u8>,
}

#[derive(Debug, Default)]
struct Pending {
    help: Option<u64>,
    kind: Option<u64>,
}

/// What became of a line.
#[derive(Debug)]
pub struct Explained<'a> {
    /// From 1.
    pub number: u64,
    /// What became of it.
    pub fate: Fate<'a>,
    /// Metadata of earlier lines, of which this line shows that it is not written: at most a HELP and a TYPE.
    pub unwritten: Vec<Unwritten>,
}

/// What can become of a line.
#[derive(Debug)]
pub enum Fate<'a> {
    /// Nothing in it but blanks.
    Empty,
    /// A comment, not read.
    Comment,
    /// HELP.
    Help(Declaration),
    /// TYPE.
    Type(Declaration),
    /// A sample that is written.
    Kept(Kept<'a>),
    /// A sample that is not.
    Dropped(Dropped),
    /// It cannot be accepted: the pod ends before it.
    Failed(Failure),
    /// Behind the end of the pod.
    Unread,
}

/// What a HELP or TYPE line does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declaration {
    /// It is written with the next sample of its family that is kept. If there is none, or if another line comes first that
    /// says otherwise, a later line has it among its [`unwritten`](Explained::unwritten).
    Pending,
    /// It says what is known already.
    Repeated,
    /// HELP without a text: the same as no HELP.
    NoText,
}

/// A sample that is written.
#[derive(Debug)]
pub struct Kept<'a> {
    /// The metadata lines that the merge writes before it; empty unless it begins a block.
    pub metadata: &'a [u8],
    /// The HELP and TYPE lines that are written with it, by number. `metadata` may say more: the type of a family that comes back, or of
    /// one that has none.
    pub brings: Vec<u64>,
    /// The sample as it is written, with its newline.
    pub output: &'a [u8],
    /// Where its labels and the injected ones clashed. All injected labels are written but those honoured here.
    pub changes: Vec<LabelChange>,
}

/// A sample that is not written.
#[derive(Debug)]
pub struct Dropped {
    /// Why.
    pub reason: DropReason,
    /// The rule, if it was one.
    pub refusal: Option<Refusal>,
}

/// The fault that ends the pod.
#[derive(Debug)]
pub struct Failure {
    /// As the merge reports it.
    pub error: PodError,
    /// Byte in the line, from 1.
    pub column: u64,
}

/// A HELP or TYPE line that is not written after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// Its number.
    pub number: u64,
    /// Whether it is a HELP line.
    pub is_help: bool,
    /// A later line of the same family says otherwise; if not, no sample of the family was kept.
    pub replaced: bool,
}

impl Explainer {
    /// For a pod of these labels.
    pub fn new(target: TargetLabels, options: &MergeOptions) -> Self {
        Self {
            merge: Merge::new([target.clone()], options),
            rules: Arc::clone(&options.rules),
            target,
            honor_labels: options.honor_labels,
            number: 0,
            offset: 0,
            family: Metadata::default(),
            pending: Pending::default(),
            over: false,
            line: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Explains the next line. One without a newline is the last.
    ///
    /// Of a line longer than [`Limits::line_bytes`](crate::Limits::line_bytes) it is enough to give one byte more than that.
    pub fn line(&mut self, line: &[u8]) -> Explained<'_> {
        self.number += 1;
        if self.over {
            return self.explained(Fate::Unread, Vec::new());
        }
        let before = self.merge.outcome(0).counts;
        self.merge.feed(0, Bytes::copy_from_slice(line));
        if !line.ends_with(b"\n") {
            self.merge.end(0);
        }
        self.run();
        let start = self.offset;
        self.offset += line.len() as u64;
        self.line.clear();
        self.line.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            self.line.push(b'\n');
        }
        let outcome = self.merge.outcome(0);
        if let Some(error) = outcome.error {
            self.over = true;
            let column = error.offset.saturating_sub(start) + 1;
            let unwritten = self.pending.abandon();
            return self.explained(Fate::Failed(Failure { error, column }), unwritten);
        }
        if outcome.counts.samples > before.samples {
            return self.explain_sample(drop_reason(before, outcome.counts));
        }
        let (fate, unwritten) = self.explain_statement();
        self.explained(fate, unwritten)
    }

    /// The body ends here: metadata that is not written for want of a sample.
    pub fn end(&mut self) -> Vec<Unwritten> {
        if !self.over {
            self.merge.end(0);
            self.run();
            self.over = true;
        }
        self.pending.abandon()
    }

    /// Samples read and dropped so far.
    pub fn counts(&self) -> Counts {
        self.merge.outcome(0).counts
    }

    /// Lets the merge write what it can.
    fn run(&mut self) {
        self.written.clear();
        let mut frame = Vec::new();
        loop {
            match self.merge.step(&mut frame) {
                // It writes into no frame that is full already.
                Step::Frame => self.written.append(&mut frame),
                Step::Failed(_) => {}
                Step::Need(_) | Step::Done => break,
            }
        }
        self.written.append(&mut frame);
    }

    fn explain_sample(&mut self, reason: Option<DropReason>) -> Explained<'_> {
        let start = skip_blanks(&self.line, 0);
        let line = &self.line[start..];
        let mut sample = Sample::default();
        // The merge has accepted it; the default would show no changes and no rule.
        let _accepted = sample.read(line);
        let resolved = Resolved::new(line, &sample, &self.target, self.honor_labels);
        let Some(reason) = reason else {
            let changes = resolved.changes();
            let output = self.written.len() - last_line(&self.written).len();
            let brings = self.pending.take_written(&self.written[..output], self.family.name());
            let (metadata, output) = self.written.split_at(output);
            return self.explained(Fate::Kept(Kept { metadata, brings, output, changes }), Vec::new());
        };
        let name = text::unescape(sample.name.span.of(line));
        let refusal = (reason == DropReason::Rule).then(|| self.rules.refusal(&name, &resolved)).flatten();
        self.explained(Fate::Dropped(Dropped { reason, refusal }), Vec::new())
    }

    fn explain_statement(&mut self) -> (Fate<'static>, Vec<Unwritten>) {
        let line = &self.line[skip_blanks(&self.line, 0)..];
        if line[0] != b'#' {
            return (Fate::Empty, Vec::new());
        }
        let Ok(statement) = metadata::read(line) else { return (Fate::Comment, Vec::new()) };
        let (Statement::Help { name, .. } | Statement::Type { name, .. }) = &statement else {
            return (Fate::Comment, Vec::new());
        };
        let another = self.family.declared_name() != &**name;
        let mut unwritten = if another { self.pending.abandon() } else { Vec::new() };
        let number = self.number;
        let mut declare = |pending: &mut Option<u64>, is_help, changed: bool, says_something: bool| {
            if changed {
                let replaced = std::mem::replace(pending, says_something.then_some(number));
                unwritten.extend(replaced.map(|number| Unwritten { number, is_help, replaced: true }));
            }
            match (says_something, changed) {
                (false, _) => Declaration::NoText,
                (true, true) => Declaration::Pending,
                (true, false) => Declaration::Repeated,
            }
        };
        let fate = match statement {
            Statement::Comment => Fate::Comment,
            Statement::Help { name, text } => {
                let changed = self.family.declare_help(&name, text);
                Fate::Help(declare(&mut self.pending.help, true, changed, !text.is_empty()))
            }
            Statement::Type { name, kind } => {
                let changed = self.family.declare_type(&name, kind.into());
                Fate::Type(declare(&mut self.pending.kind, false, changed, true))
            }
        };
        (fate, unwritten)
    }

    fn explained<'a>(&self, fate: Fate<'a>, unwritten: Vec<Unwritten>) -> Explained<'a> {
        Explained { number: self.number, fate, unwritten }
    }
}

impl Pending {
    /// The lines of which the merge wrote the metadata now, while the family of that name was declared.
    fn take_written(&mut self, metadata: &[u8], family: &[u8]) -> Vec<u64> {
        let lines = metadata.split_inclusive(|byte| *byte == b'\n');
        let taken = lines.filter_map(|line| match metadata::read(line) {
            Ok(Statement::Help { name, .. }) if *name == *family => self.help.take(),
            Ok(Statement::Type { name, .. }) if *name == *family => self.kind.take(),
            _ => None,
        });
        taken.collect()
    }

    /// No sample of the family will come any more; in the order of the lines.
    fn abandon(&mut self) -> Vec<Unwritten> {
        let unwritten = |number, is_help| Unwritten { number, is_help, replaced: false };
        let help = self.help.take().map(|number| unwritten(number, true));
        let kind = self.kind.take().map(|number| unwritten(number, false));
        let mut all: Vec<Unwritten> = help.into_iter().chain(kind).collect();
        all.sort_by_key(|line| line.number);
        all
    }
}

/// Which of the merge's counters of dropped samples went up.
fn drop_reason(before: Counts, after: Counts) -> Option<DropReason> {
    if after.dropped_by_rule > before.dropped_by_rule {
        Some(DropReason::Rule)
    } else if after.dropped_reserved > before.dropped_reserved {
        Some(DropReason::Reserved)
    } else if after.dropped_names > before.dropped_names {
        Some(DropReason::Name)
    } else {
        None
    }
}

fn last_line(text: &[u8]) -> &[u8] {
    text.split_inclusive(|byte| *byte == b'\n').next_back().unwrap_or_default()
}
