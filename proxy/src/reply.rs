//! The body of an answer: a few bytes, or metrics as they come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;

use crate::fanout::Fanout;
use crate::gzip::Gzip;

/// What hyper sends. It never fails: a pod that does is told in the metrics, and what was sent stays right.
pub(crate) enum Reply {
    /// Everything at once; `None` when it was sent.
    Text(Option<Bytes>),
    /// The scrape goes on as the scraper reads.
    Metrics(Box<Metrics>),
}

/// Metrics on their way.
pub(crate) struct Metrics {
    pub(crate) fanout: Fanout,
    /// What came before the head of the response was sent.
    pub(crate) first: Option<Bytes>,
    pub(crate) gzip: Option<Gzip>,
    pub(crate) sent_bytes: Counter,
    /// Whatever has to be held while the response is under way: dropped when it ends, one way or another.
    pub(crate) _held: Box<dyn Send>,
}

impl Reply {
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self::Text(Some(text.into()))
    }

    pub(crate) fn empty() -> Self {
        Self::Text(None)
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = match self.get_mut() {
            Self::Text(text) => text.take(),
            Self::Metrics(metrics) => std::task::ready!(metrics.poll_frame(cx)),
        };
        Poll::Ready(frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Metrics(_) => SizeHint::default(),
        }
    }
}

impl Metrics {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            let frame = match self.first.take() {
                Some(first) => Some(first),
                None => std::task::ready!(self.fanout.poll_frame(cx)),
            };
            let frame = match (&mut self.gzip, frame) {
                (None, frame) => frame,
                (Some(gzip), None) => gzip.finish(),
                (Some(gzip), Some(frame)) => match gzip.push(&frame) {
                    None => continue,
                    ready => ready,
                },
            };
            if let Some(frame) = &frame {
                self.sent_bytes.inc_by(frame.len() as u64);
            }
            return Poll::Ready(frame);
        }
    }
}
