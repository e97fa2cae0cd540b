//! The process: what is started, in which order, and how it ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use crate::admin::{self, Admin};
use crate::cli::Serve;
use crate::listener::Door;
use crate::memory;
use crate::metrics::Families;
use crate::slot::Slot;
use crate::tenant::Shared;

/// What is under way has this long to finish once no connection is accepted any more. With the drain before it, it stays
/// below the thirty seconds a pod is given to stop.
const FINISH: Duration = Duration::from_secs(15);

/// Runs until a signal ends it. An error is one of the start: nothing was served.
pub(crate) async fn run(options: Serve) -> Result<(), String> {
    let mut registry = Registry::default();
    let families = Families::register(&mut registry);
    let shared = Arc::new(Shared { families: families.clone(), proxy: own_name() });
    let slot = Slot::load(&shared, &options.config).await;
    let slot = Arc::new(slot.map_err(|error| format!("{}: {error}", options.config.display()))?);
    admin::register(&mut registry, Arc::clone(&slot));

    let (listener, admin_listener) =
        (listen("scrapers", options.listen).await?, listen("admin", options.admin_listen).await?);
    let (mut end, mut hangup) = (EndSignals::new()?, listen_for(SignalKind::hangup())?);
    let draining = Arc::new(AtomicBool::new(false));
    let (closed, stopping) = (CancellationToken::new(), CancellationToken::new());
    let connections = TaskTracker::new();
    let admin = Admin { registry, slot: Arc::clone(&slot), draining: Arc::clone(&draining) };
    tokio::spawn(Arc::new(admin).run(admin_listener));
    let door = Door {
        slot: Arc::clone(&slot),
        proxy_protocol: options.proxy_protocol,
        families,
        stopping: stopping.clone(),
        connections: connections.clone(),
    };
    tokio::spawn(Arc::new(door).run(listener, closed.clone()));

    let mut quiet = Quiet::default();
    let mut poll = tokio::time::interval(options.reload_interval.max(Duration::from_millis(10)));
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = poll.tick() => {
                slot.poll(&shared).await;
                quiet.look(&slot);
            }
            _ = hangup.recv() => slot.poll(&shared).await,
            () = end.received() => break,
        }
    }

    info!(drain = ?options.drain, "told to stop: not ready any more");
    draining.store(true, Ordering::Relaxed);
    tokio::select! {
        () = tokio::time::sleep(options.drain) => {}
        () = end.received() => return Ok(()),
    }
    closed.cancel();
    stopping.cancel();
    connections.close();
    tokio::select! {
        () = connections.wait() => info!("stopped"),
        () = tokio::time::sleep(FINISH) => warn!(connections = connections.len(), "stopped with connections open"),
        () = end.received() => {}
    }
    Ok(())
}

/// Lets go of memory when there is nothing to do after there was something.
#[derive(Default)]
struct Quiet {
    /// Scrapes that had ended when memory was last let go; never before the start is over, which is a lot of work too.
    scrapes: Option<u64>,
}

impl Quiet {
    fn look(&mut self, slot: &Slot) {
        let metrics = &slot.tenant().metrics;
        let ended = Some(metrics.scrapes_ended.get());
        if metrics.scrapes_in_flight.get() == 0 && self.scrapes != ended {
            memory::release();
            self.scrapes = ended;
        }
    }
}

/// The signals that end the process: the first in peace, the second at once.
struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl EndSignals {
    fn new() -> Result<Self, String> {
        Ok(Self { terminate: listen_for(SignalKind::terminate())?, interrupt: listen_for(SignalKind::interrupt())? })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn listen_for(kind: SignalKind) -> Result<Signal, String> {
    signal(kind).map_err(|error| format!("signals: {error}"))
}

async fn listen(whom: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let listener = match TcpListener::bind(address).await {
        // A machine without IPv6 has no [::] to listen on, but means the same by it.
        Err(_) if address.ip().is_unspecified() && address.is_ipv6() => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    let listener = listener.map_err(|error| format!("cannot listen on {address}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    info!(%address, whom, "listening");
    Ok(listener)
}

/// Our own pod's name: what the downward API says, or the host's name, which in a pod is the same.
fn own_name() -> Arc<str> {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").map(|name| name.trim().to_string());
    std::env::var("POD_NAME").ok().filter(|name| !name.is_empty()).or_else(|| host().ok()).unwrap_or_default().into()
}
