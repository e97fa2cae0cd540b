//! One pod: connect, ask, and read its body frame by frame.
//!
//! Everything about a pod happens in the task of the scrape that asked for it, connection included. So a scraper that leaves
//! takes the pod's connection with it, and a pod that is not polled is not read: back-pressure without a queue.
//!
//! Connections are closed after one scrape: idle ones for every pod between scrapes would cost more memory than all the rest of
//! the process, and TLS sessions are resumed, which spares the pod the expensive half of a handshake.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sluice_codec::Format;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::fault::PodFault;

/// hyper's read buffer, and so the largest frame of a body: as large as the frames we write. hyper's own default would let each
/// pod take 400 KiB.
const READ_BUFFER: usize = 32 * 1024;

/// A response head has some five short headers. A pod that sends more is failed with reason `http`.
const HEAD_BYTES: usize = 16 * 1024;
const HEAD_COUNT: usize = 64;

const EXPOSITION: HeaderValue = HeaderValue::from_static("text/plain;version=0.0.4");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("sluice/", env!("CARGO_PKG_VERSION")));

/// How the pods of a component are asked.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// Path and query.
    pub(crate) uri: Uri,
    pub(crate) transport: Transport,
    /// Of the files that the TLS configuration was made of.
    pub(crate) print: u64,
}

/// How they are reached.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain,
    Tls {
        config: Arc<ClientConfig>,
        /// The name their certificates must have; their address when absent.
        server_name: Option<ServerName<'static>>,
    },
    /// The component's certificates could not be read, ever: why.
    Broken(String),
}

/// A pod that has answered 200 with exposition text.
pub(crate) struct OpenPod {
    pub(crate) format: Format,
    connection: Connection,
    body: Incoming,
}

impl Upstream {
    pub(crate) fn tls_config(&self) -> Option<&Arc<ClientConfig>> {
        match &self.transport {
            Transport::Tls { config, .. } => Some(config),
            Transport::Plain | Transport::Broken(_) => None,
        }
    }

    /// Connects to the pod and reads the head of its answer.
    pub(crate) async fn open(self: Arc<Self>, pod: SocketAddr) -> Result<OpenPod, PodFault> {
        let io = self.connect(pod).await?;
        let mut builder = http1::Builder::new();
        builder.max_buf_size(READ_BUFFER).max_headers(HEAD_COUNT).max_header_size(HEAD_BYTES);
        let (mut sender, connection) = builder.handshake(TokioIo::new(io)).await.map_err(http_fault)?;
        let mut connection = Connection(Some(Box::pin(connection)));
        let mut answer = pin!(sender.send_request(self.request(pod)));
        let response = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            // The connection's end, good or bad, is told by the answer.
            let _ = connection.poll(cx);
            answer.as_mut().poll(cx)
        });
        let response = response.await.map_err(http_fault)?;
        let format = judge(&response)?;
        Ok(OpenPod { format, connection, body: response.into_body() })
    }

    async fn connect(&self, pod: SocketAddr) -> Result<Box<dyn Stream>, PodFault> {
        if let Transport::Broken(why) = &self.transport {
            return Err(PodFault::TlsFiles(why.clone()));
        }
        let tcp = TcpStream::connect(pod).await.map_err(PodFault::Connect)?;
        match &self.transport {
            Transport::Tls { config, server_name } => {
                let name = server_name.clone().unwrap_or_else(|| ServerName::IpAddress(pod.ip().into()));
                let tls = TlsConnector::from(Arc::clone(config)).connect(name, tcp);
                Ok(Box::new(tls.await.map_err(PodFault::Tls)?))
            }
            Transport::Plain | Transport::Broken(_) => Ok(Box::new(tcp)),
        }
    }

    fn request(&self, pod: SocketAddr) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::try_from(pod.to_string()) {
            headers.insert(HOST, host);
        }
        headers.insert(ACCEPT, EXPOSITION);
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        headers.insert(CONNECTION, CLOSE);
        headers.insert(USER_AGENT, AGENT);
        request
    }
}

impl OpenPod {
    /// The next frame of the body, `None` at its end.
    pub(crate) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, PodFault>>> {
        // What the connection has read before is taken first; only then may it read on.
        if let Poll::Ready(frame) = self.poll_body(cx) {
            return Poll::Ready(frame);
        }
        // How the connection ended is told by the body.
        let _ = self.connection.poll(cx);
        self.poll_body(cx)
    }

    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, PodFault>>> {
        loop {
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Poll::Ready(Some(Err(PodFault::Truncated(chain(&error))))),
                None => return Poll::Ready(None),
            };
            // Trailers are nobody's metrics.
            if let Ok(data) = frame.into_data() {
                return Poll::Ready(Some(Ok(data)));
            }
        }
    }
}

/// What both kinds of connection have in common.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// hyper's side of a connection; gone when it has ended, since it must not be polled again.
struct Connection(Option<Pin<Box<HyperConnection>>>);

type HyperConnection = http1::Connection<TokioIo<Box<dyn Stream>>, Empty<Bytes>>;

impl Connection {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(connection) = &mut self.0 {
            if connection.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.0 = None;
        }
        Poll::Ready(())
    }
}

/// Whether an answer can be merged, and as what it is to be read.
fn judge(response: &Response<Incoming>) -> Result<Format, PodFault> {
    if response.status() != StatusCode::OK {
        return Err(PodFault::Status(response.status()));
    }
    if let Some(encoding) = response.headers().get(CONTENT_ENCODING)
        && !encoding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(PodFault::ContentEncoding(header_text(encoding)));
    }
    let Some(content_type) = response.headers().get(CONTENT_TYPE) else { return Ok(Format::Text) };
    let text = header_text(content_type);
    let media_type = text.split(';').next().unwrap_or_default().trim();
    match media_type.to_ascii_lowercase().as_str() {
        "" | "text/plain" => Ok(Format::Text),
        "application/openmetrics-text" => Ok(Format::OpenMetrics),
        _ => Err(PodFault::ContentType(text)),
    }
}

/// What a pod wrote in a header, short and printable enough for a log.
fn header_text(value: &HeaderValue) -> String {
    const SHOWN: usize = 100;
    String::from_utf8_lossy(&value.as_bytes()[..value.len().min(SHOWN)]).into_owned()
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn http_fault(error: hyper::Error) -> PodFault {
    PodFault::Http(chain(&error))
}

/// The error with its causes; hyper's own text tells only the kind.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
