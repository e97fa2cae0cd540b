//! A program under test: started, watched, signalled, measured, and never left behind.

mod measure;

use std::ffi::OsStr;
use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

pub use measure::Measured;

/// How long is waited for a line or an exit: long enough for the slowest machine, short enough to fail before the test
/// runner loses patience.
const WAIT: Duration = Duration::from_secs(30);
/// How often an exit is looked for; nothing tells of it without a signal handler of the test's own.
const POLL: Duration = Duration::from_millis(5);

/// A running program, killed when dropped. If that happens while a test fails, what it said is printed.
pub struct Process {
    child: Child,
    name: String,
    lines: watch::Receiver<Vec<String>>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Process {
    /// Starts the program with these arguments, and these variables beside those of this process.
    pub fn start<A: AsRef<OsStr>>(program: &Path, arguments: &[A], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().copied());
        Self::spawn(command)
    }

    /// Starts a command that was put together elsewhere; its output is taken over.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().unwrap_or_else(|error| panic!("starting {name}: {error}"));
        let (said, lines) = watch::channel(Vec::new());
        collect(child.stdout.take().expect("stdout is piped"), said.clone());
        collect(child.stderr.take().expect("stderr is piped"), said);
        Self { child, name, lines }
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// All lines it has written so far to stdout and stderr, in the order they came.
    pub fn lines(&self) -> Vec<String> {
        self.lines.borrow().clone()
    }

    /// Waits for a line that fulfils the condition, among those already written too, and gives it.
    /// Panics with all lines if the program ends its output first, or after half a minute.
    pub async fn wait_for_line(&self, mut condition: impl FnMut(&str) -> bool) -> String {
        let mut lines = self.lines.clone();
        let mut seen = 0;
        let found = tokio::time::timeout(WAIT, async {
            loop {
                let new: Vec<String> = lines.borrow_and_update()[seen..].to_vec();
                seen += new.len();
                if let Some(line) = new.into_iter().find(|line| condition(line)) {
                    return Some(line);
                }
                // An error says that the output has ended, but lines may have come with it.
                if lines.changed().await.is_err() && lines.borrow().len() == seen {
                    return None;
                }
            }
        });
        let Ok(found) = found.await else {
            panic!("{} does not write the awaited line:\n{}", self.name, self.text());
        };
        found.unwrap_or_else(|| panic!("{} ended its output without the awaited line:\n{}", self.name, self.text()))
    }

    /// Sends a signal by its name, e.g. `TERM`.
    pub fn signal(&self, signal: &str) {
        // The system call would be `unsafe`, and not every machine has a program `kill`; every shell has one built in.
        let status = Command::new("sh").args(["-c", &format!("kill -s {signal} {}", self.id())]).status();
        let sent = status.unwrap_or_else(|error| panic!("running kill: {error}"));
        assert!(sent.success(), "SIG{signal} to {}:\n{}", self.name, self.text());
    }

    /// How it ended, if it has.
    pub fn exited(&mut self) -> Option<Exit> {
        self.child.try_wait().expect("a child can be waited for").map(Exit::from)
    }

    /// Waits for it to end. Panics with all lines after half a minute.
    pub async fn wait(&mut self) -> Exit {
        let started = Instant::now();
        loop {
            if let Some(exit) = self.exited() {
                return exit;
            }
            assert!(started.elapsed() < WAIT, "{} does not end:\n{}", self.name, self.text());
            tokio::time::sleep(POLL).await;
        }
    }

    /// What it uses now.
    pub fn measure(&self) -> Measured {
        Measured::of(self.id())
    }

    /// Makes the peak of its memory start anew from what it uses now.
    pub fn reset_peak(&self) {
        measure::reset_peak(self.id());
    }

    fn text(&self) -> String {
        self.lines.borrow().join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- what {} said ---\n{}\n---", self.name, self.text());
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => unreachable!("a process ends with a code or by a signal"),
        }
    }
}

/// Collects lines until the end of the output; the last sender to go closes the channel.
fn collect(output: impl Read + Send + 'static, said: watch::Sender<Vec<String>>) {
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            said.send_modify(|lines| lines.push(line));
        }
    });
}
