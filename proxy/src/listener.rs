//! The door: accepts connections and sees each of them through, in a task of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use crate::handshake::{self, Accepted, Failure};
use crate::metrics::Families;
use crate::slot::Slot;
use crate::{connection, proxy_protocol};

/// PROXY header and handshake together. Some round trips across an ocean need one second; who needs ten is slow on purpose.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Handshakes under way in the whole process. At that number newcomers are dropped: they cost a few kilobytes each, and nobody
/// knows yet whose they are.
const HANDSHAKES_MOST: usize = 1024;

/// When no connection can be accepted for want of file descriptors or memory, a pause lets some end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What every connection needs to know.
pub(crate) struct Door {
    pub(crate) slot: Arc<Slot>,
    pub(crate) proxy_protocol: bool,
    pub(crate) families: Families,
    /// Connections are told to end.
    pub(crate) stopping: CancellationToken,
    /// Counts the connections that have not ended.
    pub(crate) connections: TaskTracker,
}

impl Door {
    /// Accepts connections until `closed`.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener, closed: CancellationToken) {
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MOST));
        loop {
            let accepted = tokio::select! {
                () = closed.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&handshakes).try_acquire_owned() else {
                self.families.handshake_failed("too_many_handshakes");
                continue;
            };
            let door = Arc::clone(&self);
            self.connections.spawn(async move {
                let Some(accepted) = door.greet(stream, address).await else { return };
                drop(permit);
                door.serve(accepted).await;
            });
        }
    }

    /// PROXY header and handshake, in time.
    async fn greet(&self, stream: TcpStream, address: SocketAddr) -> Option<Accepted> {
        let greeting = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake(stream));
        let timed_out = |_| Err(Failure { reason: "timeout", detail: format!("not within {HANDSHAKE_TIMEOUT:?}") });
        match greeting.await.unwrap_or_else(timed_out) {
            Ok(accepted) => Some(accepted),
            Err(Failure { reason, detail }) => {
                debug!(%address, reason, detail, "no connection");
                self.families.handshake_failed(reason);
                None
            }
        }
    }

    async fn handshake(&self, mut stream: TcpStream) -> Result<Accepted, Failure> {
        // Our frames are large; what is smaller is the end of a response, and shall not wait. A socket that is gone says so later.
        let _ = stream.set_nodelay(true);
        if self.proxy_protocol {
            let client = proxy_protocol::read(&mut stream).await;
            let client = client.map_err(|detail| Failure { reason: "proxy_protocol", detail })?;
            debug!(?client, "proxied connection");
        }
        handshake::accept(stream, |name| {
            let tenant = self.slot.tenant();
            tenant.answers_to(name).then(|| Arc::clone(&self.slot))
        })
        .await
    }

    async fn serve(&self, accepted: Accepted) {
        let Accepted { stream, slot, peer, permit } = accepted;
        let connections = slot.tenant().metrics.connections.clone();
        connections.inc();
        connection::serve(stream, slot, peer, &self.stopping).await;
        connections.dec();
        drop(permit);
    }
}
