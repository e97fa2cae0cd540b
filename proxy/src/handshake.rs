//! TLS: the tenant is found by the name the client asks for, before anything else is done for it.

use std::sync::Arc;

use rustls::server::Acceptor;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::authenticate::PeerCertificate;
use crate::slot::Slot;

/// TLS alert, fatal, `unrecognized_name`: the record that ends a handshake which names no tenant.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 112];

/// A connection that is ready for HTTP.
pub(crate) struct Accepted {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) slot: Arc<Slot>,
    pub(crate) peer: Option<PeerCertificate>,
    /// One of the tenant's connections.
    pub(crate) permit: tokio::sync::OwnedSemaphorePermit,
}

/// Why a handshake failed: a constant word for a metric, and what there is to say.
pub(crate) struct Failure {
    pub(crate) reason: &'static str,
    pub(crate) detail: String,
}

/// Greets a client as the tenant it asks for.
pub(crate) async fn accept(
    stream: TcpStream,
    find: impl Fn(Option<&str>) -> Option<Arc<Slot>>,
) -> Result<Accepted, Failure> {
    let fail = |reason| move |error: std::io::Error| Failure { reason, detail: error.to_string() };
    let mut start = LazyConfigAcceptor::new(Acceptor::default(), stream).await.map_err(fail("client_hello"))?;
    let server_name = start.client_hello().server_name().map(String::from);
    let Some(slot) = find(server_name.as_deref()) else {
        // It costs nobody a handshake. The client may be gone already.
        let _ = start.io.write_all(&UNRECOGNIZED_NAME).await;
        return Err(Failure { reason: "unknown_name", detail: server_name.unwrap_or_default() });
    };
    let tenant = slot.tenant();
    let Ok(permit) = Arc::clone(&tenant.connections).try_acquire_owned() else {
        return Err(Failure { reason: "too_many_connections", detail: tenant.name.to_string() });
    };
    let serving = &tenant.serving;
    let stream = start.into_stream(Arc::clone(&serving.config)).await.map_err(fail("handshake"))?;
    let peer = stream.get_ref().1.peer_certificates().and_then(|chain| serving.clients.as_ref()?.peer(chain));
    Ok(Accepted { stream, slot, peer, permit })
}
