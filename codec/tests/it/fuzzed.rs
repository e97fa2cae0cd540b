//! The fuzz targets' promises, on the same few thousand mutated seeds in every run.
//!
//! `make fuzz` looks for new inputs; what it found stays here.

use std::path::Path;

// The same file, so that whatever breaks a promise under the fuzzer breaks it here.
#[path = "../../fuzz/src/invariants.rs"]
mod invariants;

type Check = fn(&[u8]);

/// Inputs that once broke a promise, as the fuzzer left them or smaller.
const BROKEN_ONCE: &[(Check, &[u8])] = &[];

#[test]
fn what_broke_a_promise_once_does_not_again() {
    for (check, input) in BROKEN_ONCE {
        checked(*check, input);
    }
}

#[test]
fn any_line_is_read_as_the_model_reads_it() {
    mutate_seeds("line", 6000, invariants::line);
}

#[test]
fn any_body_in_any_pieces_is_rewritten_as_the_model_does() {
    mutate_seeds("rewrite", 6000, invariants::rewrite);
}

#[test]
fn any_pods_in_any_pieces_are_merged_as_if_each_were_alone() {
    mutate_seeds("merge", 6000, invariants::merge);
}

fn mutate_seeds(target: &str, rounds: u32, check: Check) {
    let seeds = seeds(target);
    for seed in &seeds {
        checked(check, seed);
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..rounds {
        let mut input = random.pick(&seeds).clone();
        for _ in 0..=random.below(4) {
            let other = random.pick(&seeds);
            random.mutate(&mut input, other);
        }
        checked(check, &input);
    }
}

/// By name, since a directory has no order of its own.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no seeds in {}", directory.display());
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A failure says which input it was; nothing else would.
fn checked(check: Check, input: &[u8]) {
    struct Said<'a>(&'a [u8]);
    impl Drop for Said<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("with the input b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let _said = Said(input);
    check(input);
}

/// Xorshift: the same numbers on every machine and in every version of everything.
struct Random(u64);

/// Bytes that mean something to a parser, where a random one seldom does.
const TELLING: &[u8] = b"\"\\{},= \t\r\n#\0\xff_:0+eN.\x1e";

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % bound
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Two places in order, at most `most` apart.
    fn span(&mut self, len: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        start..len.min(start + self.below(most + 1))
    }

    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(input.len() + 1);
        match self.below(8) {
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
            what => {
                let mut lines: Vec<&[u8]> = input.split_inclusive(|byte| *byte == b'\n').collect();
                if lines.is_empty() {
                    return;
                }
                let (from, to) = (self.below(lines.len()), self.below(lines.len()));
                if what == 6 {
                    lines.insert(to, lines[from]);
                } else {
                    lines.swap(from, to);
                }
                *input = lines.concat();
            }
        }
    }
}
