//! gzip towards a scraper that asks for it: 8 MB of metrics become 0.3 MB, which have to cross a cloud's boundary.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Metrics are so repetitive that the quickest level takes a third of the default's time and gives a third more bytes.
const LEVEL: Compression = Compression::new(1);

/// Compressed bytes are handed on when they fill a TLS record.
const FRAME_BYTES: usize = 16 * 1024;

/// A gzip stream in the making.
pub(crate) struct Gzip {
    /// Writing to a `Vec` cannot fail.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    pub(crate) fn new() -> Self {
        Self { encoder: Some(GzEncoder::new(Vec::with_capacity(FRAME_BYTES), LEVEL)) }
    }

    /// Takes a frame; gives one, if there is enough for one.
    pub(crate) fn push(&mut self, frame: &[u8]) -> Option<Bytes> {
        let encoder = self.encoder.as_mut()?;
        // Cannot fail: see the field.
        let _ = encoder.write_all(frame);
        let ready = encoder.get_mut();
        (ready.len() >= FRAME_BYTES).then(|| std::mem::replace(ready, Vec::with_capacity(FRAME_BYTES)).into())
    }

    /// The rest of the stream, once.
    pub(crate) fn finish(&mut self) -> Option<Bytes> {
        let rest = self.encoder.take()?.finish();
        rest.ok().map(Bytes::from)
    }
}

/// Whether `Accept-Encoding` has gzip (or anything) with a quality above zero.
pub(crate) fn is_accepted(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut anything = false;
    for offer in offers.flat_map(|value| value.split(',')) {
        let mut parts = offer.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let wanted = quality.is_none_or(|quality| quality.parse::<f32>().is_ok_and(|quality| quality > 0.0));
        match coding.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => return wanted,
            "*" => anything = wanted,
            _ => {}
        }
    }
    anything
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn gzip_is_used_when_the_scraper_accepts_it() {
        for (accept, expected) in [
            (None, false),
            (Some("gzip"), true),
            (Some("identity"), false),
            (Some("gzip;q=0"), false),
            (Some("gzip; q=0.5, identity"), true),
            (Some("deflate, GZIP"), true),
            (Some("*"), true),
            (Some("*;q=0"), false),
            (Some("*, gzip;q=0"), false),
            (Some("br;q=1.0, gzip;q=nonsense"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT_ENCODING, accept.parse().unwrap());
            }
            assert_eq!(is_accepted(&headers), expected, "{accept:?}");
        }
    }

    #[test]
    fn frames_of_any_number_come_back_as_they_were() {
        for count in [0, 1, 3, 300] {
            let frame = |number: usize| format!("metric_{number} {}\n", number * 7919).repeat(100);
            let mut gzip = Gzip::new();
            let mut sent = Vec::new();
            for number in 0..count {
                sent.extend(gzip.push(frame(number).as_bytes()).into_iter().flatten());
            }
            sent.extend(gzip.finish().into_iter().flatten());
            assert!(gzip.finish().is_none());
            let mut text = String::new();
            flate2::read::GzDecoder::new(&sent[..]).read_to_string(&mut text).unwrap();
            assert_eq!(text, (0..count).map(frame).collect::<String>());
        }
    }
}
