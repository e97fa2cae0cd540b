//! Any line, in any surroundings.
#![no_main]

sluice_codec_fuzz::fuzz!(line);
