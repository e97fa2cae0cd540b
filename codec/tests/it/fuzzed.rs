//! The fuzz targets' promises, on the same few thousand mutated seeds in every run.
//!
//! `make fuzz` looks for new inputs; what it found stays here.

use std::path::Path;

// The same files, so that whatever breaks a promise under the fuzzer breaks it here.
#[path = "../../fuzz/src/invariants.rs"]
mod invariants;
#[path = "../../fuzz/src/mutate.rs"]
mod mutate;

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
    mutate_seeds("line", 3000, invariants::line);
}

#[test]
fn any_body_in_any_pieces_is_rewritten_as_the_model_does() {
    mutate_seeds("rewrite", 4000, invariants::rewrite);
}

#[test]
fn any_pods_in_any_pieces_are_merged_as_if_each_were_alone() {
    mutate_seeds("merge", 3000, invariants::merge);
}

fn mutate_seeds(target: &str, rounds: u32, check: Check) {
    let seeds = seeds(target);
    for seed in &seeds {
        checked(check, seed);
    }
    let mut random = mutate::Random::new(1);
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
