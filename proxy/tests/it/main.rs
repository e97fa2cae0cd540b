//! `sluice` as its users meet it: the real binary, before simulated pods and a simulated hosted API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test may panic")]

mod scrape;
mod stage;
