//! Connections to a server: TCP, a preamble, TLS, and HTTP/1.1 or 2 as was agreed.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::{Protocol, ScrapeError, ScraperOptions, ScraperTls};
use crate::pod::{certificates, roots};

/// The least that hyper allows for reading HTTP/1.
const SMALL_BUFFER: usize = 8 * 1024;
/// What a slow reader's stream and socket may hold: about one TLS record, the least that works at all.
const SMALL_WINDOW: u32 = 16 * 1024;

/// How much a connection may read ahead of its user.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Buffers {
    Usual,
    Small,
}

/// Makes connections.
pub(super) struct Connector {
    address: SocketAddr,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    http2_if_plain: bool,
    preamble: Bytes,
    receive_buffer: Option<u32>,
}

impl Connector {
    pub(super) fn new(options: &ScraperOptions) -> Self {
        Self {
            address: options.address,
            tls: options.tls.as_ref().map(|tls| tls_connector(tls, options.protocol)),
            http2_if_plain: options.protocol == Protocol::Http2,
            preamble: options.preamble.clone(),
            receive_buffer: options.receive_buffer,
        }
    }

    pub(super) async fn connect(&self, buffers: Buffers) -> Result<Connection, ScrapeError> {
        let mut stream = self.connect_tcp(buffers).await.map_err(ScrapeError::Connect)?;
        stream.write_all(&self.preamble).await.map_err(ScrapeError::Connect)?;
        let Some((connector, name)) = &self.tls else {
            return Connection::new(stream, self.http2_if_plain, buffers).await;
        };
        let stream = connector.connect(name.clone(), stream).await;
        let stream = stream.map_err(|error| ScrapeError::Tls(error.to_string()))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Connection::new(stream, is_http2, buffers).await
    }

    async fn connect_tcp(&self, buffers: Buffers) -> io::Result<TcpStream> {
        let socket = if self.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Before connecting, since the window's scale is agreed then.
        if let Some(size) = self.receive_buffer.or((buffers == Buffers::Small).then_some(SMALL_WINDOW)) {
            socket.set_recv_buffer_size(size)?;
        }
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// A PROXY protocol header, version 2, for a connection from `source` to `destination`, both of one family.
pub fn proxy_v2(source: SocketAddr, destination: SocketAddr) -> Bytes {
    let mut header = BytesMut::from(&b"\r\n\r\n\0\r\nQUIT\n"[..]);
    header.put_u8(0x21); // version 2, PROXY
    match (source, destination) {
        (SocketAddr::V4(source), SocketAddr::V4(destination)) => {
            header.put_u8(0x11); // IPv4, stream
            header.put_u16(12);
            header.put_slice(&source.ip().octets());
            header.put_slice(&destination.ip().octets());
        }
        (SocketAddr::V6(source), SocketAddr::V6(destination)) => {
            header.put_u8(0x21); // IPv6, stream
            header.put_u16(36);
            header.put_slice(&source.ip().octets());
            header.put_slice(&destination.ip().octets());
        }
        _ => panic!("{source} and {destination} are of different families"),
    }
    header.put_u16(source.port());
    header.put_u16(destination.port());
    header.freeze()
}

fn tls_connector(tls: &ScraperTls, protocol: Protocol) -> (TlsConnector, ServerName<'static>) {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(tls.versions)
        .expect("ring speaks TLS 1.2 and 1.3")
        .with_root_certificates(roots(&tls.ca_pem));
    let mut config = match &tls.client {
        None => builder.with_no_client_auth(),
        Some(issued) => {
            let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).expect("a key in PEM");
            builder.with_client_auth_cert(certificates(&issued.cert_pem), key).expect("a certificate with its key")
        }
    };
    config.enable_sni = tls.send_name;
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Either => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    let name = ServerName::try_from(tls.server_name.clone())
        .unwrap_or_else(|error| panic!("server name {:?}: {error}", tls.server_name));
    (TlsConnector::from(Arc::new(config)), name)
}

/// A connection that HTTP is spoken on. The task behind it, and the socket, end with the last handle.
pub(super) struct Connection {
    sender: Sender,
    alert: Alert,
    task: Arc<Task>,
}

enum Sender {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

/// The TLS error that ended a connection: by the time HTTP tells of it, it is often but a broken pipe.
type Alert = Arc<Mutex<Option<String>>>;

struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    async fn new(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        is_http2: bool,
        buffers: Buffers,
    ) -> Result<Self, ScrapeError> {
        let alert = Alert::default();
        let stream = TokioIo::new(Watched { stream, alert: alert.clone() });
        let small = buffers == Buffers::Small;
        let (sender, task) = if is_http2 {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            if small {
                builder.initial_stream_window_size(SMALL_WINDOW);
            }
            let (sender, connection) = builder.handshake(stream).await.map_err(|error| describe(&alert, &error))?;
            (Sender::Http2(sender), tokio::spawn(async move { drop(connection.await) }))
        } else {
            let mut builder = http1::Builder::new();
            if small {
                builder.max_buf_size(SMALL_BUFFER);
            }
            let (sender, connection) = builder.handshake(stream).await.map_err(|error| describe(&alert, &error))?;
            (Sender::Http1(sender), tokio::spawn(async move { drop(connection.await) }))
        };
        Ok(Self { sender, alert, task: Arc::new(Task(task)) })
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Another handle, if the connection can carry several requests at a time.
    pub(super) fn share(&self) -> Option<Self> {
        let Sender::Http2(sender) = &self.sender else { return None };
        Some(Self { sender: Sender::Http2(sender.clone()), alert: self.alert.clone(), task: self.task.clone() })
    }

    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Waits until it can take a request; false if it never will.
    pub(super) async fn is_ready(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Sends the request and waits for the head of the answer.
    pub(super) async fn send(&mut self, request: Request<Empty<Bytes>>) -> Result<Response<Incoming>, ScrapeError> {
        let sent = match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        };
        sent.map_err(|error| describe(&self.alert, &error))
    }
}

fn describe(alert: &Alert, error: &hyper::Error) -> ScrapeError {
    let alert = alert.lock().expect("nobody panics with this lock").clone();
    alert.map_or_else(|| ScrapeError::Http(with_causes(error)), ScrapeError::Tls)
}

/// The error with all that it names as its cause.
pub(super) fn with_causes(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A stream that remembers the TLS error that ended it.
struct Watched<S> {
    stream: S,
    alert: Alert,
}

impl<S: AsyncRead + Unpin> Watched<S> {
    fn note(&self, error: &io::Error) {
        if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            self.alert.lock().expect("nobody panics with this lock").get_or_insert_with(|| error.to_string());
        }
    }

    /// A server that refuses sends an alert and goes; a write that fails for that must not hide the alert.
    fn note_unread_alert(&mut self, context: &mut Context<'_>) {
        let mut byte = [0];
        let read = Pin::new(&mut self.stream).poll_read(context, &mut ReadBuf::new(&mut byte));
        if let Poll::Ready(Err(error)) = read {
            self.note(&error);
        }
    }

    fn watch_write<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if matches!(written, Poll::Ready(Err(_))) {
            self.note_unread_alert(context);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &read {
            self.note(error);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch_write(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch_write(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
