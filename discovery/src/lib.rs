//! Who to scrape: what EndpointSlices and Pods say, kept as small, warm snapshots.
//!
//! So far the projection: [`Index`] takes what a watch reports and keeps each component's [`Targets`] up to date. The watch
//! itself is not here yet.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod index;
pub mod object;
mod query;

pub use index::{Index, Target, Targets};
pub use query::{Pods, Port, Query, Requirement, Selector};
