//! The process as the kernel sees it, under the names every Prometheus client library uses.

use std::fs;

/// Ticks of `/proc/<pid>/stat`: a hundred a second on every Linux that runs Kubernetes.
const TICKS_PER_SECOND: f64 = 100.0;

/// What is not known (no `/proc`) is left out.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: Option<u64>,
    pub(crate) virtual_bytes: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
    pub(crate) threads: Option<u64>,
    pub(crate) start_seconds: Option<f64>,
    pub(crate) open_fds: Option<u64>,
    pub(crate) max_fds: Option<u64>,
}

impl Process {
    pub(crate) fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut process = Self::parse(&read("/proc/self/status"), &read("/proc/self/stat"), &read("/proc/stat"));
        // Not counting the one that lists them.
        process.open_fds = fs::read_dir("/proc/self/fd").ok().map(|fds| (fds.count() as u64).saturating_sub(1));
        process.max_fds = read("/proc/self/limits")
            .lines()
            .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok());
        process
    }

    fn parse(status: &str, stat: &str, system: &str) -> Self {
        let field = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse().ok()
        };
        // Behind the program's name, which may have spaces: state is the third field of the whole.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let boot = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
        Self {
            resident_bytes: field("VmRSS").map(|kib| kib * 1024),
            virtual_bytes: field("VmSize").map(|kib| kib * 1024),
            cpu_seconds: ticks(14).zip(ticks(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            threads: field("Threads"),
            start_seconds: boot.zip(ticks(22)).map(|(boot, start)| boot + start / TICKS_PER_SECOND),
            open_fds: None,
            max_fds: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_read() {
        let status = "Name:\tsluice\nVmSize:\t  200 kB\nVmRSS:\t    6000 kB\nThreads:\t3\n";
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 9 0 0 0 150 50 0 0 20 0 3 0 500 1 1";
        let process = Process::parse(status, stat, "cpu 1\nbtime 1000\n");
        assert_eq!(process.resident_bytes, Some(6_144_000));
        assert_eq!(process.cpu_seconds, Some(2.0));
        assert_eq!(process.start_seconds, Some(1005.0));
        assert_eq!(Process::parse("", "", ""), Process::default());
    }

    #[test]
    fn this_process_is_seen() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000), "{process:?}");
        assert!(process.open_fds.is_some_and(|fds| fds > 2) && process.max_fds.is_some(), "{process:?}");
        assert!(process.start_seconds.is_some_and(|start| start > 1.7e9), "{process:?}");
    }
}
