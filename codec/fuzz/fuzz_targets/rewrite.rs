//! Any body of one pod, in any pieces, under any settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_codec_fuzz::invariants::rewrite(data));
