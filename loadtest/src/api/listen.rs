//! The listener and its connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::options::ApiOptions;
use super::{Shared, http};

/// How long a client may take for its TLS handshake; a connection that takes longer is closed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that wait to be accepted: as many as thousands of clients open at once; more are refused by the kernel.
const BACKLOG: u32 = 4096;

/// Whether the server can be reached.
#[derive(Debug)]
pub(super) enum Door {
    Open {
        stop: CancellationToken,
        task: JoinHandle<()>,
    },
    /// The address is kept, so that nobody else gets it: bound, but connections are refused.
    Closed(TcpSocket),
}

impl Door {
    /// Binds an address without listening.
    pub(super) fn bind(address: SocketAddr) -> io::Result<(TcpSocket, SocketAddr)> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok((socket, address))
    }

    pub(super) fn open(socket: TcpSocket, shared: &Arc<Shared>, tls: Option<&TlsAcceptor>) -> io::Result<Self> {
        let listener = socket.listen(BACKLOG)?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(accept(listener, Arc::clone(shared), tls.cloned(), stop.clone()));
        Ok(Self::Open { stop, task })
    }

    /// Cuts all connections and closes the listener; returns when nothing of them is left.
    pub(super) async fn close(&mut self, address: SocketAddr) -> io::Result<()> {
        if let Self::Open { stop, task } = self {
            stop.cancel();
            task.await.map_err(io::Error::other)?;
            *self = Self::Closed(Self::bind(address)?.0);
        }
        Ok(())
    }

    pub(super) fn stop(&self) {
        if let Self::Open { stop, .. } = self {
            stop.cancel();
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tls: Option<TlsAcceptor>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors: connections that end make room.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Only adds latency to single small writes, so that its failure changes nothing.
        let _ = stream.set_nodelay(true);
        connections.spawn(connect(stream, Arc::clone(&shared), tls.clone(), stop.child_token()));
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

async fn connect(stream: TcpStream, shared: Arc<Shared>, tls: Option<TlsAcceptor>, cut: CancellationToken) {
    let Some(tls) = tls else { return serve(stream, shared, cut, false).await };
    let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
    let accepted = tokio::select! {
        () = cut.cancelled() => return,
        accepted = handshake => accepted,
    };
    if let Ok(Ok(stream)) = accepted {
        let certified = stream.get_ref().1.peer_certificates().is_some();
        serve(stream, shared, cut, certified).await;
    }
}

async fn serve<W: Wire>(stream: W, shared: Arc<Shared>, cut: CancellationToken, certified: bool) {
    let service = service_fn(|request| {
        http::respond(Arc::clone(&shared), request, http::Caller { certified, connection: cut.clone() })
    });
    let mut connection = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    let cut_off = tokio::select! {
        // Whatever a client does wrong is its own affair.
        _ = &mut connection => false,
        () = cut.cancelled() => true,
    };
    if cut_off {
        // With a reset, as when a machine dies or a load balancer gives up.
        let _ = connection.into_parts().io.into_inner().tcp().set_zero_linger();
    }
}

/// A connection that can be cut at the TCP level.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

/// The TLS side of the options; none for plain HTTP.
pub(super) fn tls(options: &ApiOptions) -> Option<TlsAcceptor> {
    let tls = options.tls.as_ref()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3");
    let builder = match &options.client_authority {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(authority, "client_authority") {
                roots.add(certificate).expect("ApiOptions::client_authority is an authority");
            }
            // Nobody is turned away in the handshake: without a certificate there may still be a token.
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .expect("ApiOptions::client_authority holds a certificate");
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).expect("ApiTls::key is a key in PEM");
    let mut config = builder
        .with_single_cert(certificates(&tls.certificate, "tls.certificate"), key)
        .expect("ApiTls::key is the key of ApiTls::certificate");
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(TlsAcceptor::from(Arc::new(config)))
}

fn certificates(pem: &str, what: &str) -> Vec<CertificateDer<'static>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    certificates.unwrap_or_else(|error| panic!("ApiOptions::{what} is no PEM: {error}"))
}
