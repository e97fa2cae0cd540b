//! Discovery against a simulated API server.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod churn;
mod queries;
mod support;
mod survival;
