//! Any bodies of several pods, in any pieces, one of them given up at any time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_codec_fuzz::invariants::merge(data));
