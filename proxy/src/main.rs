//! `sluice`: carries the metrics of hosted control planes to the clusters they control.
//!
//! The files in the order in which a scrape meets them:
//!
//! ```text
//! main, cli, log, serve      the process: start, signals, stop
//! listener                   accept
//!   proxy_protocol           (PROXY v2)
//!   handshake                TLS, tenant by SNI
//!   connection, activity     HTTP/1.1 and 2; idle, slow and stuck clients
//! scrape                     one request, step by step:
//!   authenticate/            certificate or token, TokenReview and its cache
//!   route                    path → component
//!   budget                   how long it may take, and each pod of it
//!   fanout, upstream         all pods at once, each a connection; the codec merges
//!   gzip, reply              the response, as the scraper reads it
//!   fault, answer            what goes wrong, whose fault it is, what the scraper sees
//! tenant/, component         what belongs to one hosted control plane
//!   slot, pem, kubeconfig    kept up to date from files, last good state
//! admin/, metrics            what it says about itself
//! memory                     the allocator, and what an idle process gives back
//! check, explain             the other two commands
//! ```
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod activity;
mod admin;
mod answer;
mod authenticate;
mod budget;
mod check;
mod cli;
mod component;
mod connection;
mod explain;
mod fanout;
mod fault;
mod gzip;
mod handshake;
mod kubeconfig;
mod listener;
mod log;
mod memory;
mod metrics;
mod pem;
mod proxy_protocol;
mod reply;
mod route;
mod scrape;
mod serve;
mod slot;
mod tenant;
mod upstream;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

/// `EX_USAGE`: the configuration or the command line is wrong; trying again will not help.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; if nobody reads what is printed, nobody is told.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match cli.command {
        Command::Serve(options) => serve(options),
        Command::Check(options) => {
            install_crypto();
            finish(check::run(&options.config))
        }
        Command::Explain(options) => finish(explain_with(&options)),
    }
}

fn serve(options: cli::Serve) -> ExitCode {
    log::start(options.log_format);
    install_crypto();
    // One thread: a scrape is one task, a control plane has a few a minute, and every thread has an allocator's heap of its own.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("sluice: no threads to work with: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(serve::run(options));
    // What is still under way has had its time.
    runtime.shutdown_background();
    finish(result)
}

/// Before kube looks for one. It fails only if there is one already.
fn install_crypto() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn explain_with(options: &cli::Explain) -> Result<(), String> {
    let tenant =
        sluice_config::load(&options.config).map_err(|error| format!("{}: {error}", options.config.display()))?;
    let mut input = std::io::stdin().lock();
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    explain::run(&tenant, &options.component, &options.pod, &mut input, &mut output).map_err(|error| error.to_string())
}

fn finish(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice: {error}");
            ExitCode::from(USAGE)
        }
    }
}
