//! A scraper that behaves as Prometheus does: its headers, one deadline for all of a scrape, kept connections, and no
//! patience with a body that ends short.

mod connection;
mod error;
mod parse;
mod response;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body_util::Empty;
use rustls::SupportedProtocolVersion;
use tokio::time::Instant;

pub use connection::proxy_v2;
pub use error::ScrapeError;
pub use parse::{BadLine, Sample, parse};
pub use response::{Response, Scraped};

use crate::certificate::Issued;
use connection::{Buffers, Connection, Connector};

/// What Prometheus 2.42 accepts.
pub const ACCEPT_2: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
/// What Prometheus 3 accepts: names in UTF-8 too.
pub const ACCEPT_3: &str = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";

/// Whom a scraper asks, and how.
#[derive(Clone, Debug)]
pub struct ScraperOptions {
    /// Where it connects.
    pub address: SocketAddr,
    /// How it speaks TLS; none is plain HTTP.
    pub tls: Option<ScraperTls>,
    /// Which HTTP it offers.
    pub protocol: Protocol,
    /// Whose headers it sends.
    pub prometheus: Prometheus,
    /// Whether it accepts gzip; Prometheus does.
    pub gzip: bool,
    /// The bearer token it sends.
    pub bearer: Option<String>,
    /// Time for all of a scrape, connecting and body included; it is told in `X-Prometheus-Scrape-Timeout-Seconds`.
    pub timeout: Duration,
    /// Headers that replace those of their names, or are added.
    pub headers: Vec<(String, String)>,
    /// Bytes to send before all else, TLS included: [`proxy_v2`], or something worse.
    pub preamble: Bytes,
    /// The size of the socket's receive buffer (`SO_RCVBUF`); the kernel's choice if none.
    pub receive_buffer: Option<u32>,
}

/// How a scraper speaks TLS.
#[derive(Clone, Debug)]
pub struct ScraperTls {
    /// The name it asks for (SNI) and verifies, whatever the address is.
    pub server_name: String,
    /// Whether the name is sent; it is verified either way.
    pub send_name: bool,
    /// Whom it believes.
    pub ca_pem: String,
    /// The certificate it shows when asked.
    pub client: Option<Issued>,
    /// The versions of TLS it offers.
    pub versions: &'static [&'static SupportedProtocolVersion],
}

/// Which HTTP a scraper offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only; without TLS by prior knowledge.
    Http2,
    /// Both, by ALPN, as Prometheus does; HTTP/1.1 without TLS.
    Either,
}

/// Which Prometheus the scraper says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prometheus {
    /// 2.42.
    Two,
    /// 3.
    Three,
}

impl ScraperOptions {
    /// HTTPS to the address, under a name that the authority vouches for; HTTP/1.1, gzip, ten seconds.
    pub fn new(address: SocketAddr, server_name: &str, ca_pem: &str) -> Self {
        let tls = ScraperTls {
            server_name: server_name.to_owned(),
            send_name: true,
            ca_pem: ca_pem.to_owned(),
            client: None,
            versions: rustls::ALL_VERSIONS,
        };
        Self { tls: Some(tls), ..Self::plain(address) }
    }

    /// Plain HTTP to the address, otherwise as [`Self::new`].
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            tls: None,
            protocol: Protocol::Http1,
            prometheus: Prometheus::Two,
            gzip: true,
            bearer: None,
            timeout: Duration::from_secs(10),
            headers: Vec::new(),
            preamble: Bytes::new(),
            receive_buffer: None,
        }
    }

    /// With this bearer token.
    #[must_use]
    pub fn with_bearer(self, token: &str) -> Self {
        Self { bearer: Some(token.to_owned()), ..self }
    }

    /// With this client certificate. Panics without TLS, which alone can carry one.
    #[must_use]
    pub fn with_client(mut self, client: &Issued) -> Self {
        self.tls.as_mut().expect("a client certificate needs TLS").client = Some(client.clone());
        self
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let mut set = |name: HeaderName, value: &str| {
            headers.insert(name, HeaderValue::from_str(value).expect("a value fit for a header"));
        };
        let (accept, agent) = match self.prometheus {
            Prometheus::Two => (ACCEPT_2, "Prometheus/2.42.0"),
            Prometheus::Three => (ACCEPT_3, "Prometheus/3.5.0"),
        };
        set(ACCEPT, accept);
        set(ACCEPT_ENCODING, if self.gzip { "gzip" } else { "identity" });
        set(USER_AGENT, agent);
        let timeout = HeaderName::from_static("x-prometheus-scrape-timeout-seconds");
        set(timeout, &self.timeout.as_secs_f64().to_string());
        if let Some(token) = &self.bearer {
            set(AUTHORIZATION, &format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            set(name.parse().expect("a header's name"), value);
        }
        headers
    }

    fn authority(&self) -> String {
        match &self.tls {
            Some(tls) => format!("{}:{}", tls.server_name, self.address.port()),
            None => self.address.to_string(),
        }
    }
}

/// A scraper; its connections are kept between scrapes and closed when it is dropped.
pub struct Scraper {
    options: ScraperOptions,
    connector: Connector,
    idle: Arc<Idle>,
    connected: AtomicUsize,
}

/// Connections that wait for their next scrape.
#[derive(Default)]
struct Idle(Mutex<Vec<Connection>>);

impl Scraper {
    /// A scraper that has not connected yet.
    pub fn new(options: ScraperOptions) -> Self {
        Self { connector: Connector::new(&options), options, idle: Arc::default(), connected: AtomicUsize::new(0) }
    }

    /// One scrape: `GET`, and the whole body, decoded. Any status is an answer.
    pub async fn scrape(&self, path: &str) -> Result<Scraped, ScrapeError> {
        self.request(Method::GET, path).await
    }

    /// A request of any method, without a body.
    pub async fn request(&self, method: Method, path: &str) -> Result<Scraped, ScrapeError> {
        let started = Instant::now();
        while let Some(kept) = self.take_idle().await {
            match self.send(kept, &method, path, started).await {
                Ok(response) => return response.returning_to(&self.idle).finish().await,
                Err(error @ (ScrapeError::Timeout { .. } | ScrapeError::Tls(_))) => return Err(error),
                // The server may have closed the connection just then: as Go does, it is tried again elsewhere.
                Err(_) => {}
            }
        }
        let connection = self.connect(Buffers::Usual, started).await?;
        self.keep_if_shared(&connection);
        self.send(connection, &method, path, started).await?.returning_to(&self.idle).finish().await
    }

    /// A scrape whose body the caller reads at leisure, on a connection of its own with small buffers: what the caller
    /// has not read stays, but for a few kilobytes, with the server. Dropping it leaves abruptly.
    pub async fn start(&self, path: &str) -> Result<Response, ScrapeError> {
        let started = Instant::now();
        let connection = self.connect(Buffers::Small, started).await?;
        self.send(connection, &Method::GET, path, started).await
    }

    /// How many connections it has made.
    pub fn connections(&self) -> usize {
        self.connected.load(Ordering::Relaxed)
    }

    /// Closes the connections that are kept: the next scrape makes a new one.
    pub fn forget_connections(&self) {
        self.idle.lock().clear();
    }

    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let mut connection = {
                let mut idle = self.idle.lock();
                let shared = idle.last().and_then(Connection::share);
                shared.or_else(|| idle.pop())?
            };
            if connection.is_ready().await {
                return Some(connection);
            }
            self.idle.lock().retain(|kept| !kept.is_closed());
        }
    }

    fn keep_if_shared(&self, connection: &Connection) {
        self.idle.lock().extend(connection.share());
    }

    async fn connect(&self, buffers: Buffers, started: Instant) -> Result<Connection, ScrapeError> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        let deadline = started + self.options.timeout;
        let connecting = tokio::time::timeout_at(deadline, self.connector.connect(buffers));
        connecting.await.unwrap_or(Err(ScrapeError::Timeout { after: self.options.timeout, received: 0 }))
    }

    async fn send(
        &self,
        mut connection: Connection,
        method: &Method,
        path: &str,
        started: Instant,
    ) -> Result<Response, ScrapeError> {
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = method.clone();
        *request.headers_mut() = self.options.headers();
        let authority = self.options.authority();
        if connection.is_http2() {
            *request.version_mut() = Version::HTTP_2;
            let scheme = if self.options.tls.is_some() { "https" } else { "http" };
            let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build();
            *request.uri_mut() = uri.unwrap_or_else(|error| panic!("path {path:?}: {error}"));
        } else {
            if !request.headers().contains_key(HOST) {
                request.headers_mut().insert(HOST, authority.parse().expect("a host fit for a header"));
            }
            *request.uri_mut() = path.parse().unwrap_or_else(|error| panic!("path {path:?}: {error}"));
        }

        let deadline = started + self.options.timeout;
        let answer = tokio::time::timeout_at(deadline, connection.send(request)).await;
        let late = ScrapeError::Timeout { after: self.options.timeout, received: 0 };
        let (head, body) = answer.unwrap_or(Err(late))?.into_parts();
        Ok(Response::new(head, body, connection, started, self.options.timeout))
    }
}

impl Idle {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.0.lock().expect("nobody panics with this lock")
    }

    fn give_back(&self, connection: Connection) {
        // A shared connection is among the idle ones already.
        if connection.share().is_none() {
            self.lock().push(connection);
        }
    }
}
