//! Answers to requests, each as the behaviour in force will have it.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::Manner;
use super::behaviour::{Behaviour, Framing};
use super::connection::{Socket, Then, Wire};

/// Where the random bytes of [`Behaviour::Garbage`] start: any number but 0; fixed, so that a failure repeats.
const SEED: u64 = 0x5eed_0f6a_7ba9_e001;
/// How many there are: sure to hold line feeds, braces and bytes that are no UTF-8.
const GARBAGE: usize = 64 * 1024;
/// What is no sample in any format.
const BAD_LINE: &[u8] = b"this is { no sample\n";

pub(super) async fn answer<S: Socket>(wire: &mut Wire<'_, S>, manner: &Manner, is_head: bool) -> io::Result<Then> {
    let body = &manner.body;
    let good = Head { framing: manner.framing, ..Head::ok(manner, body.len()) };
    if is_head {
        wire.put(good.text().as_bytes()).await?;
        return Ok(good.then());
    }
    match &manner.behaviour {
        Behaviour::Serve => send(wire, &good, body).await,
        // The listener was closed when this connection already stood.
        Behaviour::RefuseConnections => Ok(Then::Close),
        Behaviour::HangBeforeHandshake | Behaviour::HangBeforeHead => wire.hang().await,
        Behaviour::SlowHead(after) => {
            wire.pause(*after).await?;
            send(wire, &good, body).await
        }
        Behaviour::HangWithinHead => {
            wire.put(b"HTTP/1.1 200 OK\r\nContent-Ty").await?;
            wire.hang().await
        }
        Behaviour::HangAfter(bytes) => {
            begin(wire, &good, body, *bytes).await?;
            wire.hang().await
        }
        Behaviour::Drip { bytes, every } => drip(wire, &good, body, *bytes, *every).await,
        Behaviour::CutAfter(bytes) => {
            begin(wire, &good, body, *bytes).await?;
            Ok(Then::Close)
        }
        Behaviour::ResetAfter(bytes) => {
            begin(wire, &good, body, *bytes).await?;
            Err(wire.reset())
        }
        Behaviour::Redirect(location) => {
            let head = Head { status: 302, extra: format!("Location: {location}\r\n"), ..Head::error(0) };
            send(wire, &head, b"").await
        }
        Behaviour::Status { code, bytes } => {
            let text = b"something went wrong here\n".repeat(bytes.div_ceil(26));
            send(wire, &Head { status: *code, ..Head::error(*bytes) }, &text[..*bytes]).await
        }
        Behaviour::LieAboutLength { declared } => {
            wire.put(Head { framing: Framing::ContentLength, ..Head::ok(manner, *declared) }.text().as_bytes()).await?;
            wire.put(body).await?;
            Ok(Then::Close)
        }
        Behaviour::Garbage => send_instead(wire, good, &with_garbage(body)).await,
        Behaviour::BadLineAt(line) => send_instead(wire, good, &with_bad_line(body, *line)).await,
        Behaviour::Endless => {
            begin_endless(wire, manner).await?;
            endless_lines(wire).await
        }
        Behaviour::EndlessLine => {
            begin_endless(wire, manner).await?;
            put_chunk(wire, b"endless_line{label=\"").await?;
            let filler = vec![b'x'; 16 * 1024];
            loop {
                put_chunk(wire, &filler).await?;
            }
        }
        Behaviour::HugeHeaders(bytes) => {
            let extra = format!("X-Filler: {}\r\n", "x".repeat(*bytes));
            send(wire, &Head { extra, ..good }, body).await
        }
        Behaviour::NotHttp => {
            wire.put(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n").await?;
            Ok(Then::Close)
        }
        Behaviour::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body)?;
            let extra = "Content-Encoding: gzip\r\n".to_owned();
            send_instead(wire, Head { extra, ..good }, &encoder.finish()?).await
        }
    }
}

struct Head<'a> {
    status: u16,
    framing: Framing,
    length: usize,
    content_type: Option<&'a str>,
    /// Whole header lines, each with its end.
    extra: String,
}

impl<'a> Head<'a> {
    fn ok(manner: &'a Manner, length: usize) -> Self {
        let content_type = manner.content_type.as_deref();
        Self { status: 200, framing: manner.framing, length, content_type, extra: String::new() }
    }

    fn error(length: usize) -> Self {
        let content_type = Some("text/plain; charset=utf-8");
        Self { status: 500, framing: Framing::ContentLength, length, content_type, extra: String::new() }
    }

    fn text(&self) -> String {
        let reason = http::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason.unwrap_or("Unheard Of"));
        if let Some(content_type) = self.content_type {
            let _ = write!(text, "Content-Type: {content_type}\r\n");
        }
        let _ = match self.framing {
            Framing::ContentLength => write!(text, "Content-Length: {}\r\n", self.length),
            Framing::Chunked => write!(text, "Transfer-Encoding: chunked\r\n"),
            Framing::UntilClose => write!(text, "Connection: close\r\n"),
        };
        text.push_str(&self.extra);
        text.push_str("\r\n");
        text
    }

    fn then(&self) -> Then {
        if self.framing == Framing::UntilClose { Then::Close } else { Then::KeepAlive }
    }
}

/// A whole answer.
async fn send<S: Socket>(wire: &mut Wire<'_, S>, head: &Head<'_>, body: &[u8]) -> io::Result<Then> {
    begin(wire, head, body, body.len()).await?;
    end(wire, head).await
}

/// A whole answer whose body is not the one that `head` was made for.
async fn send_instead<S: Socket>(wire: &mut Wire<'_, S>, head: Head<'_>, body: &[u8]) -> io::Result<Then> {
    send(wire, &Head { length: body.len(), ..head }, body).await
}

/// The head and the first bytes of the body. If chunked, a body that stops within a chunk leaves that chunk short.
async fn begin<S: Socket>(wire: &mut Wire<'_, S>, head: &Head<'_>, body: &[u8], bytes: usize) -> io::Result<()> {
    wire.put(head.text().as_bytes()).await?;
    let bytes = bytes.min(body.len());
    if head.framing != Framing::Chunked {
        return wire.put(&body[..bytes]).await;
    }
    for (place, whole) in body.chunks(Framing::CHUNK).enumerate() {
        let left = bytes.saturating_sub(place * Framing::CHUNK);
        if left >= whole.len() {
            put_chunk(wire, whole).await?;
            continue;
        }
        if left > 0 {
            wire.put(format!("{:x}\r\n", whole.len()).as_bytes()).await?;
            wire.put(&whole[..left]).await?;
        }
        break;
    }
    Ok(())
}

async fn end<S: Socket>(wire: &mut Wire<'_, S>, head: &Head<'_>) -> io::Result<Then> {
    if head.framing == Framing::Chunked {
        wire.put(b"0\r\n\r\n").await?;
    }
    Ok(head.then())
}

async fn drip<S: Socket>(
    wire: &mut Wire<'_, S>,
    head: &Head<'_>,
    body: &[u8],
    bytes: usize,
    every: Duration,
) -> io::Result<Then> {
    wire.put(head.text().as_bytes()).await?;
    for (place, piece) in body.chunks(bytes.max(1)).enumerate() {
        if place > 0 {
            wire.pause(every).await?;
        }
        if head.framing == Framing::Chunked {
            put_chunk(wire, piece).await?;
        } else {
            wire.put(piece).await?;
        }
    }
    end(wire, head).await
}

/// The head of a body without an end, which can only be chunked.
async fn begin_endless<S: Socket>(wire: &mut Wire<'_, S>, manner: &Manner) -> io::Result<()> {
    wire.put(Head { framing: Framing::Chunked, ..Head::ok(manner, 0) }.text().as_bytes()).await
}

async fn endless_lines<S: Socket>(wire: &mut Wire<'_, S>) -> io::Result<Then> {
    put_chunk(wire, b"# TYPE endless_total counter\n").await?;
    for batch in 0u64.. {
        let mut lines = String::new();
        for line in 0..500 {
            let _ = writeln!(lines, "endless_total{{line=\"{batch}.{line}\"}} 1");
        }
        put_chunk(wire, lines.as_bytes()).await?;
    }
    unreachable!("more batches than a lifetime can send")
}

/// One chunk of chunked framing, never empty: an empty one is the end.
async fn put_chunk<S: Socket>(wire: &mut Wire<'_, S>, bytes: &[u8]) -> io::Result<()> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    wire.put(&chunk).await
}

fn with_garbage(body: &[u8]) -> Vec<u8> {
    let mut garbled = Vec::new();
    for line in body.split_inclusive(|&b| b == b'\n') {
        garbled.extend_from_slice(line);
        if !line.starts_with(b"#") {
            break;
        }
    }
    let end = garbled.len() + GARBAGE;
    let mut state = SEED;
    while garbled.len() < end {
        // xorshift64: no more is asked of it than to look like noise.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        garbled.extend_from_slice(&state.to_le_bytes());
    }
    garbled
}

fn with_bad_line(body: &[u8], bad: usize) -> Vec<u8> {
    let lines = body.split_inclusive(|&b| b == b'\n').enumerate();
    lines.flat_map(|(place, line)| if place + 1 == bad { BAD_LINE } else { line }).copied().collect()
}
