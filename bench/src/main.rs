//! `sluice-bench`: the codec's figures, and the proxy's.
//!
//! ```text
//! sluice-bench dedicated [SLUICE]     CPU and memory of one sluice beside nginx; SLUICE is the binary, by default beside this one
//! sluice-bench ratios                 wall time against memcpy and against each other, in one run
//! sluice-bench instructions [record]  instructions under callgrind, against bench/instructions.csv
//! sluice-bench run SCENARIO N         one scenario N times, for profilers
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sluice_bench::scenario::Scenario;
use sluice_bench::{dedicated, instructions, ratios};
use sluice_codec::FRAME_CAPACITY;

/// The exit code for a command line that makes no sense, as sysexits.h has it.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["dedicated"] => beside_this("sluice").and_then(|sluice| dedicated::print(&sluice)),
        ["dedicated", sluice] => dedicated::print(Path::new(sluice)),
        ["ratios"] => ratios::print(),
        ["instructions"] => instructions::count(false),
        ["instructions", "record"] => instructions::count(true),
        ["run", name, runs] => run(name, runs),
        _ => {
            eprintln!("usage: sluice-bench dedicated [SLUICE] | ratios | instructions [record] | run SCENARIO N");
            return ExitCode::from(USAGE);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sluice-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A binary of the same build.
fn beside_this(name: &str) -> std::io::Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name))
}

fn run(name: &str, runs: &str) -> std::io::Result<bool> {
    let scenarios = Scenario::all()?;
    let (Some(scenario), Ok(runs)) = (scenarios.iter().find(|scenario| scenario.name == name), runs.parse()) else {
        let names: Vec<_> = scenarios.iter().map(|scenario| scenario.name).collect();
        return Err(std::io::Error::other(format!("no scenario {name:?} or no number {runs:?}; there are {names:#?}")));
    };
    let mut out = Vec::with_capacity(FRAME_CAPACITY);
    let failed: usize = (0..runs).map(|_: u64| scenario.run(&mut out, |_| {})).sum();
    Ok(failed == 0)
}
