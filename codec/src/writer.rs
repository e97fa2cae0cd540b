//! What a line turns into: the way of a sample from its bytes to the output.

use memchr::memchr;

use crate::block::{Counts, Halt, Mode, Progress};
use crate::canonical::{self, Reader};
use crate::conflict::Resolved;
use crate::error::{Fault, Limit, LineFault};
use crate::family::{Metadata, MetricType};
use crate::gate::Gate;
use crate::labels::TargetLabels;
use crate::metadata::{self, Statement};
use crate::openmetrics::{Translated, Translator};
use crate::sample::{Sample, skip_blanks};
use crate::{FRAME_BYTES, Format, MergeOptions, number, text};

/// Reads lines and writes samples, for one pod.
pub(crate) struct Writer {
    target: TargetLabels,
    honor_labels: bool,
    gate: Gate,
    /// The family the last metadata lines declared.
    family: Metadata,
    /// The block found last is the one to give the family's HELP.
    gives_help: bool,
    progress: Progress,
    reader: Reader,
    sample: Sample,
    openmetrics: Option<Box<OpenMetrics>>,
}

/// What only a body in OpenMetrics needs.
#[derive(Default)]
struct OpenMetrics {
    translator: Translator,
    /// A line as text 0.0.4.
    line: Vec<u8>,
}

/// Complete lines, read from `at` on.
pub(crate) struct Input<'a> {
    lines: &'a [u8],
    line_limit: u32,
    /// Bytes and lines read.
    pub(crate) at: usize,
    pub(crate) count: u64,
}

/// What reading the input came to.
pub(crate) enum Stop {
    /// All of it was read.
    Used,
    /// Before a sample that begins another block.
    Boundary,
    /// The output has a frame's worth.
    Full,
    Fault(LineFault),
}

/// The family of a pod's next block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// Unescaped.
    pub(crate) name: &'a [u8],
    /// As written; empty for none, or if an earlier block gave it.
    pub(crate) help: &'a [u8],
    pub(crate) kind: Option<MetricType>,
}

impl Writer {
    pub(crate) fn new(target: TargetLabels, options: &MergeOptions) -> Self {
        Self {
            target,
            honor_labels: options.honor_labels,
            gate: Gate::new(options.rules.clone(), options.names),
            family: Metadata::default(),
            gives_help: false,
            progress: Progress::new(options.limits.samples),
            reader: Reader::default(),
            sample: Sample::default(),
            openmetrics: None,
        }
    }

    pub(crate) fn set_format(&mut self, format: Format) {
        self.openmetrics = match format {
            Format::Text => None,
            Format::OpenMetrics => Some(Box::default()),
        };
    }

    pub(crate) fn target(&self) -> &TargetLabels {
        &self.target
    }

    pub(crate) fn counts(&self) -> Counts {
        self.progress.counts()
    }

    /// The family of the sample before which reading stopped.
    pub(crate) fn head(&self) -> Head<'_> {
        if self.gate.is_declared() {
            let help = if self.gives_help { self.family.help() } else { b"" };
            Head { name: self.family.name(), help, kind: self.family.kind() }
        } else {
            Head { name: self.gate.name(), help: b"", kind: None }
        }
    }

    /// Whether the body may end here.
    pub(crate) fn check_end(&self) -> Result<(), Fault> {
        self.openmetrics.as_ref().map_or(Ok(()), |openmetrics| openmetrics.translator.check_end())
    }

    /// Reads lines until one begins another block or cannot be accepted, or the output is full.
    pub(crate) fn read(&mut self, input: &mut Input<'_>, mode: Mode, out: &mut Vec<u8>) -> Stop {
        let read = match self.openmetrics.take() {
            None => self.read_text(input, mode, out),
            Some(mut openmetrics) => {
                let read = self.read_openmetrics(&mut openmetrics, input, mode, out);
                self.openmetrics = Some(openmetrics);
                read
            }
        };
        match read {
            Ok(()) if input.is_used() => Stop::Used,
            Ok(()) => Stop::Full,
            Err(Halt::Boundary) => {
                if mode == Mode::Seek && self.gate.is_declared() {
                    self.gives_help = self.family.take_help_due();
                }
                Stop::Boundary
            }
            Err(Halt::Fault(fault)) => Stop::Fault(fault),
        }
    }

    fn read_text(&mut self, input: &mut Input<'_>, mode: Mode, out: &mut Vec<u8>) -> Result<(), Halt> {
        self.reader.forget();
        while !input.is_used() && (mode == Mode::Seek || out.len() < FRAME_BYTES) {
            if let Some(line) = self.reader.read(input.lines, input.at, &self.target)
                && line.end <= input.line_limit as usize
                && self.take_canonical(input.rest(), line, mode, out)?
            {
                input.consume(line.end + 1);
                continue;
            }
            let line = input.line()?;
            self.take_line(line, mode, out)?;
            input.consume(line.len());
            self.reader.forget();
        }
        Ok(())
    }

    fn read_openmetrics(
        &mut self,
        openmetrics: &mut OpenMetrics,
        input: &mut Input<'_>,
        mode: Mode,
        out: &mut Vec<u8>,
    ) -> Result<(), Halt> {
        let OpenMetrics { translator, line: text } = openmetrics;
        while !input.is_used() && (mode == Mode::Seek || out.len() < FRAME_BYTES) {
            let line = input.line()?;
            text.clear();
            match translator.translate(line, &mut self.family, text)? {
                Translated::Nothing => {}
                Translated::Declared => self.family_changed(),
                Translated::Sample => self.take_line(text, mode, out)?,
            }
            input.consume(line.len());
        }
        Ok(())
    }

    /// Takes a sample in canonical shape; false if it has to go the slow way after all.
    #[inline]
    fn take_canonical(
        &mut self,
        rest: &[u8],
        line: canonical::Line,
        mode: Mode,
        out: &mut Vec<u8>,
    ) -> Result<bool, Halt> {
        if !(line.same_name && self.gate.is_valid()) {
            self.turn_to(&rest[..line.name_end]);
        }
        if let Some(bound) = self.gate.bound_key()
            && !self.reader.has_float(rest, bound)
        {
            return Ok(false);
        }
        if !self.progress.passes(mode) {
            let labels = self.reader.labels(rest, &self.target);
            let admitted = self.gate.admits(false, &labels);
            self.progress.count(admitted, mode, &self.gate)?;
            if admitted.is_err() {
                return Ok(true);
            }
        }
        let prefix = self.gate.prefix();
        if line.labels {
            out.extend_from_slice(prefix);
            out.extend_from_slice(&rest[line.name_end + 1..=line.end]);
        } else if let Some((_, without_comma)) = prefix.split_last().filter(|_| !self.target.text().is_empty()) {
            out.extend_from_slice(without_comma);
            out.push(b'}');
            out.extend_from_slice(&rest[line.name_end..=line.end]);
        } else {
            out.extend_from_slice(&rest[..=line.end]);
        }
        Ok(true)
    }

    /// Takes any line, with its newline.
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
                    self.family_changed();
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

    fn family_changed(&mut self) {
        self.progress.family_changed();
        self.gate.forget();
    }

    /// Makes the gate stand at this name.
    fn turn_to(&mut self, name: &[u8]) {
        if self.gate.turn_to(name, &self.family, &self.target) {
            self.progress.name_changed(&self.gate);
        }
    }
}

impl<'a> Input<'a> {
    /// `lines` ends with a newline.
    pub(crate) fn new(lines: &'a [u8], line_limit: u32) -> Self {
        Self { lines, line_limit, at: 0, count: 0 }
    }

    /// The next line, with its newline, whatever its length.
    pub(crate) fn long_line(&self) -> &'a [u8] {
        let rest = self.rest();
        let end = memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
        &rest[..end]
    }

    fn line(&self) -> Result<&'a [u8], LineFault> {
        let line = self.long_line();
        if line.len() - 1 > self.line_limit as usize {
            return Err(Fault::Limit { limit: Limit::LineBytes, value: self.line_limit.into() }.at(0));
        }
        Ok(line)
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        &self.lines[self.at..]
    }

    #[inline]
    fn is_used(&self) -> bool {
        self.at == self.lines.len()
    }

    #[inline]
    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
        self.count += 1;
    }
}
