//! Any line, in any surroundings.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_codec_fuzz::invariants::line(data));
