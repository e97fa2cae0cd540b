//! Simulated hosted clusters: an API server, pods that can be told to misbehave, and a scraper like Prometheus.
#![forbid(unsafe_code)]
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the part of tests that tests share: when it cannot go on, the test must fail, and say where"
)]

pub mod api;
pub mod certificate;
pub mod cluster;
pub mod corpus;
pub mod pod;
pub mod process;
pub mod scraper;
