//! The naive reference: GRAMMAR.md written down as plainly as possible (`model_line.rs` has what it
//! says of a single line).
//!
//! Every body is read whole, every line becomes owned values, every pod a list of blocks, and the
//! blocks are merged by looking at all pods again for each family. The output is exact to the byte.
//! Text is held unescaped and escaped again on writing, which spells every string in the one
//! way that GRAMMAR.md's repairs lead to. HELP alone is held as it is written.

// Each test binary uses its own part of the support code, and a panic is how a test fails.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use regex::Regex;
use std::fmt::Write;

// The path holds however this file itself is included.
#[path = "model_line.rs"]
mod line;
use line::{Decision, Line, Sample, decide, is_float, is_label_name, is_metric_name};

#[derive(Clone, Debug)]
pub struct PodInput {
    /// Injected labels in output order, values unescaped.
    pub labels: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The body was cut short: an unfinished last line is dropped, and the pod fails after its
    /// complete lines.
    pub truncated: bool,
}

#[derive(Clone, Debug)]
pub struct ModelRule {
    pub keep: bool,
    pub source_labels: Vec<String>,
    pub separator: String,
    pub regex: String,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub honor_labels: bool,
    pub utf8: bool,
    pub rules: Vec<ModelRule>,
    pub emit_up: bool,
    pub component: String,
    pub proxy: String,
    pub line_bytes: usize,
    /// 0: no limit.
    pub body_bytes: usize,
    /// 0: no limit.
    pub samples: usize,
    /// The error counter of every pod before this scrape.
    pub errors_before: u64,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PodResult {
    pub ok: bool,
    /// 1-based; `None` for a pod that failed only because its body was cut short.
    pub failed_line: Option<u64>,
    /// Valid sample lines, dropped ones included.
    pub samples: u64,
    pub dropped_by_rule: u64,
    pub dropped_reserved: u64,
    pub dropped_names: u64,
}

const ERRORS_NAME: &str = "metrics_aggregator_pod_scrape_errors_total";

pub fn run(pods: &[PodInput], settings: &Settings) -> (Vec<u8>, Vec<PodResult>) {
    let mut streams = Vec::new();
    let mut results = Vec::new();
    for pod in pods {
        let (blocks, result) = read_pod(pod, settings);
        streams.push(blocks);
        results.push(result);
    }
    let mut out = merge(streams);
    out.push_str(&synthetic(pods, &results, settings));
    (out.into_bytes(), results)
}

// === one pod ===

#[derive(Clone)]
struct Family {
    name: String,
    help: String,
    kind: Option<String>,
}

struct Block {
    family: Family,
    declared: bool,
    /// No sample can join it any more.
    ended: bool,
    lines: Vec<String>,
}

struct PodReader<'a> {
    pod: &'a PodInput,
    settings: &'a Settings,
    rules: Vec<Regex>,
    declared: Option<Family>,
    /// No block has given the declared family's HELP yet.
    help_due: bool,
    blocks: Vec<Block>,
    result: PodResult,
}

fn read_pod(pod: &PodInput, settings: &Settings) -> (Vec<Block>, PodResult) {
    let anchored = |rule: &ModelRule| Regex::new(&format!("^(?s:{})$", rule.regex)).unwrap();
    let mut reader = PodReader {
        pod,
        settings,
        rules: settings.rules.iter().map(anchored).collect(),
        declared: None,
        help_due: false,
        blocks: Vec::new(),
        result: PodResult::default(),
    };
    reader.result.failed_line = reader.first_bad_line();
    reader.result.ok = reader.result.failed_line.is_none() && !pod.truncated;
    (reader.blocks, reader.result)
}

impl PodReader<'_> {
    fn first_bad_line(&mut self) -> Option<u64> {
        let mut offset = 0;
        let mut number = 0;
        for line in self.pod.body.split_inclusive(|byte| *byte == b'\n') {
            number += 1;
            offset += line.len();
            let content = line.strip_suffix(b"\n").unwrap_or(line);
            let past_body = self.settings.body_bytes > 0 && offset > self.settings.body_bytes;
            // Judged before the unfinished line is dropped: what follows it could not help it.
            if content.len() > self.settings.line_bytes || past_body {
                return Some(number);
            }
            if self.pod.truncated && !line.ends_with(b"\n") {
                return None;
            }
            if decide(content).and_then(|line| self.read(line)).is_err() {
                return Some(number);
            }
        }
        None
    }

    fn read(&mut self, line: Line) -> Decision<()> {
        match line {
            Line::Skipped => {}
            Line::Help { name, text } => self.declare(&name, |family| family.help = text),
            Line::Type { name, keyword } => {
                self.declare(&name, |family| family.kind = Some(keyword));
            }
            Line::Sample(sample) => self.read_sample(&sample)?,
        }
        Ok(())
    }

    fn declare(&mut self, name: &str, set: impl FnOnce(&mut Family)) {
        let before = self.declared.take().filter(|family| family.name == name);
        let fresh = Family { name: name.to_string(), help: String::new(), kind: None };
        let mut family = before.clone().unwrap_or(fresh);
        set(&mut family);
        self.help_due |= before.as_ref().map_or("", |before| &before.help) != family.help;
        let same = before.is_some_and(|before| before.help == family.help && before.kind == family.kind);
        self.declared = Some(family);
        if let Some(block) = self.blocks.last_mut().filter(|block| block.declared && !same) {
            block.ended = true;
        }
    }

    fn read_sample(&mut self, sample: &Sample) -> Decision<()> {
        let declared = self.declared.clone().filter(|family| belongs(&sample.name, family));
        let number_label = match declared.as_ref().and_then(|family| family.kind.as_deref()) {
            Some("histogram") => "le",
            Some("summary") => "quantile",
            _ => "",
        };
        for (name, value) in &sample.labels {
            if name == number_label && !is_float(value) {
                return Err("le or quantile is no float");
            }
        }
        if self.settings.samples > 0 && self.result.samples == self.settings.samples as u64 {
            return Err("too many samples");
        }
        self.result.samples += 1;

        let legacy = is_metric_name(&sample.name) && sample.labels.iter().all(|(name, _)| is_label_name(name));
        if !legacy && !self.settings.utf8 {
            self.result.dropped_names += 1;
            return Ok(());
        }
        let reserved = |name: &str| name == "up" || name == ERRORS_NAME;
        if reserved(&sample.name) || declared.as_ref().is_some_and(|family| reserved(&family.name)) {
            self.result.dropped_reserved += 1;
            return Ok(());
        }
        let labels = final_labels(&self.pod.labels, &sample.labels, self.settings.honor_labels);
        if !self.survives_rules(&sample.name, &labels) {
            self.result.dropped_by_rule += 1;
            return Ok(());
        }
        self.add_to_block(declared, &sample.name, write_sample(sample, &labels));
        Ok(())
    }

    fn survives_rules(&self, name: &str, labels: &[(String, String)]) -> bool {
        let value_of = |source: &String| -> String {
            if source == "__name__" {
                return name.to_string();
            }
            let found = labels.iter().find(|(label, _)| label == source);
            found.map_or(String::new(), |(_, value)| value.clone())
        };
        self.settings.rules.iter().zip(&self.rules).all(|(rule, regex)| {
            let values: Vec<String> = rule.source_labels.iter().map(value_of).collect();
            regex.is_match(&values.join(&rule.separator)) == rule.keep
        })
    }

    fn add_to_block(&mut self, declared: Option<Family>, sample: &str, line: String) {
        let is_declared = declared.is_some();
        let undeclared = Family { name: sample.to_string(), help: String::new(), kind: None };
        let mut family = declared.unwrap_or(undeclared);
        if let Some(block) = self.blocks.last_mut()
            && !block.ended
            && block.declared == is_declared
            && block.family.name == family.name
        {
            block.lines.push(line);
            return;
        }
        let lines = vec![line];
        if is_declared && !std::mem::take(&mut self.help_due) {
            family.help = String::new();
        }
        self.blocks.push(Block { family, declared: is_declared, ended: false, lines });
    }
}

fn belongs(sample: &str, family: &Family) -> bool {
    let suffixes: &[&str] = match family.kind.as_deref() {
        Some("histogram") => &["", "_bucket", "_sum", "_count"],
        Some("summary") => &["", "_sum", "_count"],
        _ => &[""],
    };
    suffixes.iter().any(|suffix| format!("{}{suffix}", family.name) == sample)
}

fn final_labels(injected: &[(String, String)], own: &[(String, String)], honor_labels: bool) -> Vec<(String, String)> {
    let has = |labels: &[(String, String)], name: &str| labels.iter().any(|(label, _)| label == name);
    if honor_labels {
        let absent = injected.iter().filter(|(name, _)| !has(own, name));
        return absent.chain(own).cloned().collect();
    }
    let mut conflicts: Vec<String> = injected.iter().map(|(name, _)| name.clone()).collect();
    conflicts.retain(|name| own.iter().any(|(label, value)| label == name && !value.is_empty()));
    conflicts.sort_by_key(|name| (name.len(), name.clone()));
    let mut renamed: Vec<(String, String)> = Vec::new();
    for name in conflicts {
        let mut chosen = format!("exported_{name}");
        while has(injected, &chosen)
            || own.iter().any(|(label, value)| *label == chosen && !value.is_empty())
            || renamed.iter().any(|(_, earlier)| *earlier == chosen)
        {
            chosen = format!("exported_{chosen}");
        }
        renamed.push((name, chosen));
    }
    let mut labels = injected.to_vec();
    for (name, value) in own {
        let chosen = renamed.iter().find(|(from, _)| from == name);
        let hidden = has(injected, name) || renamed.iter().any(|(_, to)| to == name);
        match chosen {
            Some((_, to)) => labels.push((to.clone(), value.clone())),
            None if hidden => {}
            None => labels.push((name.clone(), value.clone())),
        }
    }
    labels
}

// === writing ===

fn quote(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

fn write_labels(labels: &[(String, String)]) -> Vec<String> {
    let spell = |name: &String| {
        if is_label_name(name) { name.clone() } else { quote(name) }
    };
    labels.iter().map(|(name, value)| format!("{}={}", spell(name), quote(value))).collect()
}

fn write_metric_name(name: &str) -> String {
    if is_metric_name(name) { name.to_string() } else { quote(name) }
}

fn write_series(name: &str, labels: &[(String, String)]) -> String {
    let mut items = write_labels(labels);
    if !is_metric_name(name) {
        items.insert(0, quote(name));
        return format!("{{{}}}", items.join(","));
    }
    if items.is_empty() { name.to_string() } else { format!("{name}{{{}}}", items.join(",")) }
}

fn write_sample(sample: &Sample, labels: &[(String, String)]) -> String {
    let series = write_series(&sample.name, labels);
    match &sample.timestamp {
        Some(timestamp) => format!("{series} {} {timestamp}\n", sample.value),
        None => format!("{series} {}\n", sample.value),
    }
}

fn merge(streams: Vec<Vec<Block>>) -> String {
    let mut streams: Vec<_> = streams.into_iter().map(|blocks| blocks.into_iter().peekable()).collect();
    let mut out = String::new();
    let mut last_type = "untyped".to_string();
    loop {
        let next_names = streams.iter_mut().filter_map(|stream| stream.peek().map(|block| block.family.name.clone()));
        let Some(name) = next_names.min() else {
            return out;
        };
        let mut groups: Vec<(String, Vec<Block>)> = Vec::new();
        for stream in &mut streams {
            if let Some(block) = stream.next_if(|block| block.family.name == name) {
                let kind = block.family.kind.clone().unwrap_or("untyped".to_string());
                match groups.iter_mut().find(|(of_group, _)| *of_group == kind) {
                    Some((_, blocks)) => blocks.push(block),
                    None => groups.push((kind, vec![block])),
                }
            }
        }
        let spelled = write_metric_name(&name);
        for (index, (kind, blocks)) in groups.iter().enumerate() {
            let first = index == 0;
            if let Some(block) = blocks.iter().find(|block| first && !block.family.help.is_empty()) {
                writeln!(out, "# HELP {spelled} {}", block.family.help).unwrap();
            }
            let given = blocks.iter().any(|block| block.family.kind.is_some());
            if !first || given || last_type != "untyped" {
                writeln!(out, "# TYPE {spelled} {kind}").unwrap();
                last_type.clone_from(kind);
            }
            for block in blocks {
                out.push_str(&block.lines.concat());
            }
        }
    }
}

fn synthetic(pods: &[PodInput], results: &[PodResult], settings: &Settings) -> String {
    let mut out = String::new();
    if pods.is_empty() {
        return out;
    }
    writeln!(
        out,
        "# HELP {ERRORS_NAME} Total number of pod scrape errors per component and pod.\n\
         # TYPE {ERRORS_NAME} counter"
    )
    .unwrap();
    for (pod, result) in pods.iter().zip(results) {
        let mut labels = pod.labels.clone();
        labels.push(("component".to_string(), settings.component.clone()));
        labels.push(("proxy".to_string(), settings.proxy.clone()));
        let errors = settings.errors_before + u64::from(!result.ok);
        writeln!(out, "{} {errors}", write_series(ERRORS_NAME, &labels)).unwrap();
    }
    if settings.emit_up {
        out.push_str(
            "# HELP up 1 if the pod was scraped successfully, 0 if the scrape failed.\n\
             # TYPE up gauge\n",
        );
        for (pod, result) in pods.iter().zip(results) {
            writeln!(out, "{} {}", write_series("up", &pod.labels), u8::from(result.ok)).unwrap();
        }
    }
    out
}
