//! Log lines, on standard error.
//!
//! Nothing here redacts, because nothing that needs it gets here: tokens and keys are in no error of ours, headers are never
//! logged, and what pods and API servers say is quoted only in excerpts.

use std::io::stderr;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

use crate::cli::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise. What kube says of a watch that ended is said by discovery, too, and only if
/// it matters.
const DEFAULT: &str = "info,kube_client=error";

/// Must be called once. A filter that makes no sense is told, and the default is used.
pub(crate) fn start(format: LogFormat) {
    let wanted = std::env::var("RUST_LOG").ok();
    let parsed = wanted.as_deref().map(str::parse::<Targets>);
    let bad = matches!(parsed, Some(Err(_)));
    let default = || DEFAULT.parse().unwrap_or_default();
    let filter = parsed.and_then(Result::ok).unwrap_or_else(default);
    let lines = match format {
        LogFormat::Json => fmt::layer()
            .with_writer(stderr)
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .boxed(),
        LogFormat::Text => fmt::layer().with_writer(stderr).with_ansi(false).boxed(),
    };
    tracing_subscriber::registry().with(lines.with_filter(filter)).init();
    if bad {
        tracing::warn!(RUST_LOG = wanted, "RUST_LOG is no list of targets and levels, such as info,sluice=debug");
    }
}
