//! The load test.
fn main() {}
