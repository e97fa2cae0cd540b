//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sluice_config::Span;

/// Carries the metrics of hosted Kubernetes control planes to the clusters they control.
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve a tenant's metrics
    Serve(Serve),
    /// Say what is wrong with a configuration; exit code 64 if anything is
    Check(Check),
    /// Say what becomes of each line of a pod's metrics, read from standard input, and which rule decides it
    Explain(Explain),
}

#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// The configuration of one tenant
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Where scrapers connect, with TLS
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:9443")]
    pub(crate) listen: SocketAddr,
    /// Where people and probes connect, without: /metrics, /healthz, /readyz, /api/v1/targets
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9090")]
    pub(crate) admin_listen: SocketAddr,
    /// Expect a PROXY header of version 2 before TLS, from each client
    #[arg(long)]
    pub(crate) proxy_protocol: bool,
    /// After SIGTERM go on accepting connections for this long, not ready, so that balancers can notice
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) drain: Duration,
    /// How log lines are written; `RUST_LOG` says which
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(crate) log_format: LogFormat,
    /// How often files are looked at for changes; SIGHUP looks at once
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    pub(crate) reload_interval: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The configuration of one tenant
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The configuration of one tenant
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// The component whose labels and rules apply
    #[arg(long, value_name = "NAME")]
    pub(crate) component: String,
    /// The pod whose metrics they are
    #[arg(long, value_name = "NAME")]
    pub(crate) pod: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormat {
    Json,
    Text,
}

fn span(text: &str) -> Result<Duration, String> {
    text.parse::<Span>().map(|span| span.0)
}
