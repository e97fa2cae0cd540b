//! `sluice explain`: what becomes of each line of a pod's metrics, and which rule decided.
//!
//! The codec explains, this prints: one line for each line read, then a summary. Nothing is held but the line at hand, so a body may
//! be as long as it likes.

use std::io::{BufRead, ErrorKind, Read, Write};
use std::sync::Arc;

use sluice_codec::{
    Counts, Declaration, DropReason, Dropped, Explainer, Fate, Kept, LabelChange, LabelError, Limits, MergeOptions,
    Names, RuleError, Unwritten,
};
use sluice_config::{Component, RelabelAction, Relabeling, Tenant};
use thiserror::Error;

/// The `instance` of a pod whose address the configuration does not know: one of the addresses that are for documentation.
const PLACEHOLDER: &str = "192.0.2.1:0";

/// Why nothing, or not everything, could be explained.
#[derive(Debug, Error)]
pub(crate) enum ExplainError {
    #[error("there is no component {name:?}; there are: {}", known.join(", "))]
    UnknownComponent { name: String, known: Vec<String> },
    #[error("the pod's name is empty")]
    EmptyPod,
    #[error("the component's labels: {0}")]
    Labels(#[from] LabelError),
    #[error("the component's metricRelabelings: {0}")]
    Rules(#[from] RuleError),
    #[error("the metrics cannot be read: {0}")]
    Read(#[source] std::io::Error),
    #[error("the explanation cannot be written: {0}")]
    Write(#[source] std::io::Error),
}

/// Explains the metrics in `input` as those of this component's pod, for a scraper that reads legacy names only.
///
/// A reader of `output` that has seen enough (`| head`) is no error.
pub(crate) fn run(
    tenant: &Tenant,
    component: &str,
    pod: &str,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), ExplainError> {
    match explain(tenant, component, pod, input, output) {
        Err(ExplainError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

fn explain(
    tenant: &Tenant,
    name: &str,
    pod: &str,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> Result<(), ExplainError> {
    let component = tenant.components.get(name).ok_or_else(|| ExplainError::UnknownComponent {
        name: name.into(),
        known: tenant.components.keys().cloned().collect(),
    })?;
    if pod.is_empty() {
        return Err(ExplainError::EmptyPod);
    }
    let address = component.targets.iter().find(|target| target.pod == pod).map(|target| target.address.to_string());
    let instance = address.as_deref().unwrap_or(PLACEHOLDER);
    let limits = Limits::from(component.limits);
    let options = MergeOptions {
        rules: Arc::new(component.rules()?),
        honor_labels: component.honor_labels,
        names: Names::Legacy,
        limits,
    };
    let target = component.labels.of_pod(&tenant.pod_labels, pod, instance)?;
    let mut explainer = Explainer::new(target, &options);
    let mut printer = Printer::new(component, output);
    let stand_in = if address.is_none() { ", which stands for an address that is not in targets" } else { "" };
    printer.print(&format!("component {name}, pod {pod}, instance {instance}{stand_in}"))?;

    // One byte more than the limit shows the codec that a line is too long, and no more of it is held.
    let most = u64::from(limits.line_bytes) + 1;
    let mut line = Vec::new();
    let mut whole = true;
    while whole {
        line.clear();
        if Read::take(&mut *input, most).read_until(b'\n', &mut line).map_err(ExplainError::Read)? == 0 {
            break;
        }
        let told = explainer.line(&line);
        whole = !matches!(told.fate, Fate::Failed(_));
        printer.unwritten(&told.unwritten)?;
        printer.line(told.number, &line, &told.fate)?;
    }
    printer.unwritten(&explainer.end())?;
    printer.summary(explainer.counts(), whole)?;
    printer.output.flush().map_err(ExplainError::Write)
}

/// Prints, and counts for the summary.
struct Printer<'a> {
    output: &'a mut dyn Write,
    rules: &'a [Relabeling],
    /// What is said of every sample that is kept: that is the same for all.
    passed: String,
    /// Samples that are kept with a label of theirs renamed.
    renamed: u64,
    /// One for each rule.
    dropped_by_rule: Vec<u64>,
}

impl<'a> Printer<'a> {
    fn new(component: &'a Component, output: &'a mut dyn Write) -> Self {
        let rules = &component.metric_relabelings[..];
        Self { output, rules, passed: passed(rules), renamed: 0, dropped_by_rule: vec![0; rules.len()] }
    }

    fn line(&mut self, number: u64, line: &[u8], fate: &Fate<'_>) -> Result<(), ExplainError> {
        let line = printable(line);
        let (word, text, why) = match fate {
            Fate::Empty => ("skip", String::new(), "an empty line".into()),
            Fate::Comment => ("skip", line, "a comment".into()),
            Fate::Help(declaration) => ("help", line, declared(*declaration).into()),
            Fate::Type(declaration) => ("type", line, declared(*declaration).into()),
            Fate::Kept(kept) => ("keep", printable(kept.output), self.keep(kept)),
            Fate::Dropped(dropped) => ("drop", line, self.drop(dropped)),
            Fate::Failed(failure) => {
                let fault = failure.error.fault;
                let why = format!("{fault}, at byte {}; the pod ends before this line", failure.column);
                ("error", failure.error.excerpt.to_string(), why)
            }
            Fate::Unread => ("skip", line, "behind the end of the pod".into()),
        };
        let gap = if text.is_empty() || why.is_empty() { "" } else { "    " };
        let why = if why.is_empty() { why } else { format!("({why})") };
        self.print(&format!("{number:>6} {word:<5} {text}{gap}{why}"))
    }

    fn unwritten(&mut self, lines: &[Unwritten]) -> Result<(), ExplainError> {
        for line in lines {
            let word = if line.is_help { "help" } else { "type" };
            let why = if line.replaced { "a later line replaces it" } else { "no sample of its family is kept" };
            self.print(&format!("{:>6} {word:<5} (not written: {why})", line.number))?;
        }
        Ok(())
    }

    fn keep(&mut self, kept: &Kept<'_>) -> String {
        let is_renaming = |change: &LabelChange| matches!(change, LabelChange::Renamed { .. });
        self.renamed += u64::from(kept.changes.iter().any(is_renaming));
        let mut why: Vec<String> = kept.changes.iter().map(changed).collect();
        if !kept.brings.is_empty() {
            let numbers: Vec<String> = kept.brings.iter().map(ToString::to_string).collect();
            why.push(format!("brings {}{}", if numbers.len() == 1 { "line " } else { "lines " }, numbers.join(", ")));
        }
        if !self.passed.is_empty() {
            why.push(self.passed.clone());
        }
        why.join("; ")
    }

    fn drop(&mut self, dropped: &Dropped) -> String {
        match (&dropped.refusal, dropped.reason) {
            (Some(refusal), _) => {
                let number = refusal.rule;
                self.dropped_by_rule[number] += 1;
                let rule = &self.rules[number];
                let described = format!("rule {}: {}", number + 1, described(rule));
                // The name can be seen, but labels that are injected or renamed cannot.
                let saw_name_only = rule.source_labels == ["__name__"];
                let saw = format!("; it saw {:?}", String::from_utf8_lossy(&refusal.value));
                if saw_name_only { described } else { described + &saw }
            }
            (None, DropReason::Rule) => "a rule".into(),
            (None, DropReason::Reserved) => "Sluice writes this name itself".into(),
            (None, DropReason::Name) => "a name in quotes: only for scrapers that accept UTF-8 names".into(),
        }
    }

    fn summary(&mut self, counts: Counts, whole: bool) -> Result<(), ExplainError> {
        let Counts { samples, dropped_by_rule, dropped_reserved, dropped_names } = counts;
        let dropped = dropped_by_rule + dropped_reserved + dropped_names;
        self.print(&format!("samples: {samples} read, {} kept, {dropped} dropped", samples - dropped))?;
        for (number, rule) in self.rules.iter().enumerate() {
            let count = self.dropped_by_rule[number];
            self.print(&format!("{count:>6} dropped by rule {}: {}", number + 1, described(rule)))?;
        }
        for (count, what) in [
            (dropped_reserved, "dropped: Sluice writes the name itself"),
            (dropped_names, "dropped: a name in quotes"),
            (self.renamed, "kept with labels renamed"),
        ] {
            self.print(&format!("{count:>6} {what}"))?;
        }
        self.print(if whole { "read to the end: up is 1" } else { "not read to the end: up is 0" })
    }

    fn print(&mut self, line: &str) -> Result<(), ExplainError> {
        writeln!(self.output, "{line}").map_err(ExplainError::Write)
    }
}

/// A sample is kept if every keep rule matches it and no drop rule does, so all that are kept have the same to say.
fn passed(rules: &[Relabeling]) -> String {
    let keeps = rules.iter().enumerate().filter(|(_, rule)| rule.action == RelabelAction::Keep);
    let keeps: Vec<String> = keeps.map(|(number, _)| (number + 1).to_string()).collect();
    let kept_by = if keeps.is_empty() { String::new() } else { format!("kept by rule {}, ", keeps.join(", ")) };
    match rules.len() {
        0 => String::new(),
        1 => format!("{kept_by}passed 1 rule"),
        count => format!("{kept_by}passed {count} rules"),
    }
}

/// A rule as one would say it.
fn described(rule: &Relabeling) -> String {
    let sources = rule.source_labels.join(&rule.separator);
    match rule.action {
        RelabelAction::Drop => format!("drop {sources} =~ \"{}\"", rule.regex),
        RelabelAction::Keep => format!("keep only {sources} =~ \"{}\"", rule.regex),
    }
}

fn declared(declaration: Declaration) -> &'static str {
    match declaration {
        Declaration::Pending => "written with the first sample of its family that is kept",
        Declaration::Repeated => "says nothing new",
        Declaration::NoText => "has no text: the same as none",
    }
}

fn changed(change: &LabelChange) -> String {
    match change {
        LabelChange::Renamed { from, to } => format!("renamed {from} → {to}"),
        LabelChange::LeftOut(name) => format!("left out {name}, which is empty"),
        LabelChange::Honored(name) => format!("honored the pod's own {name}"),
    }
}

/// A pod's bytes without its newline, and without what could move a terminal's cursor.
fn printable(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let mut text = String::with_capacity(line.len());
    for char in String::from_utf8_lossy(line).chars() {
        if char.is_control() {
            text.extend(char.escape_default());
        } else {
            text.push(char);
        }
    }
    text
}

#[cfg(test)]
#[path = "explain/tests.rs"]
mod tests;
