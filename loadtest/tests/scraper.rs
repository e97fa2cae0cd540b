//! The scraper sends what Prometheus sends, keeps what Prometheus keeps, and tells failures apart.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on must fail, and say where")]

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use http::{Method, StatusCode, Version};
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, SupportedProtocolVersion};
use sluice_loadtest::certificate::Authority;
use sluice_loadtest::corpus;
use sluice_loadtest::pod::{Behaviour, Pod, PodOptions, PodTls};
use sluice_loadtest::scraper::{
    ACCEPT_3, Prometheus, Protocol, ScrapeError, Scraper, ScraperOptions, ScraperTls, proxy_v2,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

const PATIENCE: Duration = Duration::from_secs(30);
/// Long enough for a handshake on a slow machine, short enough to wait for.
const SHORT: Duration = Duration::from_secs(3);
static TLS_1_2: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

fn pod(tls: PodTls) -> Pod {
    Pod::start(PodOptions { address: (Ipv4Addr::LOCALHOST, 0).into(), body: corpus::etcd(), tls })
}

/// What the server below saw of a connection.
#[derive(Debug, PartialEq)]
struct Seen {
    server_name: Option<String>,
    tls: Option<rustls::ProtocolVersion>,
}

/// A server that speaks HTTP/2 as well: `/metrics` is good, `/cut` breaks off after ten bytes.
async fn both_protocols(ca: &Authority) -> (SocketAddr, mpsc::UnboundedReceiver<Seen>) {
    let issued = ca.server(&["proxy.example", "127.0.0.1"]);
    let chain = vec![CertificateDer::from_pem_slice(issued.cert_pem.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).expect("PEM");
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (seen, connections) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let (acceptor, seen) = (acceptor.clone(), seen.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let (_, tls) = stream.get_ref();
                let server_name = tls.server_name().map(str::to_owned);
                let _ = seen.send(Seen { server_name, tls: tls.protocol_version() });
                let is_http2 = tls.alpn_protocol() == Some(b"h2");
                let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                    let frames = match request.uri().path() {
                        "/cut" => vec![Ok(Bytes::from_static(b"ten bytes.")), Err(io::Error::other("broken"))],
                        _ => vec![Ok(corpus::etcd())],
                    };
                    let frames = futures_util::stream::iter(frames).then(|frame| async {
                        // A pause, in which what came before is sent.
                        tokio::task::yield_now().await;
                        frame.map(Frame::data)
                    });
                    let body = StreamBody::new(Box::pin(frames));
                    Ok::<_, Infallible>(http::Response::new(body))
                });
                let stream = TokioIo::new(stream);
                if is_http2 {
                    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(stream, service).await;
                } else {
                    let _ = hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await;
                }
            });
        }
    });
    (address, connections)
}

#[tokio::test]
async fn http_1_or_2_is_agreed_by_alpn_and_the_connection_is_kept() {
    let ca = Authority::new("demo-ca");
    let (address, _connections) = both_protocols(&ca).await;
    for (protocol, version) in
        [(Protocol::Http1, Version::HTTP_11), (Protocol::Http2, Version::HTTP_2), (Protocol::Either, Version::HTTP_2)]
    {
        let options = ScraperOptions::new(address, "proxy.example", &ca.cert_pem());
        let scraper = Scraper::new(ScraperOptions { protocol, ..options });
        for _ in 0..3 {
            let answer = scraper.scrape("/metrics").await.expect("a good answer");
            assert_eq!((answer.version, answer.body), (version, corpus::etcd()));
        }
        assert_eq!(scraper.connections(), 1);
        scraper.forget_connections();
        scraper.scrape("/metrics").await.expect("a good answer");
        assert_eq!(scraper.connections(), 2);
    }
}

#[tokio::test]
async fn scrapes_at_once_share_a_connection_in_http_2_and_have_their_own_in_http_1() {
    let ca = Authority::new("demo-ca");
    let (address, _connections) = both_protocols(&ca).await;
    for (protocol, connections) in [(Protocol::Http1, 8), (Protocol::Http2, 1)] {
        let options = ScraperOptions::new(address, "proxy.example", &ca.cert_pem());
        let scraper = Scraper::new(ScraperOptions { protocol, timeout: PATIENCE, ..options });
        scraper.scrape("/metrics").await.expect("a good answer");
        for answer in join_all((0..8).map(|_| scraper.scrape("/metrics"))).await {
            assert_eq!(answer.expect("a good answer").body, corpus::etcd());
        }
        assert_eq!(scraper.connections(), connections, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_in_both_protocols() {
    let ca = Authority::new("demo-ca");
    let (address, _connections) = both_protocols(&ca).await;
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let options = ScraperOptions::new(address, "proxy.example", &ca.cert_pem());
        let scraper = Scraper::new(ScraperOptions { protocol, ..options });
        let failed = scraper.scrape("/cut").await.expect_err("a broken body");
        assert!(matches!(failed, ScrapeError::Truncated { .. }), "{protocol:?}: {failed}");
        assert_eq!(scraper.scrape("/metrics").await.expect("a good answer").body, corpus::etcd());
    }
}

#[tokio::test]
async fn the_name_is_sent_whatever_the_address_and_may_be_withheld() {
    let ca = Authority::new("demo-ca");
    let (address, mut connections) = both_protocols(&ca).await;
    let options = ScraperOptions::new(address, "proxy.example", &ca.cert_pem());
    Scraper::new(options.clone()).scrape("/metrics").await.expect("a good answer");
    let tls = Some(rustls::ProtocolVersion::TLSv1_3);
    assert_eq!(connections.recv().await, Some(Seen { server_name: Some("proxy.example".to_owned()), tls }));

    let with_tls = |change: fn(&mut ScraperTls)| {
        let mut options = options.clone();
        change(options.tls.as_mut().expect("TLS"));
        Scraper::new(options)
    };
    with_tls(|tls| tls.send_name = false).scrape("/metrics").await.expect("a good answer");
    assert_eq!(connections.recv().await, Some(Seen { server_name: None, tls }));

    with_tls(|tls| tls.versions = TLS_1_2).scrape("/metrics").await.expect("a good answer");
    assert_eq!(connections.recv().await.and_then(|seen| seen.tls), Some(rustls::ProtocolVersion::TLSv1_2));

    let failed = with_tls(|tls| tls.server_name = "other.example".to_owned()).scrape("/metrics").await;
    assert!(matches!(failed, Err(ScrapeError::Tls(text)) if text.contains("not valid for name")));
    let failed = with_tls(|tls| tls.ca_pem = Authority::new("demo-ca").cert_pem()).scrape("/metrics").await;
    assert!(matches!(failed, Err(ScrapeError::Tls(text)) if text.contains("invalid peer certificate")));
}

#[tokio::test]
async fn headers_are_those_of_prometheus_and_can_be_replaced() {
    let pod = pod(PodTls::Plain);
    let mut options = ScraperOptions::plain(pod.address()).with_bearer("a-token");
    options.prometheus = Prometheus::Three;
    options.timeout = Duration::from_millis(9500);
    options.headers = vec![("X-Extra".to_owned(), "1".to_owned()), ("User-Agent".to_owned(), "curl/8".to_owned())];
    let answered = Scraper::new(options).request(Method::HEAD, "/metrics").await.expect("an answer");
    assert_eq!((answered.status, answered.body.len()), (StatusCode::OK, 0));
    let request = pod.requests().pop().expect("a request");
    assert_eq!((request.method.as_str(), request.header("host")), ("HEAD", Some(&*pod.address().to_string())));
    assert_eq!(request.header("accept"), Some(ACCEPT_3));
    assert_eq!(request.header("authorization"), Some("Bearer a-token"));
    assert_eq!(request.header("x-prometheus-scrape-timeout-seconds"), Some("9.5"));
    assert_eq!((request.header("x-extra"), request.header("user-agent")), (Some("1"), Some("curl/8")));
}

#[tokio::test]
async fn a_connection_that_died_while_it_was_kept_is_no_failure() {
    let pod = pod(PodTls::Plain);
    let scraper = Scraper::new(ScraperOptions::plain(pod.address()));
    scraper.scrape("/metrics").await.expect("a good answer");
    pod.disconnect();
    scraper.scrape("/metrics").await.expect("a good answer on a new connection");
    assert_eq!(scraper.connections(), 2);
}

#[tokio::test]
async fn one_deadline_holds_for_handshake_head_and_body() {
    let ca = Authority::new("demo-ca");
    let drip = Behaviour::Drip { bytes: 10, every: Duration::from_millis(10) };
    let cases = [
        (Behaviour::HangBeforeHandshake, false),
        (Behaviour::HangBeforeHead, false),
        (Behaviour::HangAfter(1000), true),
        (drip, true),
    ];
    join_all(cases.map(async |(behaviour, body_comes)| {
        let pod = pod(PodTls::Tls { issued: ca.server(&["pod"]) });
        pod.behave(behaviour.clone());
        let options = ScraperOptions::new(pod.address(), "pod", &ca.cert_pem());
        let scraper = Scraper::new(ScraperOptions { timeout: SHORT, ..options });
        let failed = scraper.scrape("/metrics").await.expect_err("too late");
        let ScrapeError::Timeout { after, received } = failed else { panic!("{behaviour:?}: {failed}") };
        assert_eq!((after, received > 0), (SHORT, body_comes), "{behaviour:?}");
        // The scraper has left.
        pod.wait_for(|stats| stats.accepted == 1 && stats.open == 0).await;
    }))
    .await;
}

#[tokio::test]
async fn the_proxy_protocol_comes_before_all_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let ca = Authority::new("demo-ca");
    let mut options = ScraperOptions::new(address, "pod", &ca.cert_pem());
    options.preamble = proxy_v2("10.1.2.3:4567".parse().expect("v4"), "10.9.8.7:443".parse().expect("v4"));
    let scraping = tokio::spawn(async move { Scraper::new(options).scrape("/metrics").await });

    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut read = [0; 29];
    stream.read_exact(&mut read).await.expect("the header and the first byte of TLS");
    let mut expected = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\x0a\x01\x02\x03\x0a\x09\x08\x07".to_vec();
    expected.extend([0x11, 0xd7, 0x01, 0xbb]);
    assert_eq!(read[..28], expected);
    assert_eq!(read[28], 22, "a TLS handshake record follows");
    drop(stream);
    let failed = scraping.await.expect("no panic").expect_err("nobody answered");
    assert!(matches!(failed, ScrapeError::Tls(_)), "{failed}");

    let six = proxy_v2("[::1]:1".parse().expect("v6"), "[::2]:2".parse().expect("v6"));
    assert_eq!((six.len(), six[13], u16::from_be_bytes([six[14], six[15]])), (52, 0x21, 36));
}

#[tokio::test]
async fn samples_are_picked_by_name() {
    let pod = pod(PodTls::Plain);
    let answer = Scraper::new(ScraperOptions::plain(pod.address())).scrape("/metrics").await.expect("an answer");
    assert_eq!(answer.sample_count(), 1246);
    let fsync = answer.samples(|name| name.starts_with("etcd_disk_wal_fsync_duration_seconds"));
    assert!(fsync.iter().any(|sample| sample.label("le") == "+Inf"), "{fsync:?}");
    assert_eq!(answer.samples_named("etcd_server_has_leader")[0].value, "1");
}
