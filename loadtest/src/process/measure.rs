//! What a process uses, as the kernel tells it in `/proc`.

use std::fs;
use std::time::Duration;

/// The kernel's clock ticks in `/proc/PID/stat`: 100 a second on every architecture Linux runs on (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// What a process uses at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Resident memory in bytes (`VmRSS`).
    pub resident: u64,
    /// The peak of it since the start or the last [`reset`](super::Process::reset_peak) (`VmHWM`).
    pub peak: u64,
    /// Resident memory in bytes, with pages shared by n processes counted as 1/n (Pss).
    pub proportional: u64,
    /// Open file descriptors.
    pub descriptors: usize,
    /// Threads.
    pub threads: u64,
    /// Time spent on a CPU, in user mode and in the kernel, to a hundredth of a second.
    pub cpu: Duration,
}

impl Measured {
    /// What the process of this id uses now.
    pub fn of(id: u32) -> Self {
        let status = read(id, "status");
        let rollup = read(id, "smaps_rollup");
        let descriptors = fs::read_dir(format!("/proc/{id}/fd")).map(Iterator::count);
        Self {
            resident: kibibytes(&status, "VmRSS:"),
            peak: kibibytes(&status, "VmHWM:"),
            proportional: kibibytes(&rollup, "Pss:"),
            descriptors: descriptors.unwrap_or_else(|error| panic!("the descriptors of process {id}: {error}")),
            threads: number(&status, "Threads:"),
            cpu: cpu_time(&read(id, "stat")),
        }
    }
}

pub(super) fn reset_peak(id: u32) {
    // 5: "reset the peak resident set size to the process's current value" (proc(5)).
    fs::write(format!("/proc/{id}/clear_refs"), "5")
        .unwrap_or_else(|error| panic!("resetting the peak of process {id}: {error}"));
}

fn read(id: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_else(|error| panic!("{file} of process {id}: {error}"))
}

fn kibibytes(text: &str, key: &str) -> u64 {
    number(text, key) * 1024
}

fn number(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("{key} is not in {text}"))
}

fn cpu_time(stat: &str) -> Duration {
    // The name stands in parentheses and may hold anything; the numbers begin behind the last one. The first is
    // field 3, and user and system time are 14 and 15.
    let numbers = stat.rsplit(')').next().unwrap_or_default();
    let ticks = numbers.split_whitespace().skip(11).take(2).map(|word| word.parse::<u64>().expect("a number of ticks"));
    Duration::from_millis(ticks.sum::<u64>() * 1000 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_move_the_fields_of_its_cpu_time() {
        let stat = "17 (a) b (c) S 1 17 17 0 -1 4194304 5 0 0 0 250 50 0 0 20 0 1 0 9 1 1";
        assert_eq!(cpu_time(stat), Duration::from_secs(3));
    }
}
