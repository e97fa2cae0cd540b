//! Any body of one pod, in any pieces, under any settings.
#![no_main]

sluice_codec_fuzz::fuzz!(rewrite);
