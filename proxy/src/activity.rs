//! What a connection is doing, so that one that does nothing, or hardly anything, can be ended.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Prometheus scrapes every 15 to 60 seconds and closes what it has not used for five minutes; we wait a little longer, so that it
/// is never us who close a connection that is about to be used.
const IDLE: Duration = Duration::from_secs(330);

/// A connection of which no request was let in is one of a limited number that others need.
const STRANGER: Duration = Duration::from_secs(10);

/// A request's head fits into one packet. Who needs longer than this to send it is slow on purpose, and is disconnected.
const HEAD: Duration = Duration::from_secs(10);

/// After the end of a scrape's budget the scraper has this long to read what is left; then it is disconnected. By then
/// Prometheus has long left by itself.
const LINGER: Duration = Duration::from_secs(30);

/// The activity of one connection; clones speak of the same one.
#[derive(Clone)]
pub(crate) struct Activity(Arc<Mutex<State>>);

struct State {
    /// Requests under way, each with the time by which its answer has to be over. Few: streams are bounded.
    requests: Vec<(u64, Instant)>,
    next_request: u64,
    /// While there is no request.
    phase: Phase,
    /// A connection that multiplexes says something between requests, too: that is no beginning of a slow head.
    multiplexed: bool,
    /// One of its requests was let in.
    admitted: bool,
}

#[derive(Clone, Copy)]
enum Phase {
    /// Nothing was said since.
    Idle(Instant),
    /// A head began to arrive.
    Receiving(Instant),
}

/// What is to be done about a connection when its deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// It does nothing: it may end in peace.
    Idle,
    /// It keeps us busy: it is cut.
    Stuck,
}

impl Activity {
    /// Of a connection whose handshake is just over: the head of a request is expected.
    pub(crate) fn new(multiplexed: bool) -> Self {
        let phase = Phase::Receiving(Instant::now());
        let state = State { requests: Vec::new(), next_request: 0, phase, multiplexed, admitted: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> Busy {
        let mut state = self.state();
        let request = state.next_request;
        state.next_request += 1;
        state.requests.push((request, Instant::now() + LINGER));
        Busy { activity: self.clone(), request }
    }

    /// When something has to be done, and what. A connection with several requests is cut for the sake of the first that is stuck: who
    /// does not read one answer for half a minute past its end has left, or is no scraper.
    pub(crate) fn deadline(&self) -> (Instant, Overdue) {
        let state = self.state();
        let idle = if state.admitted { IDLE } else { STRANGER };
        match (state.requests.iter().map(|(_, until)| *until).min(), state.phase) {
            (Some(until), _) => (until, Overdue::Stuck),
            (None, Phase::Idle(since)) => (since + idle, Overdue::Idle),
            (None, Phase::Receiving(since)) if state.multiplexed => (since + idle, Overdue::Idle),
            (None, Phase::Receiving(since)) => (since + HEAD, Overdue::Stuck),
        }
    }

    fn heard(&self) {
        let mut state = self.state();
        if state.requests.is_empty() && matches!(state.phase, Phase::Idle(_)) {
            state.phase = Phase::Receiving(Instant::now());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held ends the process, in release; in tests the state is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way; dropped with the last byte of its answer.
pub(crate) struct Busy {
    activity: Activity,
    request: u64,
}

impl Busy {
    /// Whoever asks may: the connection is worth keeping.
    pub(crate) fn admitted(&self) {
        self.activity.state().admitted = true;
    }

    /// The request has a budget, and hence its answer an end.
    pub(crate) fn until(&self, budget_end: Instant) {
        let mut state = self.activity.state();
        for (_, until) in state.requests.iter_mut().filter(|(request, _)| *request == self.request) {
            *until = budget_end + LINGER;
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.activity.state();
        state.requests.retain(|(request, _)| *request != self.request);
        if state.requests.is_empty() {
            state.phase = Phase::Idle(Instant::now());
        }
    }
}

/// A stream that tells the activity when something arrives.
pub(crate) struct Heard<S> {
    stream: S,
    activity: Activity,
}

impl<S> Heard<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.heard();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(activity: &Activity) -> (Duration, Overdue) {
        let (at, overdue) = activity.deadline();
        (at.saturating_duration_since(Instant::now()), overdue)
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_must_come_quickly_and_an_answer_must_end_after_its_budget() {
        let activity = Activity::new(false);
        assert_eq!(left(&activity), (HEAD, Overdue::Stuck));
        let busy = activity.begin();
        busy.admitted();
        busy.until(Instant::now() + Duration::from_secs(10));
        assert_eq!(left(&activity), (Duration::from_secs(10) + LINGER, Overdue::Stuck));
        drop(busy);
        assert_eq!(left(&activity), (IDLE, Overdue::Idle));
        tokio::time::advance(Duration::from_mins(1)).await;
        activity.heard();
        assert_eq!(left(&activity), (HEAD, Overdue::Stuck), "the next head began to arrive");
    }

    #[tokio::test(start_paused = true)]
    async fn pings_between_requests_neither_cut_nor_prolong_an_http2_connection() {
        let activity = Activity::new(true);
        activity.begin().admitted();
        tokio::time::advance(Duration::from_secs(30)).await;
        activity.heard();
        assert_eq!(left(&activity), (IDLE, Overdue::Idle));
        tokio::time::advance(Duration::from_secs(30)).await;
        activity.heard();
        assert_eq!(left(&activity).0, Duration::from_mins(5));
    }

    #[tokio::test(start_paused = true)]
    async fn each_of_several_requests_has_its_own_time() {
        let activity = Activity::new(true);
        let long = activity.begin();
        long.until(Instant::now() + Duration::from_mins(5));
        assert_eq!(left(&activity), (Duration::from_mins(5) + LINGER, Overdue::Stuck));
        tokio::time::advance(Duration::from_secs(20)).await;
        let short = activity.begin();
        assert_eq!(left(&activity), (LINGER, Overdue::Stuck), "the one that has to be over first");
        drop(short);
        assert_eq!(left(&activity).0, Duration::from_secs(300 + 30 - 20), "is forgotten with its end");
        drop(long);
        assert_eq!(left(&activity), (STRANGER, Overdue::Idle), "nobody was let in");
    }
}
