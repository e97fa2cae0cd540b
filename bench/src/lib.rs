//! What is measured: inputs, and the scenarios over them, shared by the wall-clock benches
//! (`benches/codec.rs`) and the counting of instructions (`main.rs`); and the whole process, side by side with others.
#![forbid(unsafe_code)]

pub mod dedicated;
pub mod input;
pub mod instructions;
pub mod ratios;
pub mod scenario;
