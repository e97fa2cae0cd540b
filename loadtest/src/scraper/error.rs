//! What can go wrong with a scrape, told apart as a test wants it.

use std::io;
use std::time::Duration;

/// Why a scrape has no result.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// Nobody took the connection.
    #[error("connecting: {0}")]
    Connect(#[source] io::Error),
    /// The handshake failed, or an alert ended the connection later: TLS 1.3 refuses client certificates so late.
    #[error("TLS: {0}")]
    Tls(String),
    /// What came instead of a response was not one, or the connection ended before it.
    #[error("HTTP: {0}")]
    Http(String),
    /// The deadline passed.
    #[error("no end after {after:?}, with {received} bytes of body")]
    Timeout {
        /// All the time there was.
        after: Duration,
        /// Bytes of the body that had come, as they came.
        received: u64,
    },
    /// The body ended short.
    #[error("the body broke off after {received} bytes: {reason}")]
    Truncated {
        /// Bytes of the body that had come, as they came.
        received: u64,
        /// What said so.
        reason: String,
    },
    /// The body came whole, but was not in the encoding it was said to be in.
    #[error("decoding the body: {0}")]
    Encoding(String),
}
