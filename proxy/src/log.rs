//! Log lines, on standard error.
//!
//! Nothing here redacts, because nothing that needs it gets here: tokens and keys are in no error of ours, headers are never
//! logged, and what pods and API servers say is quoted only in excerpts.

use std::io::stderr;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise.
const DEFAULT: &str = "info";

pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match format {
        LogFormat::Json => builder.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
        LogFormat::Text => builder.with_ansi(false).init(),
    }
}
