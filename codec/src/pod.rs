//! One pod's stream: lines validated, filtered, labelled and written, one block of a family at a time.

use bytes::Bytes;
use memchr::memchr;

use crate::canonical::{self, Reader};
use crate::conflict::Resolved;
use crate::error::{Excerpt, Fault, Limit, LineFault, PodError};
use crate::family::{Metadata, MetricType};
use crate::gate::{DropReason, Gate};
use crate::labels::TargetLabels;
use crate::limits::Limits;
use crate::lines::{Exhausted, Lines};
use crate::metadata::{self, Statement};
use crate::openmetrics::{Translated, Translator};
use crate::sample::{Sample, skip_blanks};
use crate::{FRAME_BYTES, Format, MergeOptions, number, text};

/// A pod's stream. It is either looking for its next block ([`seek`](Self::seek)) or writing one
/// ([`copy`](Self::copy)); both stop where bytes are missing and go on where they stopped.
pub(crate) struct Pod {
    lines: Lines,
    writer: Writer,
    translator: Option<Box<Translator>>,
    /// A line of OpenMetrics as text 0.0.4.
    translated: Vec<u8>,
    limits: Limits,
    index: usize,
    end: Option<Result<(), Box<PodError>>>,
}

/// What a valid line turns into. Apart from [`Pod`] so that it can be borrowed beside the lines.
struct Writer {
    target: TargetLabels,
    honor_labels: bool,
    gate: Gate,
    /// The family the last metadata lines declared.
    family: Metadata,
    progress: Progress,
    reader: Reader,
    sample: Sample,
}

/// Which block is being written, and what was counted.
struct Progress {
    block: Block,
    /// Counts the changes of the declared family, so that a block knows whether it is still the same.
    generation: u64,
    counts: Counts,
    /// `u64::MAX` for none, which nobody counts to.
    samples_limit: u64,
    /// The gate is open and stands in the block, so that a canonical sample need only be copied.
    passing: bool,
}

/// The family of the block being written.
enum Block {
    None,
    /// The declared one, as of that generation.
    Declared(u64),
    /// One without metadata, of this name.
    Undeclared(Vec<u8>),
}

/// How many samples came, and how many were not passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Valid samples read, whatever became of them.
    pub samples: u64,
    /// Dropped by a relabel rule.
    pub dropped_by_rule: u64,
    /// Dropped because the merge writes a family of that name itself.
    pub dropped_reserved: u64,
    /// Dropped because of a name the scraper cannot read.
    pub dropped_names: u64,
}

/// Where [`Pod::seek`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    NeedBytes,
    /// At the first sample of a block; [`Pod::head`] describes it.
    Head,
    /// Read to its end or failed.
    Over,
}

/// Where [`Pod::copy`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copy {
    NeedBytes,
    /// The output has a frame's worth.
    Full,
    BlockEnd,
    Over,
}

/// The family of a pod's next block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// Unescaped.
    pub(crate) name: &'a [u8],
    pub(crate) help: &'a [u8],
    pub(crate) kind: Option<MetricType>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Seek,
    Copy,
}

/// What reading a run of lines came to.
enum Stop {
    /// All lines in hand were read.
    Used,
    /// Before a sample that begins another block.
    Boundary,
    Full,
    Fault(LineFault),
}

/// Why a line was not simply read.
enum Halt {
    Boundary,
    Fault(LineFault),
}

impl From<LineFault> for Halt {
    fn from(fault: LineFault) -> Self {
        Self::Fault(fault)
    }
}

impl Pod {
    pub(crate) fn new(index: usize, target: TargetLabels, options: &MergeOptions) -> Self {
        Self {
            lines: Lines::new(options.limits),
            writer: Writer {
                target,
                honor_labels: options.honor_labels,
                gate: Gate::new(options.rules.clone(), options.names),
                family: Metadata::default(),
                progress: Progress {
                    block: Block::None,
                    generation: 0,
                    counts: Counts::default(),
                    samples_limit: match options.limits.samples {
                        0 => u64::MAX,
                        limit => limit,
                    },
                    passing: false,
                },
                reader: Reader::default(),
                sample: Sample::default(),
            },
            translator: None,
            translated: Vec::new(),
            limits: options.limits,
            index,
            end: None,
        }
    }

    /// Says what the body is written in; before its first frame.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.translator = match format {
            Format::Text => None,
            Format::OpenMetrics => Some(Box::default()),
        };
    }

    pub(crate) fn feed(&mut self, frame: Bytes) {
        if self.end.is_none() {
            self.lines.feed(frame);
        }
    }

    pub(crate) fn finish(&mut self) {
        self.lines.end();
    }

    pub(crate) fn abandon(&mut self) {
        self.lines.cut();
    }

    /// How the pod ended, if it has.
    pub(crate) fn end(&self) -> Option<Result<(), &PodError>> {
        self.end.as_ref().map(|end| end.as_ref().map(|&()| ()).map_err(|error| &**error))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.writer.progress.counts
    }

    pub(crate) fn target(&self) -> &TargetLabels {
        &self.writer.target
    }

    /// Reads on to the first sample of the next block.
    pub(crate) fn seek(&mut self) -> Seek {
        match self.run(Mode::Seek, &mut Vec::new()) {
            Copy::NeedBytes => Seek::NeedBytes,
            Copy::BlockEnd | Copy::Full => Seek::Head,
            Copy::Over => Seek::Over,
        }
    }

    /// The block that [`seek`](Self::seek) found.
    pub(crate) fn head(&self) -> Head<'_> {
        let Writer { gate, family, .. } = &self.writer;
        if gate.is_declared() {
            Head { name: family.name(), help: family.help(), kind: family.kind() }
        } else {
            Head { name: gate.name(), help: b"", kind: None }
        }
    }

    /// Writes samples of the block that [`seek`](Self::seek) found, to its end or as far as possible.
    pub(crate) fn copy(&mut self, out: &mut Vec<u8>) -> Copy {
        self.run(Mode::Copy, out)
    }

    fn run(&mut self, mode: Mode, out: &mut Vec<u8>) -> Copy {
        loop {
            if self.end.is_some() {
                return Copy::Over;
            }
            let lines = self.lines.lines();
            if lines.is_empty() {
                match self.lines.exhausted() {
                    None => {}
                    Some(Exhausted::NeedBytes) => return Copy::NeedBytes,
                    Some(Exhausted::Ended) => match self.translator.as_ref().map_or(Ok(()), |t| t.check_end()) {
                        Ok(()) => self.end = Some(Ok(())),
                        Err(fault) => self.fail(fault.at(0), Excerpt::default()),
                    },
                    Some(Exhausted::Failed(fault)) => {
                        let tail = Excerpt::of(self.lines.tail(), self.limits.line_bytes);
                        self.fail(fault.at(0), tail);
                    }
                }
                continue;
            }
            let mut at = 0;
            let mut count = 0;
            let stop = match &mut self.translator {
                None => self.writer.read_text(lines, &mut at, &mut count, self.limits.line_bytes, mode, out),
                Some(translator) => {
                    let mut text = Translation { translator, text: &mut self.translated };
                    text.read(&mut self.writer, lines, &mut at, &mut count, self.limits.line_bytes, mode, out)
                }
            };
            let excerpt = match stop {
                // No more of the line than would have been kept had it come in pieces.
                Stop::Fault(_) => Excerpt::of(first_line(&lines[at..]), self.limits.line_bytes),
                _ => Excerpt::default(),
            };
            self.lines.consume(at, count);
            match stop {
                Stop::Used => {}
                Stop::Boundary => return Copy::BlockEnd,
                Stop::Full => return Copy::Full,
                Stop::Fault(fault) => self.fail(fault, excerpt),
            }
        }
    }

    fn fail(&mut self, fault: LineFault, excerpt: Excerpt) {
        self.end = Some(Err(Box::new(PodError {
            pod: self.index,
            line: self.lines.line_number(),
            offset: self.lines.offset() + fault.column as u64,
            fault: fault.fault,
            excerpt,
        })));
        self.lines.discard();
    }
}

impl Writer {
    /// Reads lines of text 0.0.4 from `*at` on, until one is not for this block or cannot be accepted.
    fn read_text(
        &mut self,
        lines: &[u8],
        at: &mut usize,
        count: &mut u64,
        line_limit: u32,
        mode: Mode,
        out: &mut Vec<u8>,
    ) -> Stop {
        self.reader.forget();
        while *at < lines.len() {
            if mode == Mode::Copy && out.len() >= FRAME_BYTES {
                return Stop::Full;
            }
            if let Some(line) = self.reader.read(lines, *at, &self.target)
                && line.end <= line_limit as usize
                && let Some(halt) = self.take_canonical(&lines[*at..], line, mode, out)
            {
                match halt {
                    Ok(()) => {
                        *at += line.end + 1;
                        *count += 1;
                        continue;
                    }
                    Err(Halt::Boundary) => return Stop::Boundary,
                    Err(Halt::Fault(fault)) => return Stop::Fault(fault),
                }
            }
            let line = first_line(&lines[*at..]);
            if line.len() - 1 > line_limit as usize {
                return Stop::Fault(line_too_long(line_limit));
            }
            match self.take_line(line, mode, out) {
                Ok(()) => {
                    *at += line.len();
                    *count += 1;
                }
                Err(Halt::Boundary) => return Stop::Boundary,
                Err(Halt::Fault(fault)) => return Stop::Fault(fault),
            }
            self.reader.forget();
        }
        Stop::Used
    }

    /// A sample in canonical shape; `None` if it has to go the slow way after all.
    #[inline]
    fn take_canonical(
        &mut self,
        rest: &[u8],
        line: canonical::Line,
        mode: Mode,
        out: &mut Vec<u8>,
    ) -> Option<Result<(), Halt>> {
        if !(line.same_name && self.gate.is_valid()) {
            self.turn_to(&rest[..line.name_end]);
        }
        if let Some(bound) = self.gate.bound_key()
            && !self.reader.has_float(rest, bound)
        {
            return None;
        }
        let mut admitted = Ok(());
        if self.progress.passing && mode == Mode::Copy && self.progress.counts.samples < self.progress.samples_limit {
            self.progress.counts.samples += 1;
        } else {
            let labels = self.reader.labels(rest, &self.target);
            admitted = self.gate.admits(false, &labels);
            if let Err(halt) = self.progress.count(admitted, mode, &self.gate) {
                return Some(Err(halt));
            }
        }
        if admitted.is_ok() {
            let head = self.gate.head();
            if line.labels {
                out.extend_from_slice(head);
                out.extend_from_slice(&rest[line.name_end + 1..=line.end]);
            } else if let Some((_, without_comma)) = head.split_last().filter(|_| !self.target.text().is_empty()) {
                out.extend_from_slice(without_comma);
                out.push(b'}');
                out.extend_from_slice(&rest[line.name_end..=line.end]);
            } else {
                out.extend_from_slice(&rest[..=line.end]);
            }
        }
        Some(Ok(()))
    }

    /// Any line, with its newline.
    fn take_line(&mut self, line: &[u8], mode: Mode, out: &mut Vec<u8>) -> Result<(), Halt> {
        let start = skip_blanks(line, 0);
        let inside = |fault: LineFault| LineFault { column: start + fault.column, ..fault };
        let line = &line[start..];
        match line[0] {
            b'\n' => Ok(()),
            b'#' => {
                let changed = match metadata::read(line).map_err(inside)? {
                    Statement::Comment => false,
                    Statement::Help { name, text } => self.family.declare_help(&name, text),
                    Statement::Type { name, kind } => self.family.declare_type(&name, kind.into()),
                };
                if changed {
                    self.declared();
                }
                Ok(())
            }
            _ => {
                let mut sample = std::mem::take(&mut self.sample);
                let taken = sample
                    .read(line)
                    .and_then(|()| self.check_bound(line, &sample))
                    .map_err(|fault| Halt::Fault(inside(fault)))
                    .and_then(|()| self.take_sample(line, &sample, mode, out));
                self.sample = sample;
                taken
            }
        }
    }

    /// The declared family changed.
    fn declared(&mut self) {
        self.progress.generation += 1;
        self.progress.passing = false;
        self.gate.forget();
    }

    fn take_sample(&mut self, line: &[u8], sample: &Sample, mode: Mode, out: &mut Vec<u8>) -> Result<(), Halt> {
        let unreadable = sample.name.quoted || sample.labels.iter().any(|label| label.name.quoted);
        let resolved = Resolved::new(line, sample, &self.target, self.honor_labels);
        let admitted = self.gate.admits(unreadable, &resolved);
        self.progress.count(admitted, mode, &self.gate)?;
        if admitted.is_err() {
            return Ok(());
        }
        if !sample.name.quoted {
            out.extend_from_slice(sample.name.span.of(line));
        }
        resolved.write(out);
        for token in [Some(sample.value), sample.timestamp].into_iter().flatten() {
            out.push(b' ');
            out.extend_from_slice(token.of(line));
        }
        out.push(b'\n');
        Ok(())
    }

    /// `le` of a histogram and `quantile` of a summary must be floats.
    fn check_bound(&mut self, line: &[u8], sample: &Sample) -> Result<(), LineFault> {
        self.turn_to(&text::unescape(sample.name.span.of(line)));
        let Some(bound) = self.gate.bound() else { return Ok(()) };
        match sample.labels.iter().find(|label| label.name.span.of(line) == bound) {
            Some(label) if number::check_float(&text::unescape(label.value.of(line))).is_err() => {
                Err(Fault::Bound.at(label.value.start()))
            }
            _ => Ok(()),
        }
    }

    /// Makes the gate stand at this name.
    fn turn_to(&mut self, name: &[u8]) {
        if self.gate.turn_to(name, &self.family, &self.target) {
            self.progress.passing = self.gate.is_open() && self.progress.is_in_block(&self.gate);
        }
    }
}

impl Progress {
    /// Counts a valid sample, unless it is the first of another block.
    fn count(&mut self, admitted: Result<(), DropReason>, mode: Mode, gate: &Gate) -> Result<(), Halt> {
        if self.counts.samples == self.samples_limit {
            let fault = Fault::Limit { limit: Limit::Samples, value: self.samples_limit };
            return Err(Halt::Fault(fault.at(0)));
        }
        match admitted {
            Ok(()) if mode == Mode::Seek => {
                self.block = if gate.is_declared() {
                    Block::Declared(self.generation)
                } else {
                    Block::Undeclared(gate.name().to_vec())
                };
                self.passing = gate.is_open();
                return Err(Halt::Boundary);
            }
            Ok(()) if !self.is_in_block(gate) => return Err(Halt::Boundary),
            Ok(()) => {}
            Err(DropReason::Rule) => self.counts.dropped_by_rule += 1,
            Err(DropReason::Reserved) => self.counts.dropped_reserved += 1,
            Err(DropReason::Name) => self.counts.dropped_names += 1,
        }
        self.counts.samples += 1;
        Ok(())
    }

    /// Whether samples at the gate belong to the block.
    fn is_in_block(&self, gate: &Gate) -> bool {
        match &self.block {
            Block::None => false,
            Block::Declared(generation) => gate.is_declared() && *generation == self.generation,
            Block::Undeclared(name) => !gate.is_declared() && name == gate.name(),
        }
    }
}

/// Lines of OpenMetrics on their way to the writer.
struct Translation<'a> {
    translator: &'a mut Translator,
    text: &'a mut Vec<u8>,
}

impl Translation<'_> {
    #[allow(clippy::too_many_arguments)] // the same as Writer::read_text, and the writer
    fn read(
        &mut self,
        writer: &mut Writer,
        lines: &[u8],
        at: &mut usize,
        count: &mut u64,
        line_limit: u32,
        mode: Mode,
        out: &mut Vec<u8>,
    ) -> Stop {
        while *at < lines.len() {
            if mode == Mode::Copy && out.len() >= FRAME_BYTES {
                return Stop::Full;
            }
            let line = first_line(&lines[*at..]);
            if line.len() - 1 > line_limit as usize {
                return Stop::Fault(line_too_long(line_limit));
            }
            self.text.clear();
            match self.translator.translate(line, &mut writer.family, self.text) {
                Ok(Translated::Nothing) => {}
                Ok(Translated::Declared) => writer.declared(),
                Ok(Translated::Sample) => match writer.take_line(self.text, mode, out) {
                    Ok(()) => {}
                    Err(Halt::Boundary) => return Stop::Boundary,
                    Err(Halt::Fault(fault)) => return Stop::Fault(fault),
                },
                Err(fault) => return Stop::Fault(fault),
            }
            *at += line.len();
            *count += 1;
        }
        Stop::Used
    }
}

/// The first line of `lines`, with its newline.
fn first_line(lines: &[u8]) -> &[u8] {
    let end = memchr(b'\n', lines).map_or(lines.len(), |newline| newline + 1);
    &lines[..end]
}

fn line_too_long(limit: u32) -> LineFault {
    Fault::Limit { limit: Limit::LineBytes, value: limit.into() }.at(0)
}

impl std::fmt::Debug for Pod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pod").field("index", &self.index).field("end", &self.end).finish_non_exhaustive()
    }
}
