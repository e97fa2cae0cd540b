//! The admin port: plain HTTP, for people and probes.
//!
//! - `/metrics`: what the process counts about itself, OpenMetrics text
//! - `/healthz`: it runs
//! - `/readyz`: a scrape would be answered; if not, why not
//! - `/api/v1/targets`: each component's pods and their last scrape, in the shape of Prometheus' own

mod collector;
mod process;
mod ready;
mod targets;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

pub(crate) use collector::register;

use crate::slot::Slot;

/// Probes, Prometheus and some people. At that number the oldest connection goes: a probe must never wait for others.
const CONNECTIONS: usize = 64;

/// No connection lives longer; probes make a new one each time, and a Prometheus that is cut between scrapes makes a new one, too.
const LIFE: Duration = Duration::from_mins(10);

/// For a request's head, and for the next one on the same connection.
const PATIENCE: Duration = Duration::from_mins(1);

/// When no connection can be accepted, a pause lets some end.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// What the admin port speaks of.
pub(crate) struct Admin {
    pub(crate) registry: Registry,
    pub(crate) slot: Arc<Slot>,
    /// The process was told to stop.
    pub(crate) draining: Arc<AtomicBool>,
}

impl Admin {
    /// Answers until the process ends.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener) {
        let mut connections: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            connections.retain(|connection| !connection.is_finished());
            if connections.len() >= CONNECTIONS
                && let Some(oldest) = connections.pop_front()
            {
                oldest.abort();
            }
            connections.push_back(tokio::spawn(Arc::clone(&self).serve(stream)).abort_handle());
        }
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let service = service_fn(|request: Request<Incoming>| {
            let admin = Arc::clone(&self);
            async move { Ok::<_, Infallible>(admin.answer(request.method(), request.uri().path()).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(16 * 1024);
        // A peer that leaves is not our business, and one that does not read what it asked for is cut.
        let _ = tokio::time::timeout(LIFE, builder.serve_connection(TokioIo::new(stream), service)).await;
    }

    async fn answer(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return respond(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are answered\n");
        }
        match path {
            "/metrics" => self.metrics(),
            "/healthz" => respond(StatusCode::OK, TEXT, "ok\n"),
            "/readyz" => match ready::obstacles(&self.slot, self.draining.load(Ordering::Relaxed)).await {
                obstacles if obstacles.is_empty() => respond(StatusCode::OK, TEXT, "ok\n"),
                obstacles => respond(StatusCode::SERVICE_UNAVAILABLE, TEXT, obstacles.join("\n") + "\n"),
            },
            "/api/v1/targets" => respond(StatusCode::OK, JSON, targets::json(&self.slot.tenant())),
            _ => respond(StatusCode::NOT_FOUND, TEXT, "there are /metrics, /healthz, /readyz and /api/v1/targets\n"),
        }
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        let mut text = String::new();
        match prometheus_client::encoding::text::encode(&mut text, &self.registry) {
            Ok(()) => respond(StatusCode::OK, OPENMETRICS, text),
            Err(_) => respond(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the metrics cannot be written\n"),
        }
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
