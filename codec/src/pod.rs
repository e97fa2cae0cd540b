//! One pod's stream, from frames to blocks of samples.

use std::fmt;

use bytes::Bytes;

use crate::block::{Counts, Mode};
use crate::error::{Excerpt, LineFault, PodError};
use crate::labels::TargetLabels;
use crate::limits::Limits;
use crate::lines::{Exhausted, Lines};
use crate::writer::{Head, Input, Stop, Writer};
use crate::{Format, MergeOptions};

/// A pod's stream. It is either looking for its next block ([`seek`](Self::seek)) or writing one
/// ([`copy`](Self::copy)); both stop where bytes are missing and go on where they stopped.
pub(crate) struct Pod {
    lines: Lines,
    /// Apart from `lines` so that it can read what they lend.
    writer: Writer,
    limits: Limits,
    index: usize,
    end: Option<Result<(), Box<PodError>>>,
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
pub(crate) enum Copied {
    NeedBytes,
    /// The output has a frame's worth.
    Full,
    BlockEnd,
    Over,
}

impl Pod {
    pub(crate) fn new(index: usize, target: TargetLabels, options: &MergeOptions) -> Self {
        Self {
            lines: Lines::new(options.limits),
            writer: Writer::new(target, options),
            limits: options.limits,
            index,
            end: None,
        }
    }

    /// Says what the body is written in; before its first frame.
    pub(crate) fn set_format(&mut self, format: Format) {
        self.writer.set_format(format);
    }

    pub(crate) fn feed(&mut self, frame: Bytes) {
        if self.end.is_none() {
            self.lines.feed(frame);
        }
    }

    /// The body is complete.
    pub(crate) fn finish(&mut self) {
        self.lines.end();
    }

    /// The body will not be completed.
    pub(crate) fn abandon(&mut self) {
        self.lines.cut();
    }

    /// How the pod ended, if it has.
    pub(crate) fn end(&self) -> Option<Result<(), &PodError>> {
        self.end.as_ref().map(|end| end.as_ref().map(|&()| ()).map_err(|error| &**error))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.writer.counts()
    }

    pub(crate) fn target(&self) -> &TargetLabels {
        self.writer.target()
    }

    /// Reads on to the first sample of the next block.
    pub(crate) fn seek(&mut self) -> Seek {
        match self.run(Mode::Seek, &mut Vec::new()) {
            Copied::NeedBytes => Seek::NeedBytes,
            Copied::BlockEnd | Copied::Full => Seek::Head,
            Copied::Over => Seek::Over,
        }
    }

    /// The block that [`seek`](Self::seek) found.
    pub(crate) fn head(&self) -> Head<'_> {
        self.writer.head()
    }

    /// Writes samples of the block that [`seek`](Self::seek) found, to its end or as far as possible.
    pub(crate) fn copy(&mut self, out: &mut Vec<u8>) -> Copied {
        self.run(Mode::Copy, out)
    }

    fn run(&mut self, mode: Mode, out: &mut Vec<u8>) -> Copied {
        while self.end.is_none() {
            let lines = self.lines.lines();
            if lines.is_empty() {
                match self.lines.exhausted() {
                    None => {}
                    Some(Exhausted::NeedBytes) => return Copied::NeedBytes,
                    Some(Exhausted::Ended) => match self.writer.check_end() {
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
            let mut input = Input::new(lines, self.limits.line_bytes);
            let stop = self.writer.read(&mut input, mode, out);
            let excerpt = match stop {
                // No more of the line than would have been kept had it come in pieces.
                Stop::Fault(_) => Excerpt::of(input.long_line(), self.limits.line_bytes),
                _ => Excerpt::default(),
            };
            let (bytes, count) = (input.at, input.count);
            self.lines.consume(bytes, count);
            match stop {
                Stop::Used => {}
                Stop::Boundary => return Copied::BlockEnd,
                Stop::Full => return Copied::Full,
                Stop::Fault(fault) => self.fail(fault, excerpt),
            }
        }
        Copied::Over
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

impl fmt::Debug for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pod").field("index", &self.index).field("end", &self.end).finish_non_exhaustive()
    }
}
