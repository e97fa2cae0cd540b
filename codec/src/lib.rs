//! The exposition codec: Prometheus text is validated, filtered, labelled and merged as it streams.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod block;
mod canonical;
mod conflict;
mod error;
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
pub use error::{Excerpt, Fault, Limit, OpenMetricsFault, PodError};
pub use gate::DropReason;
pub use labels::{LabelError, PodIdentity, TargetLabels};
pub use limits::Limits;
pub use merge::{Merge, MergeOptions, Outcome, Step, Synthetic};
pub use rules::{Action, Decision, Rule, RuleError, Rules};

/// When the output has this many bytes it is handed on: four TLS records, and few enough to stay in a
/// core's cache between being written and being encrypted. A buffer with [`FRAME_CAPACITY`] never grows but for a line longer
/// than their difference.
pub const FRAME_BYTES: usize = 60 * 1024;

/// What a caller should reserve for one frame of output.
pub const FRAME_CAPACITY: usize = 64 * 1024;

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
