//! A pod that is told to misbehave does so, to the byte: else a test of the proxy proves nothing.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that cannot go on must fail, and say where")]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluice_loadtest::certificate::Authority;
use sluice_loadtest::pod::{Behaviour, Framing, OPEN_METRICS, Pod, PodOptions, PodTls};
use sluice_loadtest::scraper::{ScrapeError, Scraper, ScraperOptions};
use sluice_loadtest::{corpus, scraper};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than any answer takes, less than the runner's patience.
const PATIENCE: Duration = Duration::from_secs(30);
const FRAMINGS: [Framing; 2] = [Framing::ContentLength, Framing::Chunked];

fn pod_with(body: Bytes, tls: PodTls) -> Pod {
    Pod::start(PodOptions { address: "127.1.0.5:0".parse().expect("an address"), body, tls })
}

fn plain_pod() -> Pod {
    pod_with(corpus::etcd(), PodTls::Plain)
}

fn scraper_of(pod: &Pod) -> Scraper {
    Scraper::new(ScraperOptions { timeout: PATIENCE, ..ScraperOptions::plain(pod.address()) })
}

/// A connection on which a request has been sent.
async fn ask(pod: &Pod) -> TcpStream {
    let mut stream = TcpStream::connect(pod.address()).await.expect("the pod listens");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: pod\r\n\r\n").await.expect("the pod reads");
    stream
}

/// All that comes until the end of the connection, and whether that end was in good order.
async fn read_to_end(mut stream: TcpStream) -> (Vec<u8>, Result<(), ErrorKind>) {
    let mut read = Vec::new();
    let end = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("the pod ends the connection");
    (read, end.map(drop).map_err(|error| error.kind()))
}

fn split_head(answer: &[u8]) -> (&str, &[u8]) {
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
    (std::str::from_utf8(&answer[..at]).expect("a head in text"), &answer[at + 4..])
}

#[tokio::test]
async fn a_good_pod_serves_its_body_again_and_again_on_one_connection_however_it_frames_it() {
    let pod = plain_pod();
    let scraper = scraper_of(&pod);
    for framing in FRAMINGS {
        pod.set_framing(framing);
        for _ in 0..3 {
            let answer = scraper.scrape("/metrics?a=b").await.expect("a good answer");
            assert_eq!(answer.body, corpus::etcd());
            assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        }
    }
    let stats = pod.wait_for(|stats| stats.answered == 6).await;
    assert_eq!((stats.accepted, stats.open, stats.requests), (1, 1, 6));
    assert!(stats.sent > 6 * corpus::etcd().len() as u64);

    let request = pod.requests().pop().expect("requests are kept");
    assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/metrics"));
    assert_eq!(request.query.as_deref(), Some("a=b"));
    assert_eq!(request.header("ACCEPT"), Some(scraper::ACCEPT_2));
    assert_eq!(request.header("accept-encoding"), Some("gzip"));
    assert_eq!(request.header("user-agent"), Some("Prometheus/2.42.0"));
    assert_eq!(request.header("x-prometheus-scrape-timeout-seconds"), Some("30"));
    assert_eq!(request.client_cert_common_name, None);

    pod.set_framing(Framing::UntilClose);
    assert_eq!(scraper.scrape("/metrics").await.expect("a good answer").body, corpus::etcd());
    drop(scraper);
    pod.wait_for(|stats| stats.open == 0).await;
}

#[tokio::test]
async fn body_and_content_type_can_be_changed() {
    let pod = plain_pod();
    let scraper = scraper_of(&pod);
    pod.set_body(Bytes::from_static(b"up 1\n"));
    pod.set_content_type(Some(OPEN_METRICS));
    let answer = scraper.scrape("/").await.expect("a good answer");
    assert_eq!((&answer.body[..], answer.header("content-type")), (&b"up 1\n"[..], Some(OPEN_METRICS)));
    pod.set_content_type(None);
    assert_eq!(scraper.scrape("/").await.expect("a good answer").header("content-type"), None);
}

#[tokio::test]
async fn tls_and_the_certificates_of_clients() {
    let (ca, stranger, namesake) = (Authority::new("root-ca"), Authority::new("stranger"), Authority::new("root-ca"));
    let issued = ca.server(&["etcd-client"]);
    let mutual = PodTls::Mutual { issued: issued.clone(), client_ca_pem: ca.cert_pem() };
    let pod = pod_with(corpus::etcd(), mutual);
    let options = ScraperOptions::new(pod.address(), "etcd-client", &ca.cert_pem());

    let good = options.clone().with_client(&ca.client("system:metrics", &[]));
    assert_eq!(Scraper::new(good).scrape("/metrics").await.expect("a good answer").body, corpus::etcd());
    let seen = pod.requests().pop().and_then(|request| request.client_cert_common_name);
    assert_eq!(seen.as_deref(), Some("system:metrics"));

    for (options, alert) in [
        (options.clone(), "CertificateRequired"),
        (options.clone().with_client(&stranger.client("system:metrics", &[])), "UnknownCA"),
        (options.clone().with_client(&namesake.client("system:metrics", &[])), "DecryptError"),
        (options.clone().with_client(&ca.expired_client("system:metrics")), "CertificateExpired"),
    ] {
        let failed = Scraper::new(options).scrape("/metrics").await.expect_err("the pod must refuse");
        assert!(matches!(&failed, ScrapeError::Tls(text) if text.contains(alert)), "{failed}, not {alert}");
    }
    assert_eq!(pod.wait_for(|stats| stats.open == 0).await.failed_handshakes, 4);

    pod.set_tls(&PodTls::Tls { issued });
    assert_eq!(Scraper::new(options).scrape("/metrics").await.expect("no certificate needed").body, corpus::etcd());
}

#[tokio::test]
async fn what_hangs_sends_what_it_was_told_and_stays_until_the_peer_goes() {
    let pod = plain_pod();
    let cases: [(Behaviour, &[u8]); 4] = [
        (Behaviour::HangBeforeHandshake, b""),
        (Behaviour::HangBeforeHead, b""),
        (Behaviour::HangWithinHead, b"HTTP/1.1 200 OK\r\nContent-Ty"),
        (Behaviour::HangAfter(100), &corpus::etcd()[..100]),
    ];
    for (behaviour, tail) in cases {
        let sent_before = pod.sent();
        pod.behave(behaviour.clone());
        let mut stream = ask(&pod).await;
        pod.wait_for(|stats| stats.open == 1).await;
        let mut read = Vec::new();
        while !read.ends_with(tail) {
            assert_ne!(stream.read_buf(&mut read).await.expect("the connection stands"), 0);
        }
        // That it says no more cannot be waited for; a moment shows a pod that does.
        let more = tokio::time::timeout(Duration::from_millis(100), stream.read_buf(&mut read)).await;
        assert!(more.is_err(), "{behaviour:?} went on");
        assert_eq!(pod.open_connections(), 1, "{behaviour:?}");
        drop(stream);
        pod.wait_for(|stats| stats.open == 0).await;
        assert_eq!(pod.sent() - sent_before, read.len() as u64, "{behaviour:?}");
    }
    assert_eq!(pod.stats().answered, 0);
}

#[tokio::test]
async fn a_slow_head_comes_late_and_whole() {
    let pod = plain_pod();
    pod.behave(Behaviour::SlowHead(Duration::from_millis(300)));
    let answer = scraper_of(&pod).scrape("/metrics").await.expect("a late answer");
    assert!(answer.first_byte >= Duration::from_millis(300), "{:?}", answer.first_byte);
    assert_eq!(answer.body, corpus::etcd());
}

#[tokio::test]
async fn a_dripping_body_takes_its_time_and_comes_whole() {
    let pod = plain_pod();
    let body = corpus::etcd().slice(..corpus::etcd().len().min(5000));
    pod.set_body(body.clone());
    for framing in FRAMINGS {
        pod.set_framing(framing);
        pod.behave(Behaviour::Drip { bytes: 1000, every: Duration::from_millis(50) });
        let started = Instant::now();
        let answer = scraper_of(&pod).scrape("/metrics").await.expect("a slow answer");
        assert!(started.elapsed() >= Duration::from_millis(200), "{:?}", started.elapsed());
        assert_eq!(answer.body, body);
    }
}

#[tokio::test]
async fn a_cut_body_ends_in_good_order_and_short() {
    let pod = plain_pod();
    let body = corpus::etcd();
    // In mid chunk and between two chunks.
    for cut in [1000, Framing::CHUNK] {
        pod.behave(Behaviour::CutAfter(cut));
        for framing in FRAMINGS {
            pod.set_framing(framing);
            let failed = scraper_of(&pod).scrape("/metrics").await.expect_err("a cut body is no body");
            assert!(matches!(failed, ScrapeError::Truncated { received, .. } if received == cut as u64), "{failed}");
        }
        pod.set_framing(Framing::ContentLength);
        let (answer, end) = read_to_end(ask(&pod).await).await;
        let (head, rest) = split_head(&answer);
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert_eq!((rest, end), (&body[..cut], Ok(())));
    }

    let ca = Authority::new("root-ca");
    pod.set_tls(&PodTls::Tls { issued: ca.server(&["pod"]) });
    let options = ScraperOptions::new(pod.address(), "pod", &ca.cert_pem());
    let failed = Scraper::new(options).scrape("/metrics").await.expect_err("a cut body is no body");
    assert!(matches!(failed, ScrapeError::Truncated { received: 32_768, .. }), "{failed}");
}

#[tokio::test]
async fn a_reset_is_a_reset() {
    let pod = plain_pod();
    pod.behave(Behaviour::ResetAfter(1000));
    let (answer, end) = read_to_end(ask(&pod).await).await;
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    assert!(answer.len() <= 1000 + 200, "{}", answer.len());
    assert_eq!(pod.wait_for(|stats| stats.open == 0).await.answered, 0);
}

#[tokio::test]
async fn redirects_and_errors_are_answers_with_their_bodies() {
    let pod = plain_pod();
    let scraper = scraper_of(&pod);
    pod.behave(Behaviour::Redirect("http://elsewhere.invalid/".to_owned()));
    let answer = scraper.scrape("/metrics").await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.header("location")), (302, Some("http://elsewhere.invalid/")));

    pod.behave(Behaviour::status(500));
    let answer = scraper.scrape("/metrics").await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.body.len()), (500, 64));

    pod.behave(Behaviour::Status { code: 403, bytes: 10 << 20 });
    let answer = scraper.scrape("/metrics").await.expect("an answer");
    assert_eq!((answer.status.as_u16(), answer.body.len()), (403, 10 << 20));
    assert_eq!(scraper.connections(), 1, "a pod in trouble keeps its connections");
}

#[tokio::test]
async fn a_false_length_is_sent_with_the_true_body() {
    let pod = plain_pod();
    let body = corpus::etcd();
    for declared in [10, body.len() + 10] {
        pod.behave(Behaviour::LieAboutLength { declared });
        let (answer, end) = read_to_end(ask(&pod).await).await;
        let (head, rest) = split_head(&answer);
        assert!(head.ends_with(&format!("Content-Length: {declared}")), "{head}");
        assert_eq!((rest, end), (&body[..], Ok(())));
    }
    let failed = scraper_of(&pod).scrape("/metrics").await.expect_err("ten bytes are missing");
    assert!(matches!(failed, ScrapeError::Truncated { .. }), "{failed}");
}

#[tokio::test]
async fn garbage_comes_behind_one_good_line_and_is_always_the_same() {
    let pod = plain_pod();
    pod.behave(Behaviour::Garbage);
    let first = scraper_of(&pod).scrape("/metrics").await.expect("whole, in its way").body;
    assert_eq!(first, scraper_of(&pod).scrape("/metrics").await.expect("whole, in its way").body);
    let original = corpus::etcd();
    let agreed = first.iter().zip(&original[..]).take_while(|(a, b)| a == b).count();
    assert_eq!(corpus::sample_lines(&first[..agreed]), 1);
    assert!(first.len() > agreed + 60_000);
    assert!(scraper::parse(&first).is_err());
}

#[tokio::test]
async fn a_bad_line_stands_where_it_was_wanted_and_only_there() {
    let pod = plain_pod();
    pod.behave(Behaviour::BadLineAt(700));
    let body = scraper_of(&pod).scrape("/metrics").await.expect("whole, in its way").body;
    assert_eq!(scraper::parse(&body).expect_err("a bad line").number, 700);
    let original = corpus::etcd();
    let (good, served) = (original.split(|&b| b == b'\n'), body.split(|&b| b == b'\n'));
    let different: Vec<usize> =
        good.zip(served).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at + 1).collect();
    assert_eq!(different, [700]);
}

#[tokio::test]
async fn what_never_ends_goes_on_as_long_as_it_is_read_and_no_longer() {
    let pod = plain_pod();
    let scraper = scraper_of(&pod);
    pod.behave(Behaviour::Endless);
    let mut response = scraper.start("/metrics").await.expect("a head");
    let read = response.read_exactly(1 << 20).await.expect("a megabyte at least");
    let last_line = read.iter().rposition(|&b| b == b'\n').expect("lines") + 1;
    assert!(scraper::parse(&read[..last_line]).expect("valid lines").len() > 10_000);
    drop(response);
    pod.wait_for(|stats| stats.open == 0).await;

    pod.behave(Behaviour::EndlessLine);
    let mut response = scraper.start("/metrics").await.expect("a head");
    let read = response.read_exactly(1 << 20).await.expect("a megabyte at least");
    assert_eq!((read.len(), read.contains(&b'\n')), (1 << 20, false));
    drop(response);
    pod.wait_for(|stats| stats.open == 0).await;
}

#[tokio::test]
async fn a_reader_that_stops_stops_the_pod() {
    let ca = Authority::new("root-ca");
    for tls in [PodTls::Plain, PodTls::Tls { issued: ca.server(&["pod"]) }] {
        let pod = pod_with(corpus::repeated(32 << 20), tls.clone());
        let options = match tls {
            PodTls::Plain => ScraperOptions::plain(pod.address()),
            _ => ScraperOptions::new(pod.address(), "pod", &ca.cert_pem()),
        };
        let scraper = Scraper::new(ScraperOptions { timeout: PATIENCE, ..options });
        let mut response = scraper.start("/metrics").await.expect("a head");
        assert_eq!(response.read_exactly(1000).await.expect("some bytes").len(), 1000);
        let mut stopped_at = pod.sent();
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let now = pod.sent();
            if std::mem::replace(&mut stopped_at, now) == now {
                break;
            }
        }
        // What the kernel keeps for the sender, not the body.
        assert!(stopped_at < 8 << 20, "{stopped_at} sent to one who does not read");
        assert!(response.received() < 64 << 10, "{} read for one who does not read", response.received());
        let rest = response.finish().await.expect("the rest");
        assert_eq!(rest.wire_bytes, corpus::repeated(32 << 20).len() as u64);
    }
}

#[tokio::test]
async fn a_huge_header_is_as_long_as_told() {
    let pod = plain_pod();
    pod.behave(Behaviour::HugeHeaders(1 << 20));
    let mut stream = ask(&pod).await;
    let mut read = Vec::new();
    while !read.windows(4).any(|window| window == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut read).await.expect("the connection stands"), 0);
        if read.len() > (1 << 20) + 1000 {
            break;
        }
    }
    let (head, _) = split_head(&read);
    assert!(head.len() > 1 << 20);
    let failed = scraper_of(&pod).scrape("/metrics").await.expect_err("no client takes such a header");
    assert!(matches!(failed, ScrapeError::Http(_)), "{failed}");
}

#[tokio::test]
async fn what_is_not_http_is_no_answer() {
    let pod = plain_pod();
    pod.behave(Behaviour::NotHttp);
    let (answer, end) = read_to_end(ask(&pod).await).await;
    assert!(answer.starts_with(b"SSH-2.0"));
    assert_eq!(end, Ok(()));
    let failed = scraper_of(&pod).scrape("/metrics").await.expect_err("SSH is no HTTP");
    assert!(matches!(failed, ScrapeError::Http(_)), "{failed}");
}

#[tokio::test]
async fn gzip_comes_unasked() {
    let pod = plain_pod();
    pod.behave(Behaviour::Gzip);
    let options = ScraperOptions { gzip: false, ..ScraperOptions::plain(pod.address()) };
    let answer = Scraper::new(options).scrape("/metrics").await.expect("a good answer");
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    assert_eq!(answer.body, corpus::etcd());
    assert!(answer.wire_bytes < answer.body.len() as u64 / 4);
    assert_eq!(pod.requests()[0].header("accept-encoding"), Some("identity"));
}

#[tokio::test]
async fn refusing_closes_the_door_at_once_and_serving_opens_it_at_the_same_address() {
    let pod = plain_pod();
    let scraper = scraper_of(&pod);
    for _ in 0..20 {
        pod.behave(Behaviour::RefuseConnections);
        let failed = scraper.scrape("/metrics").await.expect_err("nobody listens");
        let refused = matches!(&failed, ScrapeError::Connect(error) if error.kind() == ErrorKind::ConnectionRefused);
        assert!(refused, "{failed}");
        pod.behave(Behaviour::Serve);
        assert_eq!(scraper.scrape("/metrics").await.expect("open again").body, corpus::etcd());
    }
}

#[tokio::test]
async fn connections_can_be_ended_and_a_stopped_pod_is_gone() {
    let pod = plain_pod();
    pod.behave(Behaviour::HangAfter(10));
    let hanging = ask(&pod).await;
    pod.wait_for(|stats| stats.sent > 0).await;
    pod.disconnect();
    let _ = read_to_end(hanging).await;
    pod.wait_for(|stats| stats.open == 0).await;

    let address = pod.address();
    let hanging = ask(&pod).await;
    pod.wait_for(|stats| stats.open == 1).await;
    pod.stop().await;
    let _ = read_to_end(hanging).await;
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_pod_can_show_a_certificate_that_nobody_should_trust() {
    let ca = Authority::new("root-ca");
    let pod = plain_pod();
    let bad = [
        (ca.expired_server(&["pod"]), "certificate expired"),
        (ca.future_server(&["pod"]), "certificate not valid yet"),
        (ca.misnamed_server(), "not valid for name"),
        (Authority::new("root-ca").server(&["pod"]), "invalid peer certificate"),
    ];
    for (issued, why) in bad {
        pod.set_tls(&PodTls::Tls { issued });
        let options = ScraperOptions::new(pod.address(), "pod", &ca.cert_pem());
        let failed = Scraper::new(options).scrape("/metrics").await.expect_err("no one is fooled");
        assert!(matches!(&failed, ScrapeError::Tls(text) if text.contains(why)), "{failed}, not {why}");
    }
}
