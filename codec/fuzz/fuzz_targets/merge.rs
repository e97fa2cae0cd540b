//! Any bodies of several pods, in any pieces, one of them given up at any time.
#![no_main]

sluice_codec_fuzz::fuzz!(merge);
