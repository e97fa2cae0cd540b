//! An answer on its way, and one that has come whole.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::write::GzDecoder;
use http::header::CONTENT_ENCODING;
use http::response::Parts;
use http::{HeaderMap, StatusCode, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::connection::{Connection, with_causes};
use super::{Idle, Sample, ScrapeError, parse};
use crate::corpus::sample_lines;

/// An answer whose head has come. Dropping it before its end closes the connection in the middle.
pub struct Response {
    head: Parts,
    body: Incoming,
    connection: Connection,
    /// Where the connection goes when the body has ended.
    idle: Option<Arc<Idle>>,
    started: Instant,
    timeout: Duration,
    first_byte: Duration,
    /// Read from the connection, not yet by the caller.
    unread: Bytes,
    received: u64,
}

/// An answer that has come whole.
#[derive(Clone, Debug)]
pub struct Scraped {
    /// Any status is an answer.
    pub status: StatusCode,
    /// Which HTTP it came by.
    pub version: Version,
    /// The answer's headers.
    pub headers: HeaderMap,
    /// The body, decoded.
    pub body: Bytes,
    /// Bytes of the body as they came, before decoding.
    pub wire_bytes: u64,
    /// From the start, connecting included, until the head had come.
    pub first_byte: Duration,
    /// From the start, connecting included, until the body had come.
    pub total: Duration,
}

impl Response {
    pub(super) fn new(
        head: Parts,
        body: Incoming,
        connection: Connection,
        started: Instant,
        timeout: Duration,
    ) -> Self {
        let first_byte = started.elapsed();
        Self { head, body, connection, idle: None, started, timeout, first_byte, unread: Bytes::new(), received: 0 }
    }

    pub(super) fn returning_to(self, idle: &Arc<Idle>) -> Self {
        Self { idle: Some(idle.clone()), ..self }
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.head.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// Bytes of the body that have come so far, as they came.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes of the body as it comes, not decoded: at least one and at most so many; none at its end.
    pub async fn read(&mut self, at_most: usize) -> Result<Bytes, ScrapeError> {
        while self.unread.is_empty() {
            let Ok(frame) = tokio::time::timeout_at(self.started + self.timeout, self.body.frame()).await else {
                return Err(ScrapeError::Timeout { after: self.timeout, received: self.received });
            };
            match frame {
                None => return Ok(Bytes::new()),
                Some(Err(error)) => {
                    return Err(ScrapeError::Truncated { received: self.received, reason: with_causes(&error) });
                }
                // Trailers are no part of the body.
                Some(Ok(frame)) => self.unread = frame.into_data().unwrap_or_default(),
            }
            self.received += self.unread.len() as u64;
        }
        Ok(self.unread.split_to(at_most.min(self.unread.len())))
    }

    /// Exactly so many bytes, or all that are left if those are fewer.
    pub async fn read_exactly(&mut self, bytes: usize) -> Result<Bytes, ScrapeError> {
        let mut read = Vec::with_capacity(bytes);
        while read.len() < bytes {
            let more = self.read(bytes - read.len()).await?;
            if more.is_empty() {
                break;
            }
            read.extend_from_slice(&more);
        }
        Ok(read.into())
    }

    /// Reads what is left of the body, and decodes it. Part of it must not have been read if it is encoded.
    pub async fn finish(mut self) -> Result<Scraped, ScrapeError> {
        let mut decoder = Decoder::new(&self.head.headers)?;
        loop {
            let bytes = self.read(usize::MAX).await?;
            if bytes.is_empty() {
                break;
            }
            decoder.add(&bytes)?;
        }
        let body = decoder.finish(self.received)?;
        if let Some(idle) = self.idle {
            idle.give_back(self.connection);
        }
        Ok(Scraped {
            status: self.head.status,
            version: self.head.version,
            headers: self.head.headers,
            body,
            wire_bytes: self.received,
            first_byte: self.first_byte,
            total: self.started.elapsed(),
        })
    }
}

enum Decoder {
    Identity(Vec<u8>),
    Gzip(Box<GzDecoder<Vec<u8>>>),
}

impl Decoder {
    fn new(headers: &HeaderMap) -> Result<Self, ScrapeError> {
        match headers.get(CONTENT_ENCODING).map(http::HeaderValue::as_bytes) {
            None | Some(b"identity") => Ok(Self::Identity(Vec::new())),
            Some(b"gzip") => Ok(Self::Gzip(Box::new(GzDecoder::new(Vec::new())))),
            Some(other) => Err(ScrapeError::Encoding(format!("unknown: {}", String::from_utf8_lossy(other)))),
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(), ScrapeError> {
        match self {
            Self::Identity(body) => body.extend_from_slice(bytes),
            Self::Gzip(decoder) => {
                decoder.write_all(bytes).map_err(|error| ScrapeError::Encoding(error.to_string()))?;
            }
        }
        Ok(())
    }

    fn finish(self, received: u64) -> Result<Bytes, ScrapeError> {
        match self {
            Self::Identity(body) => Ok(body.into()),
            // An answer to HEAD, or without content, says how it would have been encoded, and is empty.
            Self::Gzip(_) if received == 0 => Ok(Bytes::new()),
            Self::Gzip(decoder) => match decoder.finish() {
                Ok(body) => Ok(body.into()),
                Err(error) => Err(ScrapeError::Truncated { received, reason: format!("gzip: {error}") }),
            },
        }
    }
}

impl Scraped {
    /// The value of a header, if it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body as text; panics if it is none.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|error| panic!("a body that is no text: {error}"))
    }

    /// The samples whose name is wanted, in their order. Panics at a line that is no line of the format.
    pub fn samples(&self, wanted: impl Fn(&str) -> bool) -> Vec<Sample> {
        let mut samples = parse(&self.body).unwrap_or_else(|bad| panic!("{bad}"));
        samples.retain(|sample| wanted(&sample.name));
        samples
    }

    /// The samples of exactly this name.
    pub fn samples_named(&self, name: &str) -> Vec<Sample> {
        self.samples(|other| other == name)
    }

    /// How many lines are samples, quickly: neither empty nor comments.
    pub fn sample_count(&self) -> usize {
        sample_lines(&self.body)
    }
}
