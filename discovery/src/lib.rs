//! Who to scrape: what EndpointSlices and Pods say, kept as small, warm snapshots.
//!
//! [`Discovery`] lists and watches what its [`Query`]s ask for and nothing else; each has [`Targets`], which are read without a
//! lock and without a call. One watch of slices and one of pods serve all queries.
//!
//! A watch (`watch`) reads slim objects (`object`) and gives them to the `index`, which keeps of each what a target is made
//! of, works out the targets of the queries concerned and swaps them in. Whatever happens to the API server, the last targets
//! stay in force; their age is told.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod api;
mod discovery;
mod index;
mod lenient;
mod object;
mod query;
mod source;
mod status;
mod targets;
mod timing;
mod watch;

pub use discovery::{Discovery, Scope};
pub use query::{Pods, Port, Query, Requirement, Selector};
pub use source::{Source, SourceError};
pub use status::{Status, WatchStatus};
pub use targets::{Target, Targets};
pub use timing::Timing;
