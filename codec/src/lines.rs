//! Frames to lines: complete lines are lent straight from the frame, only an unfinished tail is copied.

use bytes::Bytes;
use memchr::{memchr, memrchr};

use crate::error::{Fault, Limit};
use crate::limits::Limits;

/// One pod's input between frames.
///
/// [`lines`](Self::lines) lends a run of complete lines, from the carried tail or from the frame;
/// the caller reads as many as it wants and [`consume`](Self::consume)s them. When it lends nothing,
/// the state says why: more bytes are needed, the body is over, or it broke a limit.
pub(crate) struct Lines {
    /// The line that began in an earlier frame. Either unfinished, or (when `carry_complete`) one
    /// whole line with its newline; never longer than the line limit and one.
    carry: Vec<u8>,
    carry_complete: bool,
    /// The carried line got its newline from us.
    newline_added: bool,
    /// The frame in hand; what is before `start` has been consumed.
    frame: Bytes,
    start: usize,
    /// End of the last complete line in `frame`; `start <= complete <= frame.len()`.
    complete: usize,
    /// Offset in the body of the next byte to be consumed.
    offset: u64,
    /// Bytes fed so far, at most the body limit.
    fed: u64,
    line_number: u64,
    limits: Limits,
    state: Feed,
}

/// What comes behind the bytes in hand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feed {
    /// More frames.
    Open,
    /// Nothing: the body is complete, a tail without newline is a line.
    Ended,
    /// Nothing: the body was cut, a tail without newline is no line.
    Cut,
    /// Bytes past the body limit, which were not kept.
    OverLimit,
}

/// Why [`Lines::lines`] lent nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    NeedBytes,
    Ended,
    Failed(Fault),
}

impl Lines {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            carry: Vec::new(),
            carry_complete: false,
            newline_added: false,
            frame: Bytes::new(),
            start: 0,
            complete: 0,
            offset: 0,
            fed: 0,
            line_number: 1,
            limits,
            state: Feed::Open,
        }
    }

    /// Takes the next frame. If the one before has not been used up ([`exhausted`](Self::exhausted) did not ask for more), what is
    /// left of it and the new one are copied together.
    pub(crate) fn feed(&mut self, mut frame: Bytes) {
        if self.state != Feed::Open {
            return;
        }
        let limit = self.limits.body_bytes;
        if limit > 0 && frame.len() as u64 > limit - self.fed {
            frame.truncate((limit - self.fed) as usize);
            self.state = Feed::OverLimit;
        }
        self.fed += frame.len() as u64;
        if self.carry_complete || self.start < self.frame.len() {
            frame = [&self.frame[self.start..], &frame].concat().into();
        }
        self.start = 0;
        if !self.carry_complete && !self.carry.is_empty() {
            let newline = memchr(b'\n', &frame);
            if self.carry.len() + newline.unwrap_or(frame.len()) > self.limits.line_bytes as usize {
                self.keep(&frame);
                // Nothing is lent any more; what was in hand has been read.
                self.frame = Bytes::new();
                self.complete = 0;
                return;
            }
            self.start = newline.map_or(frame.len(), |newline| newline + 1);
            self.carry.extend_from_slice(&frame[..self.start]);
            self.carry_complete = newline.is_some();
        }
        self.complete = memrchr(b'\n', &frame[self.start..]).map_or(self.start, |last| self.start + last + 1);
        self.frame = frame;
    }

    /// The body is complete.
    pub(crate) fn end(&mut self) {
        if self.state == Feed::Open {
            self.state = Feed::Ended;
        }
    }

    /// The body was cut short: complete lines in hand still count, an unfinished one does not.
    pub(crate) fn cut(&mut self) {
        if self.state == Feed::Open {
            self.state = Feed::Cut;
        }
    }

    /// Drops everything in hand.
    pub(crate) fn discard(&mut self) {
        self.state = Feed::Cut;
        self.carry = Vec::new();
        self.carry_complete = false;
        self.frame = Bytes::new();
        (self.start, self.complete) = (0, 0);
    }

    /// Complete lines, the last byte a newline; empty when there are none (see [`exhausted`](Self::exhausted)).
    ///
    /// A line in it may be longer than the limit; whoever finds a line's end compares.
    #[inline]
    pub(crate) fn lines(&self) -> &[u8] {
        if self.carry_complete { &self.carry } else { &self.frame[self.start..self.complete] }
    }

    /// Marks the first `bytes` of what [`lines`](Self::lines) lent, `count` whole lines, as read.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize, count: u64) {
        self.offset += bytes as u64;
        self.line_number += count;
        if self.carry_complete {
            if bytes > 0 {
                self.offset -= u64::from(self.newline_added);
                self.carry.clear();
                self.carry_complete = false;
            }
        } else {
            self.start += bytes;
        }
    }

    /// Why there are no complete lines; keeps the unfinished tail of a used-up frame.
    ///
    /// `Ended` is only said once a last line without newline has been lent as well.
    pub(crate) fn exhausted(&mut self) -> Option<Exhausted> {
        let frame = std::mem::take(&mut self.frame);
        self.keep(&frame[self.start..]);
        (self.start, self.complete) = (0, 0);
        if self.carry.len() > self.limits.line_bytes as usize {
            return Some(Exhausted::Failed(Fault::Limit {
                limit: Limit::LineBytes,
                value: self.limits.line_bytes.into(),
            }));
        }
        match self.state {
            Feed::Open => Some(Exhausted::NeedBytes),
            Feed::Ended if self.carry.is_empty() => Some(Exhausted::Ended),
            Feed::Ended => {
                self.carry.push(b'\n');
                self.carry_complete = true;
                self.newline_added = true;
                None
            }
            Feed::Cut => Some(Exhausted::Failed(Fault::Abandoned)),
            Feed::OverLimit => {
                Some(Exhausted::Failed(Fault::Limit { limit: Limit::BodyBytes, value: self.limits.body_bytes }))
            }
        }
    }

    /// Copies an unfinished line: one byte past the limit is enough to know that it is too long.
    fn keep(&mut self, tail: &[u8]) {
        let room = (self.limits.line_bytes as usize + 1).saturating_sub(self.carry.len());
        self.carry.extend_from_slice(&tail[..tail.len().min(room)]);
    }

    /// The bytes of an unfinished line, for an error's excerpt.
    pub(crate) fn tail(&self) -> &[u8] {
        &self.carry
    }

    /// Offset in the body of the first byte of what [`lines`](Self::lines) lends.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Number of the first line of what [`lines`](Self::lines) lends, from 1.
    pub(crate) fn line_number(&self) -> u64 {
        self.line_number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(body: &[u8], chunk: usize, limits: Limits) -> (Vec<Vec<u8>>, Exhausted, u64, u64) {
        let mut lines = Lines::new(limits);
        let mut read = Vec::new();
        let mut frames = body.chunks(chunk);
        loop {
            let lent = lines.lines().to_vec();
            if lent.is_empty() {
                match lines.exhausted() {
                    None => {}
                    Some(Exhausted::NeedBytes) => match frames.next() {
                        Some(frame) => lines.feed(Bytes::copy_from_slice(frame)),
                        None => lines.end(),
                    },
                    Some(other) => return (read, other, lines.offset(), lines.line_number()),
                }
                continue;
            }
            let end = memchr(b'\n', &lent).unwrap() + 1;
            if end - 1 > limits.line_bytes as usize {
                let fault = Fault::Limit { limit: Limit::LineBytes, value: limits.line_bytes.into() };
                return (read, Exhausted::Failed(fault), lines.offset(), lines.line_number());
            }
            read.push(lent[..end].to_vec());
            lines.consume(end, 1);
        }
    }

    #[test]
    fn every_chunking_gives_the_same_lines_offsets_and_numbers() {
        let body = b"a 1\n\nbb 22\nccc 333\n# x\nlast";
        for chunk in 1..=body.len() {
            let (lines, end, offset, number) = read_all(body, chunk, Limits::default());
            let expected: [&[u8]; 6] = [b"a 1\n", b"\n", b"bb 22\n", b"ccc 333\n", b"# x\n", b"last\n"];
            assert_eq!(lines, expected, "chunks of {chunk}");
            assert_eq!((end, number), (Exhausted::Ended, 7));
            assert_eq!(offset, body.len() as u64);
        }
    }

    #[test]
    fn a_long_line_fails_at_its_beginning_whatever_the_chunking() {
        let body = b"a 1\n0123456789\nb 2\n";
        for chunk in 1..=body.len() {
            for (limit, good) in [(9, 1), (10, 3)] {
                let limits = Limits { line_bytes: limit, ..Limits::default() };
                let (lines, end, offset, number) = read_all(body, chunk, limits);
                assert_eq!(lines.len(), good, "limit {limit}, chunks of {chunk}");
                if good == 1 {
                    let fault = Fault::Limit { limit: Limit::LineBytes, value: 9 };
                    assert_eq!((end, offset, number), (Exhausted::Failed(fault), 4, 2));
                }
            }
        }
    }

    #[test]
    fn the_line_that_crosses_the_body_limit_fails() {
        let body = b"a 1\nbb 22\nccc 333";
        for chunk in 1..=body.len() {
            for (limit, good) in [(3, 0), (4, 1), (9, 1), (10, 2), (16, 2), (17, 3), (0, 3)] {
                let limits = Limits { body_bytes: limit, ..Limits::default() };
                let (lines, end, _, number) = read_all(body, chunk, limits);
                assert_eq!(lines.len(), good, "limit {limit}, chunks of {chunk}");
                if good < 3 {
                    let fault = Fault::Limit { limit: Limit::BodyBytes, value: limit };
                    assert_eq!((end, number), (Exhausted::Failed(fault), good as u64 + 1));
                }
            }
        }
    }

    #[test]
    fn only_the_unfinished_tail_is_copied() {
        let mut lines = Lines::new(Limits::default());
        let frame = Bytes::from(vec![b'\n'; 1000]);
        lines.feed(frame.clone());
        assert_eq!(lines.lines().as_ptr(), frame.as_ptr());
        lines.consume(1000, 1000);
        assert_eq!(lines.exhausted(), Some(Exhausted::NeedBytes));
        assert_eq!(lines.carry.capacity(), 0);
    }
}
