//! `sluice-loadtest`: simulated control planes with the real `sluice` before them.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod demo;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulated control planes with the real sluice before them
#[derive(Debug, Parser)]
#[command(name = "sluice-loadtest", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a control plane with sluice before it, and say what can be tried with it
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let Command::Demo(arguments) = Cli::parse().command;
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("sluice-loadtest: no threads to work with: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = runtime.block_on(demo::run(arguments));
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sluice-loadtest: {error}");
            ExitCode::FAILURE
        }
    }
}
