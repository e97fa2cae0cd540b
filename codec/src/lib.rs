//! The exposition codec: Prometheus text is validated, filtered, labelled and merged as it streams.
//!
//! Sans I/O: frames are pushed in, rewritten bytes come out, and any chunking of the input gives the same output. What is
//! accepted, repaired and refused, and what is written, is in `GRAMMAR.md`; [`Merge`] is the way in.
//!
//! # The way of a line
//!
//! The files stand in the order in which bytes travel:
//!
//! ```text
//! frame ─ lines ─ writer ┬ canonical (scan)      the usual shape of a sample, read at memory speed
//!                        ├ sample (number, text) every other spelling, and the judge of what is wrong
//!                        ├ metadata ─ family     HELP and TYPE: which samples belong together
//!                        ├ openmetrics           OpenMetrics becomes text first
//!                        ├ gate ─ rules          what becomes of the samples of one name
//!                        ├ conflict ─ labels     injected labels, `exported_` renaming
//!                        └ block                 where one family ends and the next begins
//! pod     one pod's stream, block by block
//! merge   all pods' streams, family by family; then synthetic: `up` and the error counter
//! explain a merge of one pod, line by line, that says why
//! ```
//!
//! # Memory
//!
//! Per pod: the frame in hand, an unfinished line, a family's name and HELP, and about 20 KiB of tables. Per
//! response: the caller's output buffer. None of it grows with the body (`tests/memory.rs`).
//!
//! # Speed
//!
//! A line mostly repeats the one before it, so the quick way (`canonical.rs`) reads only what differs, sixteen bytes at a time, and
//! copies the line in two pieces around the injected labels. Everything that depends on a sample's name alone is decided once
//! a name (`gate.rs`). What else was tried is in the commit messages.
//!
//! Measured on 2026-11-16 on two cores of an AMD EPYC by `make bench` (wall time, best of 25, in one run) and `make bench-ci` (instructions):
//!
//! | input | GB/s | of memcpy | instructions per byte |
//! |---|---|---|---|
//! | kube-apiserver, 8.2 MB | 2.3 | 0.11 | 5.0 |
//! | the same, shapes never repeat | 1.3 | 0.06 | 8.5 |
//! | with the All rules | 1.9 | 0.09 | 5.7 |
//! | with the Telemetry rules | 3.0 | 0.13 | 4.4 |
//! | three different kube-apiservers, merged | 2.5 | 0.21 | 4.8 |
//! | kube-controller-manager, 0.4 MB | 1.0 | 0.03 | 8.9 |
//! | etcd, 0.15 MB | 1.0 | 0.02 | 9.9 |
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod block;
mod canonical;
mod conflict;
mod error;
mod explain;
mod family;
mod gate;
mod labels;
mod limits;
mod lines;
mod merge;
mod metadata;
mod number;
mod openmetrics;
mod pod;
mod rules;
mod sample;
mod scan;
mod synthetic;
mod text;
mod writer;

pub use block::Counts;
pub use conflict::LabelChange;
pub use error::{Excerpt, Fault, Limit, OpenMetricsFault, PodError};
pub use explain::{Declaration, Dropped, Explained, Explainer, Failure, Fate, Kept, Unwritten};
pub use gate::DropReason;
pub use labels::{LabelError, PodIdentity, TargetLabels};
pub use limits::Limits;
pub use merge::{Merge, MergeOptions, Outcome, Step, Synthetic};
pub use rules::{Action, Decision, Refusal, Rule, RuleError, Rules};

/// When the output has this many bytes it is handed on: two TLS records, and few enough to stay in a
/// core's cache between being written and being encrypted. A buffer with [`FRAME_CAPACITY`] never grows but for a line or HELP longer
/// than their difference.
pub const FRAME_BYTES: usize = 28 * 1024;

/// What a caller should reserve for one frame of output.
pub const FRAME_CAPACITY: usize = 32 * 1024;

/// What a pod's body is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text 0.0.4.
    #[default]
    Text,
    /// OpenMetrics text 1.0; turned into text 0.0.4.
    OpenMetrics,
}

/// Which metric and label names the scraper can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Only `[a-zA-Z_:][a-zA-Z0-9_:]*`: Prometheus 2. Samples with other names are dropped.
    #[default]
    Legacy,
    /// Any UTF-8, in quotes where necessary: a scraper that accepts `escaping=allow-utf-8`.
    Utf8,
}
