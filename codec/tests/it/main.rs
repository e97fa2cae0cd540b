//! What the codec promises, from outside: each module a promise.

#![allow(missing_docs, reason = "tests are not an API")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod corpus;
mod explain;
mod fuzzed;
mod grammar;
mod labels;
mod limits;
mod merge;
mod model;
mod openmetrics;
