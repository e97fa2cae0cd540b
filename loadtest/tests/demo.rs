//! The demo, tried as its reader tries it: every command that it prints is run.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on must fail, and say where")]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sluice_loadtest::process::{Exit, Process};
use tempfile::TempDir;

/// A demo under way.
struct Demo {
    process: Process,
    /// What is typed.
    keys: File,
    /// Holds the demo's own directory, which is to go with the demo.
    temporary: TempDir,
    /// Holds the other end of `keys`.
    _fifo: TempDir,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let [temporary, fifo] = [(); 2].map(|()| TempDir::new().expect("a temporary directory"));
        let pipe = fifo.path().join("keys");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        // Both ends, so that opening it does not wait for the other.
        let keys = OpenOptions::new().read(true).write(true).open(&pipe).expect("a pipe");
        let script = "fifo=$1; shift; exec \"$@\" <\"$fifo\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "demo"]).arg(&pipe).arg(env!("CARGO_BIN_EXE_sluice-loadtest"));
        command.arg("demo").args(arguments).env("TMPDIR", temporary.path());
        Self { process: Process::spawn(command), keys, temporary, _fifo: fifo }
    }

    /// Waits until all has been shown.
    async fn shown(&self) -> Shown {
        // Each row by itself, since each may take its time.
        for row in
            ["catalog-operator", "etcd", "kube-apiserver", "kube-scheduler", "openshift-route-controller-manager"]
        {
            self.process.wait_for_line(|line| line.trim_start().starts_with(row)).await;
        }
        self.process.wait_for_line(|line| line.starts_with("Ctrl-C ends the demo")).await;
        let lines: Vec<String> = self.process.lines().iter().map(|line| line.trim().to_owned()).collect();
        let dir = lines.iter().find_map(|line| line.strip_prefix("cd ")).expect("a directory to go to").into();
        let is_command = |line: &&String| line.starts_with("curl ") || line.starts_with("./sluice ");
        let commands = lines.iter().filter(is_command).cloned().collect();
        Shown { lines, dir, commands }
    }

    fn types(&mut self, line: &str) {
        writeln!(self.keys, "{line}").expect("the demo reads what is typed");
    }

    fn assert_nothing_is_left(&self) {
        let left: Vec<PathBuf> = fs::read_dir(self.temporary.path())
            .expect("the temporary directory")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // Killed, it would leave its sluice behind: if the test has failed, it is asked first.
        if self.process.exited().is_none() {
            self.process.signal("TERM");
            let asked = Instant::now();
            while self.process.exited().is_none() && asked.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// What a reader has before them.
struct Shown {
    lines: Vec<String>,
    dir: PathBuf,
    commands: Vec<String>,
}

impl Shown {
    /// Runs the one command that has all these in it, as it was printed, and gives its output.
    fn run(&self, words: &[&str]) -> String {
        let fits = |command: &&String| words.iter().all(|word| command.contains(word));
        let found: Vec<&String> = self.commands.iter().filter(fits).collect();
        let [command] = found.as_slice() else { panic!("{words:?} are in {found:?}") };
        run(command, &self.dir)
    }

    /// `up` of each pod of etcd, as the printed command shows it.
    fn etcd_up(&self) -> Vec<(String, String)> {
        let output = self.run(&["--cert scraper/tls.crt", "/metrics/etcd"]);
        let up = |line: &str| {
            let pod = line.split('"').nth(1).expect("a pod").to_owned();
            (pod, line.rsplit(' ').next().expect("a value").to_owned())
        };
        output.lines().map(up).collect()
    }

    /// Where scrapers connect.
    fn address(&self) -> SocketAddr {
        let url = self.commands[0].split("https://").nth(1).expect("a URL");
        url.split('/').next().expect("an address").parse().expect("an address")
    }
}

fn run(command: &str, dir: &Path) -> String {
    let output = Command::new("/bin/sh").args(["-c", command]).current_dir(dir).output().expect("a shell");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{command}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn pairs<const N: usize>(up: [(&str, &str); N]) -> Vec<(String, String)> {
    up.map(|(pod, value)| (pod.to_owned(), value.to_owned())).into()
}

/// The program that is shown. Cargo does not build it for this package's tests alone.
fn sluice() -> PathBuf {
    let sluice = Path::new(env!("CARGO_BIN_EXE_sluice-loadtest")).with_file_name("sluice");
    assert!(sluice.is_file(), "there is no {}: run `make test`, which builds the whole workspace", sluice.display());
    sluice
}

/// A program that does this before it becomes sluice.
fn wrapped(dir: &TempDir, script: &str) -> String {
    let path = dir.path().join("sluice");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable script");
    path.display().to_string()
}

#[tokio::test]
async fn every_command_that_is_printed_works_and_ctrl_c_leaves_nothing() {
    sluice();
    let version = Command::new("curl").arg("--version").output();
    assert!(version.is_ok(), "there is no curl: run `make test`, which installs it");
    let mut demo = Demo::start(&["--listen", "127.0.0.1:0"]);
    let shown = demo.shown().await;
    assert!(shown.dir.starts_with(demo.temporary.path()), "{}", shown.dir.display());

    let row = |component: &str| {
        let line = shown.lines.iter().find(|line| line.starts_with(&format!("{component} ")));
        line.expect("a row").split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("etcd")[..5], ["3", "of", "3", "3744", "0"]);
    assert_eq!(
        row("kube-apiserver")[..5],
        ["3", "of", "3", "144753", "15060"],
        "three times 5,020 buckets are dropped"
    );
    assert_eq!(row("cluster-autoscaler")[..3], ["1", "of", "1"]);

    let leaders = shown.run(&["etcd_server_has_leader"]);
    let first = leaders.lines().next().expect("a line");
    assert_eq!(leaders.lines().count(), 3, "{leaders}");
    assert!(
        first.starts_with(r#"etcd_server_has_leader{pod="etcd-0",namespace="openshift-etcd",job="etcd","#),
        "{first}"
    );
    let up = shown.run(&["/metrics/kube-apiserver"]);
    assert_eq!(up.lines().filter(|line| line.ends_with(" 1")).count(), 3, "{up}");
    assert_eq!(shown.run(&["/metrics/cluster-version-operator"]).lines().count(), 4);
    let all_up = pairs([("etcd-0", "1"), ("etcd-1", "1"), ("etcd-2", "1")]);
    assert_eq!(shown.etcd_up(), all_up, "with a client certificate");
    assert_eq!(shown.run(&["--connect-to"]).lines().count(), 3);
    assert_eq!(shown.run(&["Bearer guessed"]), "the token was not accepted\n401\n");
    assert_eq!(shown.run(&["/metrics/nonesuch"]), "there is no component \"nonesuch\"\n404\n");
    let explained = shown.run(&["./sluice explain"]);
    assert!(explained.starts_with("samples: 3725 read, 3707 kept, 18 dropped\n"), "{explained}");
    assert_eq!(shown.run(&["./sluice check"]), "config.yaml: ok, 12 components\n");
    assert_eq!(shown.run(&["/readyz"]), "ok\n");
    let targets = shown.run(&["/api/v1/targets"]);
    assert_eq!(targets.lines().count(), 22, "{targets}");
    assert!(targets.contains("\"pod\":\"etcd-0\"\t\"health\":\"up\""), "{targets}");
    let counted = shown.run(&["/metrics |"]);
    assert!(counted.contains("process_resident_memory_bytes"), "{counted}");
    assert!(counted.contains("sluice_pod_scrapes_total{tenant=\"clusters-demo\""), "{counted}");
    assert!(shown.run(&["expire date"]).contains("expire date: "));
    assert_eq!(shown.commands.len(), 13, "all have been tried: {:#?}", shown.commands);

    demo.types("kill etcd-1");
    demo.process.wait_for_line(|line| line.starts_with("etcd-1 refuses connections")).await;
    assert_eq!(shown.etcd_up(), pairs([("etcd-0", "1"), ("etcd-1", "0"), ("etcd-2", "1")]));
    demo.process.wait_for_line(|line| line.starts_with("sluice: the pod failed") && line.contains("pod=etcd-1")).await;
    demo.types("restore etcd-1");
    demo.process.wait_for_line(|line| line == "etcd-1 is well again.").await;
    assert_eq!(shown.etcd_up(), all_up);
    demo.types("break etcd-2");
    demo.process.wait_for_line(|line| line.starts_with("etcd-2 answers with garbage")).await;
    assert_eq!(shown.etcd_up(), pairs([("etcd-0", "1"), ("etcd-1", "1"), ("etcd-2", "0")]));
    demo.types("replace etcd-2");
    demo.process.wait_for_line(|line| line.starts_with("etcd-2 is gone; in its place there is etcd-3")).await;
    let replaced = Instant::now();
    while shown.etcd_up() != pairs([("etcd-0", "1"), ("etcd-1", "1"), ("etcd-3", "1")]) {
        assert!(replaced.elapsed() < Duration::from_secs(30), "etcd-3 is not found");
    }
    demo.types("rotate");
    demo.process.wait_for_line(|line| line.starts_with("sluice: the configuration was reloaded")).await;
    assert_eq!(shown.run(&["--connect-to"]).lines().count(), 3, "with the new certificate");
    for (typed, answer) in [
        ("kill nobody-0", "There is no pod \"nobody-0\""),
        ("kill", "Which pod?"),
        ("dance", "There is no \"dance\""),
        ("pods", "    kube-apiserver-0  127.77.0."),
    ] {
        demo.types(typed);
        demo.process.wait_for_line(|line| line.starts_with(answer)).await;
    }

    demo.process.signal("INT");
    assert_eq!(demo.process.wait().await, Exit::Code(0));
    demo.assert_nothing_is_left();
    assert!(TcpStream::connect(shown.address()).is_err(), "sluice is gone");
}

#[tokio::test]
async fn it_ends_in_good_order_by_sigterm_by_quit_and_after_its_time() {
    sluice();
    for how in ["SIGTERM", "quit", "time"] {
        let time = if how == "time" { &["--for", "1s"][..] } else { &[] };
        let mut demo = Demo::start(&[&["--listen", "127.0.0.1:0"], time].concat());
        match how {
            // At once, before all is shown.
            "SIGTERM" => {
                demo.process.wait_for_line(|line| line.starts_with("One scrape of each")).await;
                demo.process.signal("TERM");
            }
            "quit" => demo.types("quit"),
            _ => {}
        }
        demo.process.wait_for_line(|line| line == "Stopped. Nothing of it is left.").await;
        assert_eq!(demo.process.wait().await, Exit::Code(0), "{how}");
        demo.assert_nothing_is_left();
    }
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_with_the_way_out() {
    sluice();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let mut demo = Demo::start(&["--listen", &address]);
    demo.process.wait_for_line(|line| line.contains(&format!("{address} is taken by another program"))).await;
    demo.process.wait_for_line(|line| line.contains("--listen 127.0.0.1:0")).await;
    assert_eq!(demo.process.wait().await, Exit::Code(1));
    demo.assert_nothing_is_left();
}

#[tokio::test]
async fn a_sluice_that_ends_by_itself_has_its_last_words_shown() {
    let scripts = TempDir::new().expect("a temporary directory");
    let broken = wrapped(&scripts, "echo my last words >&2; exit 3");
    let mut demo = Demo::start(&["--listen", "127.0.0.1:0", "--sluice", &broken]);
    demo.process.wait_for_line(|line| line.contains("sluice has ended by itself, with exit code 3")).await;
    demo.process.wait_for_line(|line| line == "  my last words").await;
    assert_eq!(demo.process.wait().await, Exit::Code(1));
    demo.assert_nothing_is_left();

    let id = scripts.path().join("id");
    let killed = wrapped(&scripts, &format!("echo $$ > {}; exec {} \"$@\"", id.display(), sluice().display()));
    let mut demo = Demo::start(&["--listen", "127.0.0.1:0", "--sluice", &killed]);
    demo.process.wait_for_line(|line| line.starts_with("One scrape of each")).await;
    let id = fs::read_to_string(&id).expect("an id");
    run(&format!("kill -KILL {id}"), scripts.path());
    demo.process.wait_for_line(|line| line.contains("sluice has ended by itself, with signal 9")).await;
    demo.process.wait_for_line(|line| line.starts_with("  listening address=127.0.0.1:")).await;
    assert_eq!(demo.process.wait().await, Exit::Code(1));
    demo.assert_nothing_is_left();
}

#[tokio::test]
async fn without_a_sluice_the_reader_is_told_how_to_get_one() {
    let mut demo = Demo::start(&["--sluice", "/nowhere/sluice"]);
    demo.process.wait_for_line(|line| line.contains("there is no sluice at /nowhere/sluice")).await;
    demo.process.wait_for_line(|line| line.contains("cargo build --release -p sluice")).await;
    assert_eq!(demo.process.wait().await, Exit::Code(1));
}
