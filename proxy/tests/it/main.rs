//! `sluice` as its users meet it: the real binary, before simulated pods and a simulated hosted API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test may panic")]

mod admin;
mod answers;
mod certificates;
mod clients;
mod commands;
mod discovery;
mod endurance;
mod pods;
mod pressure;
mod reload;
mod scrape;
mod stage;
mod stop;
mod tokens;
