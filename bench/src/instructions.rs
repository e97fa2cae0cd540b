//! Instructions per scenario, counted by callgrind: the same on a busy machine as on an idle one, so that a
//! change of one in a hundred is seen, and `instructions.csv` in git is what it is compared with.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use crate::scenario::Scenario;

/// More than this above the record is a failure: either the change is wrong, or it is worth its price and
/// `make bench-record` says so in the same commit. Below 3 % the C library of another machine may be the reason.
const TOLERANCE: f64 = 1.03;

/// Merging the three replicas may cost this much more than rewriting them one by one.
const MERGE: f64 = 1.3;

/// Runs of the work in the two processes whose difference is taken, so that loading and checking do not count.
const RUNS: (u64, u64) = (1, 3);

/// Counts, prints, and either records or compares; whether nothing has grown.
pub fn count(record: bool) -> io::Result<bool> {
    let recorded = read_record()?;
    let mut csv = String::from("scenario,bytes,instructions,per_byte\n");
    let mut good = true;
    let (mut apart, mut merged) = (0, 0);
    println!("{:<45} {:>12} {:>9} {:>9}", "scenario", "instructions", "per byte", "recorded");
    for scenario in Scenario::all()? {
        let instructions = (count_run(scenario.name, RUNS.1)? - count_run(scenario.name, RUNS.0)?) / (RUNS.1 - RUNS.0);
        let per_byte = instructions as f64 / scenario.bytes() as f64;
        let before = recorded.get(scenario.name).copied();
        let grown = before.is_some_and(|before| instructions as f64 > before as f64 * TOLERANCE);
        let note = match before {
            None => "new".into(),
            Some(before) => format!("{:+.1}%", (instructions as f64 / before as f64 - 1.0) * 100.0),
        };
        let verdict = if grown { "  GROWN" } else { "" };
        println!("{:<45} {instructions:>12} {per_byte:>9.2} {note:>9}{verdict}", scenario.name);
        let _ = writeln!(csv, "\"{}\",{},{instructions},{per_byte:.2}", scenario.name, scenario.bytes());
        good &= record || !grown && before.is_some();
        if scenario.name.starts_with("rewrite replica") {
            apart += instructions;
        } else if scenario.name.starts_with("merge") {
            merged = instructions;
        }
    }
    let merge = merged as f64 / apart as f64;
    println!("merge of three, of three rewrites: {merge:.3} (ceiling {MERGE})");
    if record {
        fs::write(record_path(), csv)?;
    }
    Ok(good && merge <= MERGE)
}

/// Instructions of a process that runs the scenario `runs` times.
fn count_run(scenario: &str, runs: u64) -> io::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["run", scenario, &runs.to_string()])
        .output()
        .map_err(|error| io::Error::other(format!("valgrind (Debian package valgrind): {error}")))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    collected
        .and_then(|number| number.trim().parse().ok())
        .filter(|_| output.status.success())
        .ok_or_else(|| io::Error::other(format!("callgrind of {scenario:?} failed:\n{text}")))
}

fn record_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.csv")
}

fn read_record() -> io::Result<HashMap<String, u64>> {
    let text = match fs::read_to_string(record_path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashMap::new()),
        other => other?,
    };
    let entry = |line: &str| {
        let (name, rest) = line.strip_prefix('"')?.split_once("\",")?;
        Some((name.to_string(), rest.split(',').nth(1)?.parse().ok()?))
    };
    Ok(text.lines().skip(1).filter_map(entry).collect())
}
