//! Mutations that know what a line and a label are, for the fuzzer beside its own and for the test with the fixed seed.
//!
//! What is hard to reach by flipping bytes are lines that nearly repeat the line before, which is what the codec's quick way
//! lives on: so lines are copied with a byte changed, and labels are copied over other labels.

#![allow(unreachable_pub, reason = "public in the fuzz crate, private in the test that includes it")]

use std::ops::Range;

/// Bytes that mean something to a parser, where a random one seldom does.
const TELLING: &[u8] = b"\"\\{},= \t\r\n#\0\xff_:0+eN.\x1e";

/// Xorshift: the same numbers on every machine and in every version of everything.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u32) -> Self {
        // Never 0, where it would stay.
        Self(u64::from(seed) ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % bound
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Somewhere in `0..len`, and at most `most` long.
    fn span(&mut self, len: usize, most: usize) -> Range<usize> {
        let start = self.below(len + 1);
        start..len.min(start + self.below(most + 1))
    }

    /// Changes `input` in one place or exchanges its parts; `other` is another input to take pieces from.
    pub fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(input.len() + 1);
        match self.below(10) {
            // Its beginning with another's end.
            0 => {
                input.truncate(at);
                input.extend_from_slice(&other[self.below(other.len() + 1)..]);
            }
            1 => {
                let piece = &other[self.span(other.len(), 40)];
                input.splice(at..at, piece.iter().copied());
            }
            2 if at < input.len() => input[at] ^= 1 << self.below(8),
            3 if at < input.len() => input[at] = *self.pick(TELLING),
            4 => input.insert(at, *self.pick(TELLING)),
            5 => {
                input.drain(self.span(input.len(), 6));
            }
            6 | 7 => self.copy_label(input),
            _ => self.move_line(input),
        }
    }

    /// Swaps two lines, or copies one to another place, mostly its own, and mostly changes a byte or label of the copy.
    fn move_line(&mut self, input: &mut Vec<u8>) {
        let mut lines: Vec<Vec<u8>> = input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.is_empty() {
            return;
        }
        let (from, to) = (self.below(lines.len()), self.below(lines.len()));
        if self.below(4) == 0 {
            lines.swap(from, to);
        } else {
            let mut copy = lines[from].clone();
            let at = self.below(copy.len());
            match self.below(4) {
                0 => {}
                1 => self.copy_label(&mut copy),
                2 => copy.insert(at, *self.pick(TELLING)),
                _ => copy[at] = *self.pick(TELLING),
            }
            lines.insert(if self.below(4) == 0 { to } else { from + 1 }, copy);
        }
        *input = lines.concat();
    }

    /// Copies what stands between two of `{`, `,` and `}` over another such.
    fn copy_label(&mut self, input: &mut Vec<u8>) {
        let bounds: Vec<usize> = (0..input.len()).filter(|&at| matches!(input[at], b'{' | b',' | b'}')).collect();
        if bounds.len() < 2 {
            return;
        }
        let mut label = || {
            let left = self.below(bounds.len() - 1);
            bounds[left] + 1..bounds[left + 1]
        };
        let (from, to) = (label(), label());
        // Between a closing brace and the next opening one lies a piece of two lines: fine too, if it is short.
        if from.len() < 80 {
            let piece = input[from].to_vec();
            input.splice(to, piece);
        }
    }
}
