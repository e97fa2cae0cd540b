//! PROXY protocol version 2, for load balancers that would otherwise hide who connects. Expected when the flag says so, never guessed:
//! who may choose whether to send it may also lie in it.

use std::net::SocketAddr;

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Signature, version, command, family and length.
const FIXED: usize = 16;

/// Addresses need 36 bytes at most (216 for Unix sockets), and balancers add a few hundred of their own. Longer is refused.
const MOST: usize = 2048;

/// Reads the header, to its last byte and not further; gives the client's address, or `None` for the balancer's own health checks.
pub(crate) async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Option<SocketAddr>, String> {
    let mut header = vec![0; FIXED];
    stream.read_exact(&mut header).await.map_err(|error| format!("no PROXY header: {error}"))?;
    let length = usize::from(u16::from_be_bytes([header[14], header[15]]));
    let config = ParseConfig { include_tlvs: false, allow_v1: false, allow_v2: true };
    if !header.starts_with(b"\r\n\r\n\0\r\nQUIT\n") {
        return Err("no PROXY header of version 2".into());
    }
    if length > MOST {
        return Err(format!("a PROXY header of {length} bytes"));
    }
    header.resize(FIXED + length, 0);
    stream.read_exact(&mut header[FIXED..]).await.map_err(|error| format!("no whole PROXY header: {error}"))?;
    let (header, _) = ProxyHeader::parse(&header, config).map_err(|error| format!("a bad PROXY header: {error}"))?;
    Ok(header.proxied_address().map(|addresses| addresses.source))
}

#[cfg(test)]
mod tests {
    use proxy_header::ProxiedAddress;

    use super::*;

    async fn read_all(mut bytes: &[u8]) -> (Result<Option<SocketAddr>, String>, usize) {
        let address = read(&mut bytes).await;
        (address, bytes.len())
    }

    #[tokio::test]
    async fn the_client_is_who_the_header_says_and_what_follows_is_left() {
        let source: SocketAddr = "192.0.2.7:4711".parse().unwrap();
        let addresses = ProxiedAddress::stream(source, "192.0.2.1:443".parse().unwrap());
        let mut bytes = Vec::new();
        ProxyHeader::with_address(addresses).encode_v2(&mut bytes).unwrap();
        bytes.extend_from_slice(b"hello");
        assert_eq!(read_all(&bytes).await, (Ok(Some(source)), 5));
    }

    #[tokio::test]
    async fn a_health_check_of_the_balancer_has_no_client() {
        let mut bytes = Vec::new();
        ProxyHeader::with_local().encode_v2(&mut bytes).unwrap();
        assert_eq!(read_all(&bytes).await, (Ok(None), 0));
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        let long = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff".as_slice();
        for bytes in [
            b"".as_slice(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaa",
            long,
        ] {
            assert!(read_all(bytes).await.0.is_err(), "{bytes:?}");
        }
    }
}
