//! A pod that serves metrics, well or as badly as it is told.
//!
//! Written on bare sockets: a server library would not let it lie about a length or stop within a header.

mod answer;
mod behaviour;
mod connection;
mod listener;
mod stats;
mod tls;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use behaviour::{Behaviour, Framing};
pub use stats::{PodStats, Request};
pub use tls::PodTls;
pub(crate) use tls::{certificates, roots};

use connection::serve_connection;
use listener::Listener;
use stats::Recorder;

/// What Prometheus' own client library for Go says of the text format.
pub const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// What it says of OpenMetrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// What it says of its protobuf format.
pub const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// How long [`Pod::wait_for`] waits: long enough for the slowest machine, short enough to fail before the test runner
/// loses patience.
const WAIT: Duration = Duration::from_secs(30);

/// What a pod starts with.
#[derive(Clone, Debug)]
pub struct PodOptions {
    /// Where it listens, e.g. 127.1.0.5:0; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// What it serves, at every path.
    pub body: Bytes,
    /// Whether, and how, it speaks TLS.
    pub tls: PodTls,
}

/// A running pod. Dropping it closes its listener at once and its connections soon after.
pub struct Pod {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    listener: Listener,
    manner: Mutex<Manner>,
    recorder: Recorder,
    /// Replaced by [`Pod::disconnect`]: the old one ends the connections that were made under it.
    connections: Mutex<CancellationToken>,
    tasks: TaskTracker,
    stopped: CancellationToken,
}

/// How the pod answers the requests to come.
#[derive(Clone)]
struct Manner {
    body: Bytes,
    behaviour: Behaviour,
    framing: Framing,
    content_type: Option<String>,
    tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Pod {
    /// Starts a pod; must be called within a tokio runtime.
    pub fn start(options: PodOptions) -> Self {
        let (listener, address) = Listener::open(options.address);
        let shared = Arc::new(Shared {
            listener,
            manner: Mutex::new(Manner {
                body: options.body,
                behaviour: Behaviour::Serve,
                framing: Framing::ContentLength,
                content_type: Some(TEXT.to_owned()),
                tls: options.tls.acceptor(),
            }),
            recorder: Recorder::default(),
            connections: Mutex::new(CancellationToken::new()),
            tasks: TaskTracker::new(),
            stopped: CancellationToken::new(),
        });
        let acceptor = shared.clone();
        shared.tasks.spawn(async move {
            tokio::select! {
                () = acceptor.stopped.cancelled() => {}
                () = accept(&acceptor) => {}
            }
        });
        Self { address, shared }
    }

    /// Where it listens, or would if it did not refuse connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it behaves from now on: to every connection made and every request sent hereafter, also on connections
    /// that are kept open. An answer that has begun goes on as it began.
    ///
    /// [`Behaviour::RefuseConnections`] takes effect before this returns; any other re-opens a closed listener.
    pub fn behave(&self, behaviour: Behaviour) {
        let refuse = behaviour == Behaviour::RefuseConnections;
        self.shared.manner().behaviour = behaviour;
        if refuse {
            self.shared.listener.close();
        } else {
            self.shared.listener.reopen(self.address);
        }
    }

    /// What it serves from now on.
    pub fn set_body(&self, body: Bytes) {
        self.shared.manner().body = body;
    }

    /// How it says where a body ends, from now on.
    pub fn set_framing(&self, framing: Framing) {
        self.shared.manner().framing = framing;
    }

    /// The `Content-Type` it sends from now on; none leaves the header out.
    pub fn set_content_type(&self, content_type: Option<&str>) {
        self.shared.manner().content_type = content_type.map(str::to_owned);
    }

    /// The certificates of the connections to come.
    pub fn set_tls(&self, tls: &PodTls) {
        self.shared.manner().tls = tls.acceptor();
    }

    /// Ends all connections that are open, in the middle of whatever they do. The listener stays.
    pub fn disconnect(&self) {
        std::mem::take(&mut *lock(&self.shared.connections)).cancel();
    }

    /// The last requests it has seen, oldest first, as many as [`Self::REQUESTS_KEPT`].
    pub fn requests(&self) -> Vec<Request> {
        self.shared.recorder.requests()
    }

    /// How many requests are kept for [`Pod::requests`]: more than a test looks at, less than a long load test makes.
    pub const REQUESTS_KEPT: usize = 1000;

    /// What it has counted so far.
    pub fn stats(&self) -> PodStats {
        self.shared.recorder.stats()
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.stats().open
    }

    /// Connections accepted since the start, failed handshakes included.
    pub fn accepted_connections(&self) -> usize {
        self.stats().accepted
    }

    /// Bytes given to sockets since the start, before encryption: heads, framing and bodies.
    ///
    /// What a socket's buffer holds and the peer has not read counts as sent.
    pub fn sent(&self) -> u64 {
        self.stats().sent
    }

    /// Waits until its counts fulfil the condition, and gives them. Panics with them after half a minute.
    pub async fn wait_for(&self, condition: impl FnMut(&PodStats) -> bool) -> PodStats {
        let mut stats: watch::Receiver<PodStats> = self.shared.recorder.subscribe();
        let waited = tokio::time::timeout(WAIT, stats.wait_for(condition)).await;
        let met = waited.ok().and_then(Result::ok).map(|stats| *stats);
        met.unwrap_or_else(|| panic!("pod {} is still not as awaited: {:?}", self.address, self.stats()))
    }

    /// Closes listener and connections, and waits until they are gone.
    pub async fn stop(self) {
        self.shared.stop();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl Shared {
    fn manner(&self) -> MutexGuard<'_, Manner> {
        lock(&self.manner)
    }

    fn stop(&self) {
        self.listener.close();
        self.stopped.cancel();
        lock(&self.connections).cancel();
        self.tasks.close();
    }
}

async fn accept(shared: &Arc<Shared>) {
    loop {
        let stream = shared.listener.accept().await;
        let ended = lock(&shared.connections).clone();
        let connection = shared.clone();
        shared.recorder.accepted();
        shared.tasks.spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                // What goes wrong on a connection is the peer's affair, and the counts tell of it.
                _ = serve_connection(&connection, stream) => {}
            }
            connection.recorder.closed();
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with this lock")
}
