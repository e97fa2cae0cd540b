//! The life of a scrape, from a request to a response that goes on as the scraper reads it.
//!
//! accept → (PROXY v2) → TLS, tenant by SNI → **authenticate → route → targets → all pods at once → merge → gzip → body**. The
//! first three are in `listener`, `handshake` and `connection`; the rest is composed here.

use std::future::poll_fn;
use std::sync::Arc;

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use sluice_codec::Names;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::activity::Busy;
use crate::answer;
use crate::authenticate::PeerCertificate;
use crate::budget::Budget;
use crate::component::Component;
use crate::fanout::Fanout;
use crate::fault::Refusal;
use crate::gzip::{self, Gzip};
use crate::reply::{Metrics, Reply};
use crate::route;
use crate::tenant::Tenant;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const TEXT_UTF8: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=allow-utf-8");

/// Answers one request. `busy` is held until the last byte is handed on.
pub(crate) async fn answer<B>(
    tenant: &Tenant,
    peer: Option<&PeerCertificate>,
    request: &Request<B>,
    busy: Busy,
) -> Response<Reply> {
    let start = Instant::now();
    let mut count = Count { tenant, component: None, code: LEFT };
    let mut response = match scrape(tenant, peer, request, &mut count.component, start, busy).await {
        Ok(response) => response,
        Err(refusal) => {
            tracing::debug!(tenant = &*tenant.name, path = request.uri().path(), %refusal, "refused");
            answer::refuse(&refusal)
        }
    };
    count.code = response.status().as_u16();
    if request.method() == Method::HEAD {
        *response.body_mut() = Reply::empty();
    }
    response
}

async fn scrape<B>(
    tenant: &Tenant,
    peer: Option<&PeerCertificate>,
    request: &Request<B>,
    found: &mut Option<Arc<Component>>,
    start: Instant,
    busy: Busy,
) -> Result<Response<Reply>, Refusal> {
    let headers = request.headers();
    tenant.authenticator.admit(headers, peer).await?;
    busy.admitted();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Err(Refusal::Method);
    }
    let component = route::component(tenant, request.uri().path())?;
    *found = Some(Arc::clone(&component));
    let permit = Arc::clone(&tenant.scrapes).try_acquire_owned().map_err(|_| Refusal::TooManyScrapes)?;
    let targets = component.targets.load().ok_or(Refusal::NotSynced)?;
    component.history.forget_gone(&targets);
    if targets.is_empty() {
        return Err(Refusal::NoTargets(component.name.to_string()));
    }
    let names = names_for(headers);
    let gzip = gzip::is_accepted(headers);
    if request.method() == Method::HEAD {
        return Ok(respond(Reply::empty(), names, gzip));
    }

    let budget = Budget::new(start, headers, component.timeout);
    if budget.is_half_over(start) {
        return Err(Refusal::Late);
    }
    busy.until(budget.end());
    let held = Held::new(tenant, &component, start, permit, busy);
    let mut fanout = Fanout::new(Arc::clone(&component), &targets, names, budget);
    let first = poll_fn(|cx| fanout.poll_frame(cx)).await;
    if !component.emit_up && !fanout.has_answer() {
        return Err(Refusal::NoAnswer(component.name.to_string()));
    }
    let sent_bytes =
        if gzip { &component.metrics.response_bytes_gzip } else { &component.metrics.response_bytes_identity };
    let metrics =
        Metrics { fanout, first, gzip: gzip.then(Gzip::new), sent_bytes: sent_bytes.clone(), _held: Box::new(held) };
    Ok(respond(Reply::Metrics(Box::new(metrics)), names, gzip))
}

fn respond(reply: Reply, names: Names, gzip: bool) -> Response<Reply> {
    let mut response = Response::new(reply);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, if names == Names::Utf8 { TEXT_UTF8 } else { TEXT });
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("Accept, Accept-Encoding"));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// Prometheus 3 says that it can read any name; whoever does not would lose the whole scrape to one such name.
fn names_for(headers: &HeaderMap) -> Names {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut parameters = accepts.flat_map(|value| value.split([',', ';'])).map(str::trim);
    if parameters.any(|parameter| parameter.eq_ignore_ascii_case("escaping=allow-utf-8")) {
        Names::Utf8
    } else {
        Names::Legacy
    }
}

/// Counts a request when its answer is known, or when the scraper has left before.
struct Count<'a> {
    tenant: &'a Tenant,
    component: Option<Arc<Component>>,
    code: u16,
}

/// nginx's number for a client that closed the connection before it had an answer.
const LEFT: u16 = 499;

impl Drop for Count<'_> {
    fn drop(&mut self) {
        self.tenant.metrics.answered(self.component.as_ref().map(|component| &component.name), self.code);
    }
}

/// What a scrape holds while it is under way.
struct Held {
    start: Instant,
    duration: Histogram,
    in_flight: Gauge,
    ended: Counter,
    _permit: OwnedSemaphorePermit,
    _busy: Busy,
}

impl Held {
    fn new(tenant: &Tenant, component: &Component, start: Instant, permit: OwnedSemaphorePermit, busy: Busy) -> Self {
        let in_flight = tenant.metrics.scrapes_in_flight.clone();
        in_flight.inc();
        let ended = tenant.metrics.scrapes_ended.clone();
        Self {
            start,
            duration: component.metrics.request_duration.clone(),
            in_flight,
            ended,
            _permit: permit,
            _busy: busy,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.in_flight.dec();
        self.ended.inc();
        self.duration.observe(self.start.elapsed().as_secs_f64());
    }
}
