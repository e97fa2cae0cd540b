//! One connection to a pod: handshake, requests, and what is written back.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::answer::answer;
use super::behaviour::Behaviour;
use super::stats::{Recorder, Request};
use super::{Shared, tls};

/// What is written to a socket at a time: four TLS records, and fine enough to see back-pressure in the counts.
const PIECE: usize = 64 * 1024;
/// The longest head of a request that is read; the connection of a longer one is closed.
const HEAD_LIMIT: usize = 64 * 1024;

/// Whether the connection can carry another request.
pub(super) enum Then {
    KeepAlive,
    Close,
}

/// What [`answer`] needs of a socket, with or without TLS.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Socket for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}

pub(super) async fn serve_connection(shared: &Shared, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (behaviour, acceptor) = {
        let manner = shared.manner();
        (manner.behaviour.clone(), manner.tls.clone())
    };
    if behaviour == Behaviour::HangBeforeHandshake {
        return wait_until_gone(&mut stream).await;
    }
    let Some(acceptor) = acceptor else { return serve_requests(shared, stream, None).await };
    let stream = acceptor.accept(stream).await.inspect_err(|_| shared.recorder.failed_handshake())?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let common_name = shown.and_then(tls::common_name);
    serve_requests(shared, stream, common_name).await
}

async fn serve_requests(shared: &Shared, stream: impl Socket, common_name: Option<String>) -> io::Result<()> {
    let mut wire = Wire { stream, recorder: &shared.recorder };
    let mut unread = Vec::new();
    while let Some(request) = read_request(&mut wire.stream, &mut unread, common_name.as_deref()).await? {
        let asked_to_close =
            request.header("connection").is_some_and(|value| value.to_ascii_lowercase().contains("close"));
        let is_head = request.method == "HEAD";
        // Before the count, so that whoever waits for the request and then changes the manner does not change this one.
        let manner = shared.manner().clone();
        shared.recorder.requested(request);
        let then = answer(&mut wire, &manner, is_head).await?;
        shared.recorder.answered();
        if asked_to_close || matches!(then, Then::Close) {
            break;
        }
    }
    wire.stream.shutdown().await
}

/// The next request; none if the peer has ended the connection between requests.
async fn read_request(
    stream: &mut impl Socket,
    unread: &mut Vec<u8>,
    common_name: Option<&str>,
) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if unread.len() > HEAD_LIMIT {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the head of a request is too long"));
        }
        if stream.read_buf(unread).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&unread[..end]).into_owned();
    unread.drain(..end + 4);

    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let method = words.next().unwrap_or_default().to_owned();
    let target = words.next().unwrap_or_default();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    let header = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    Ok(Some(Request {
        method,
        path: path.to_owned(),
        query,
        headers: lines.filter_map(header).collect(),
        client_cert_common_name: common_name.map(str::to_owned),
    }))
}

/// Reads and discards until the peer ends the connection.
async fn wait_until_gone(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    let mut discarded = [0; 1024];
    while stream.read(&mut discarded).await? > 0 {}
    Ok(())
}

/// The socket of a connection, with its bytes counted.
pub(super) struct Wire<'a, S> {
    stream: S,
    recorder: &'a Recorder,
}

impl<S: Socket> Wire<'_, S> {
    /// Hands all of it to the socket.
    pub(super) async fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = self.stream.write(&bytes[..bytes.len().min(PIECE)]).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.stream.flush().await?;
            self.recorder.sent(written);
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Does nothing for so long, or until the peer goes, which is an error.
    pub(super) async fn pause(&mut self, duration: Duration) -> io::Result<()> {
        tokio::select! {
            () = tokio::time::sleep(duration) => Ok(()),
            gone = wait_until_gone(&mut self.stream) => gone.and(Err(io::ErrorKind::ConnectionAborted.into())),
        }
    }

    /// Does nothing until the peer goes, which is always an error.
    pub(super) async fn hang(&mut self) -> io::Result<Then> {
        wait_until_gone(&mut self.stream).await?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Makes the end of this connection a reset, and gives the error that brings that end about.
    pub(super) fn reset(&mut self) -> io::Error {
        match self.stream.tcp().set_zero_linger() {
            Ok(()) => io::ErrorKind::ConnectionReset.into(),
            Err(error) => error,
        }
    }
}
