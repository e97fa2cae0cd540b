//! What is measured: inputs, and the scenarios over them, shared by the wall-clock benches
//! (`benches/codec.rs`) and the counting of instructions (`main.rs`).
#![forbid(unsafe_code)]

pub mod input;
pub mod instructions;
pub mod ratios;
pub mod scenario;
