//! What the fuzz targets share. `tests/it/fuzzed.rs` includes the same modules.

#[path = "../../tests/support/mod.rs"]
pub mod support;

pub mod invariants;
pub mod mutate;

/// Fuzzes a function of [`invariants`], with mutations of libFuzzer's own and of ours in turn.
#[macro_export]
macro_rules! fuzz {
    ($target:ident) => {
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::invariants::$target(data));
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            if seed % 2 == 0 {
                return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
            }
            $crate::mutate_in_place(data, size, max_size, seed)
        });
    };
}

/// Mutates the first `size` bytes of `data` and returns how many there are then, at most `max_size`.
pub fn mutate_in_place(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = mutate::Random::new(seed);
    let mut input = data[..size].to_vec();
    for _ in 0..=random.below(4) {
        // Pieces of other inputs are what libFuzzer's own mutations bring in.
        let itself = input.clone();
        random.mutate(&mut input, &itself);
    }
    input.truncate(max_size);
    data[..input.len()].copy_from_slice(&input);
    input.len()
}
