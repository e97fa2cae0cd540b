//! `sluice-loadtest demo`: a control plane, the real `sluice` before it, and what one can try with them.

mod arguments;
mod command;
mod guide;
mod sluice;
mod table;

use std::fmt::Display;
use std::future::pending;
use std::io::{BufRead, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use sluice_loadtest::cluster::{ClusterOptions, HostedCluster, Net};
use sluice_loadtest::corpus;
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

pub(crate) use arguments::Arguments;

use command::{Next, Troubles};
use sluice::{Addresses, Sluice};

/// 127.77.0.0: nothing else on a machine is likely to be there, and it is seen at once whose address one is.
const NET: Net = Net::new(77 << 8);
/// For a scrape. A second is plenty, but whoever tries a debug build on a busy machine shall see the same.
const SCRAPE_TIMEOUT: Duration = Duration::from_mins(1);
/// How often is looked whether `sluice` still runs and has said something: soon enough for one who watches.
const LOOK: Duration = Duration::from_millis(100);

/// Why there is no demo, or no more.
#[derive(Debug, Error)]
pub(crate) enum DemoError {
    #[error("there is no sluice at {}\nBuild it with `cargo build --release -p sluice`, or say with --sluice where it is.", .0.display())]
    NoSluice(PathBuf),
    #[error(
        "{0} is taken by another program\nChoose another place, e.g. --listen 127.0.0.1:0 for any free port. With make: make demo DEMO=\"--listen 127.0.0.1:0\""
    )]
    PortTaken(SocketAddr),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("sluice has ended by itself, with {how}. Its last words:\n{last_words}")]
    SluiceDied { how: String, last_words: String },
    #[error("sluice does not get ready: {why}. Its last words:\n{last_words}")]
    NotReady { why: String, last_words: String },
    #[error("sluice did not stop in good order, but with {0}")]
    BadStop(String),
    #[error("the demo's files: {0}")]
    Files(std::io::Error),
    #[error("signals: {0}")]
    Signals(std::io::Error),
}

/// Runs until Ctrl-C, SIGTERM, `quit` or the end of the time given. Whatever happens, nothing of it is left.
pub(crate) async fn run(arguments: Arguments) -> Result<(), DemoError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DemoError::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(DemoError::Signals)?;
    let binary = arguments.sluice()?;
    check_free(arguments.listen)?;

    say("Starting a simulated control plane and sluice before it ...");
    let serving_addresses = vec![arguments.listen.ip()];
    let options = ClusterOptions { net: NET, serving_addresses, timeout: SCRAPE_TIMEOUT, ..ClusterOptions::default() };
    let mut cluster = HostedCluster::start(options).await;
    symlink(&binary, cluster.dir().join("sluice")).map_err(DemoError::Files)?;
    std::fs::write(cluster.dir().join(guide::CAPTURED), corpus::kube_controller_manager()).map_err(DemoError::Files)?;
    let mut sluice = Sluice::start(&binary, &cluster.config_path(), arguments.listen);
    let outcome = tokio::select! {
        outcome = show(&mut cluster, &mut sluice, arguments.duration) => outcome,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    };
    outcome?;
    say("\nStopping ...");
    sluice.stop().await?;
    drop(cluster);
    say("Stopped. Nothing of it is left.");
    Ok(())
}

/// Shows everything, then for so long does what is typed. Ends with `quit`, or when `sluice` does.
async fn show(cluster: &mut HostedCluster, sluice: &mut Sluice, duration: Option<Duration>) -> Result<(), DemoError> {
    let addresses = sluice.ready().await?;
    guide::print_picture(cluster, addresses.scrapers);
    table::print_scrapes(cluster, addresses.scrapers).await;
    sluice.check_alive().await?;
    guide::print_what_to_try(cluster, addresses);
    command::print_help();
    say("\nCtrl-C ends the demo and removes everything. What sluice logs from now on is shown here.\n");

    let mut lines = typed_lines();
    let mut troubles = Troubles::default();
    let mut end = pin!(end_after(duration));
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            _ = look.tick() => {
                sluice.news().into_iter().for_each(say);
                sluice.check_alive().await?;
            }
            () = &mut end => return Ok(()),
            Some(line) = lines.recv() => {
                if command::perform(&line, cluster, &mut troubles) == Next::Quit {
                    return Ok(());
                }
            }
        }
    }
}

/// Prints a line. A reader who has seen enough (`| head`) is no error.
fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Finds out before all else is started; `sluice` itself would too.
fn check_free(address: SocketAddr) -> Result<(), DemoError> {
    match TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Err(DemoError::PortTaken(address)),
        Err(error) => Err(DemoError::Listen(address, error)),
    }
}

async fn end_after(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => pending().await,
    }
}

/// What is typed, line by line. The end of input, or none at all, is no reason to end.
fn typed_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // A thread that the runtime does not wait for: it may sit in a read for ever.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}
