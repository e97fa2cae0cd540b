//! One connection of a scraper: HTTP/1.1 or HTTP/2, until it ends, is idle for long, is too slow, or the process stops.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, Heard, Overdue};
use crate::authenticate::PeerCertificate;
use crate::reply::Reply;
use crate::scrape;
use crate::slot::Slot;

/// What hyper may hold of a response before it must be written. Frames are as large; hyper's own default would buffer a dozen of
/// them.
const BUFFER: usize = 32 * 1024;

/// A token of 4 KiB and some headers are the most a scraper sends; more is 431 in HTTP/1.1 and a reset in HTTP/2.
const HEAD_BYTES: usize = 16 * 1024;
const HEAD_COUNT: usize = 64;

/// Two Prometheus replicas behind one forwarder, ten components each, with room. Past it a client waits.
const STREAMS: u32 = 64;

/// Requests have no bodies, so nothing needs to be received but heads: the smallest window HTTP/2 knows by default.
const WINDOW: u32 = 64 * 1024;

/// A peer that is gone without a word is noticed within these two.
const PING_EVERY: Duration = Duration::from_mins(1);
const PONG_WITHIN: Duration = Duration::from_secs(20);

/// An idle connection that was asked to end has this long to do so.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves a connection whose handshake is over.
pub(crate) async fn serve(
    stream: TlsStream<TcpStream>,
    slot: Arc<Slot>,
    peer: Option<PeerCertificate>,
    stopping: &CancellationToken,
) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let activity = Activity::new(is_http2);
    let io = TokioIo::new(Heard::new(stream, activity.clone()));
    let peer = peer.map(Arc::new);
    let service = service_fn(|request: Request<Incoming>| {
        let (slot, peer, busy) = (Arc::clone(&slot), peer.clone(), activity.begin());
        async move { Ok::<_, Infallible>(respond(&slot, peer.as_deref(), &request, busy).await) }
    });
    if is_http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_send_buf_size(BUFFER)
            .max_header_list_size(HEAD_BYTES as u32)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN);
        drive(builder.serve_connection(io, service), &activity, stopping).await;
    } else {
        let mut builder = http1::Builder::new();
        // Slow heads are the activity's business: hyper's own timeout would end idle connections, too.
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(BUFFER)
            .max_header_size(HEAD_BYTES)
            .max_headers(HEAD_COUNT);
        drive(builder.serve_connection(io, service), &activity, stopping).await;
    }
}

async fn respond(
    slot: &Slot,
    peer: Option<&PeerCertificate>,
    request: &Request<Incoming>,
    busy: crate::activity::Busy,
) -> Response<Reply> {
    scrape::answer(&slot.tenant(), peer, request, busy).await
}

/// Polls the connection to its end, unless it has to be ended before.
async fn drive<C: Connection>(connection: C, activity: &Activity, stopping: &CancellationToken) {
    let mut connection = pin!(connection);
    let mut stopped = pin!(stopping.cancelled());
    let mut alarm = pin!(tokio::time::sleep_until(activity.deadline().0));
    // Once the connection was told to end, the time it has for it while it is idle.
    let mut farewell: Option<Instant> = None;
    poll_fn(|cx| {
        if connection.as_mut().poll_end(cx).is_ready() {
            return Poll::Ready(());
        }
        if farewell.is_none() && stopped.as_mut().poll(cx).is_ready() {
            connection.as_mut().end_gracefully();
            farewell = Some(Instant::now() + FAREWELL);
            cx.waker().wake_by_ref();
        }
        loop {
            let (deadline, overdue) = activity.deadline();
            let deadline = match (overdue, farewell) {
                (Overdue::Idle, Some(farewell)) => farewell,
                _ => deadline,
            };
            if alarm.deadline() != deadline {
                alarm.as_mut().reset(deadline);
            }
            std::task::ready!(alarm.as_mut().poll(cx));
            if overdue == Overdue::Stuck || farewell.is_some() {
                return Poll::Ready(());
            }
            connection.as_mut().end_gracefully();
            farewell = Some(Instant::now() + FAREWELL);
            cx.waker().wake_by_ref();
        }
    })
    .await;
}

/// What the two kinds of connection have in common.
trait Connection {
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    /// GOAWAY, or no keep-alive: what is under way is finished, nothing else begins.
    fn end_gracefully(self: Pin<&mut Self>);
}

type Io = TokioIo<Heard<TlsStream<TcpStream>>>;

impl<S, F> Connection for http1::Connection<Io, S>
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<Reply>, Error = Infallible, Future = F>,
    F: Future<Output = Result<Response<Reply>, Infallible>>,
{
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx).map(|_| ())
    }

    fn end_gracefully(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<S, F> Connection for http2::Connection<Io, S, TokioExecutor>
where
    S: hyper::service::Service<Request<Incoming>, Response = Response<Reply>, Error = Infallible, Future = F>,
    F: Future<Output = Result<Response<Reply>, Infallible>> + Send + 'static,
{
    fn poll_end(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx).map(|_| ())
    }

    fn end_gracefully(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
