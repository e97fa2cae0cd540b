//! What the fuzz targets share. `tests/it/fuzzed.rs` includes the same two modules under the same names.

#[path = "../../tests/support/mod.rs"]
pub mod support;

pub mod invariants;
