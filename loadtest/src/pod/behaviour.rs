//! The ways in which a pod can go wrong.

use std::time::Duration;

/// What a pod does with a connection or a request.
///
/// Byte counts are of the body as it is before chunked framing; a count at or beyond its end leaves it whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Serves the body.
    Serve,
    /// Closes the listener: connecting is refused. Requests on connections already open are met by their end.
    RefuseConnections,
    /// Accepts the connection and never says a word, not even the TLS handshake's.
    HangBeforeHandshake,
    /// Reads the request and never answers.
    HangBeforeHead,
    /// Sends the head only after this time, then serves.
    SlowHead(Duration),
    /// Sends a status line and part of a header, and no more.
    HangWithinHead,
    /// Sends so much of the body and no more, with the connection open.
    HangAfter(usize),
    /// Sends the body in pieces of so many bytes, one every so often, the first at once.
    Drip {
        /// Bytes in a piece.
        bytes: usize,
        /// Time between pieces.
        every: Duration,
    },
    /// Ends the connection in good order (FIN, with TLS `close_notify` too) after so much of the body.
    CutAfter(usize),
    /// Resets the connection (RST) after so much of the body. The peer may not see all of what was sent before it.
    ResetAfter(usize),
    /// Answers 302 to this location.
    Redirect(String),
    /// Answers this status with a body of so many bytes of error text.
    Status {
        /// The status code.
        code: u16,
        /// How long its body is.
        bytes: usize,
    },
    /// Declares a length that is not the body's, sends the whole body, and ends the connection.
    LieAboutLength {
        /// The `Content-Length` it sends.
        declared: usize,
    },
    /// Serves the body up to and including its first sample, then 64 KiB of random bytes, always the same.
    Garbage,
    /// Serves the body with this line, counted from 1, replaced by one that is no sample.
    BadLineAt(usize),
    /// Sends valid lines for ever, until the peer goes.
    Endless,
    /// Sends one line that never ends, until the peer goes.
    EndlessLine,
    /// Sends one header of so many bytes, then serves.
    HugeHeaders(usize),
    /// Answers the request with something that is not HTTP, and ends the connection.
    NotHttp,
    /// Serves the body compressed and says so, though nobody asked.
    Gzip,
}

impl Behaviour {
    /// That status with a short body.
    pub fn status(code: u16) -> Self {
        /// What such a server says: a line.
        const SHORT: usize = 64;
        Self::Status { code, bytes: SHORT }
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By `Content-Length`.
    ContentLength,
    /// By chunks, which is what Go does with a long body.
    Chunked,
    /// By the end of the connection, as in HTTP/1.0: no one can tell a cut from an end.
    UntilClose,
}

impl Framing {
    /// How long a chunk of a served body is: a body cut at a multiple of it lacks only its closing chunk.
    pub const CHUNK: usize = 32 * 1024;
}
