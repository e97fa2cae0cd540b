//! Bodies to scrape: captures of real components, and what is made of them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;

/// A capture in `codec/tests/corpus`, by its name without endings.
pub fn capture(name: &str) -> io::Result<Bytes> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../codec/tests/corpus");
    let path = corpus.join(format!("{name}.prom.gz"));
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let mut body = Vec::new();
    flate2::read::GzDecoder::new(File::open(&path).map_err(named)?).read_to_end(&mut body).map_err(named)?;
    Ok(body.into())
}

/// The same samples with the labels of each in an order of its own, so that hardly a line has the shape
/// of the one before it: the worst that honest exporters could do to whoever relies on repetition.
pub fn never_repeating(body: &[u8]) -> Bytes {
    let mut random = Random(0x5eed);
    let mut out = Vec::with_capacity(body.len());
    for line in body.split_inclusive(|&b| b == b'\n') {
        let Some((series, rest)) = split_labels(line) else {
            out.extend_from_slice(line);
            continue;
        };
        let (name, labels) = series;
        let mut labels = split_pairs(labels);
        for place in (1..labels.len()).rev() {
            labels.swap(place, random.below(place + 1));
        }
        out.extend_from_slice(name);
        out.push(b'{');
        out.extend_from_slice(&labels.join(&b','));
        out.extend_from_slice(rest);
    }
    out.into()
}

/// A body as another replica would have it: other values, and now and then a series that this one lacks.
pub fn replica(body: &[u8], number: usize) -> Bytes {
    let mut random = Random(0xdead_beef + number as u64);
    let mut out = Vec::with_capacity(body.len());
    for line in body.split_inclusive(|&b| b == b'\n') {
        if line.starts_with(b"#") {
            out.extend_from_slice(line);
        } else if random.below(50) != number {
            let value = line.iter().rposition(|&b| b == b' ').unwrap_or(0);
            out.extend_from_slice(&line[..=value]);
            out.extend_from_slice(random.below(100_000).to_string().as_bytes());
            out.push(b'\n');
        }
    }
    out.into()
}

/// `name` and the text in the braces; and the rest from the closing brace on.
type Split<'a> = ((&'a [u8], &'a [u8]), &'a [u8]);

fn split_labels(line: &[u8]) -> Option<Split<'_>> {
    if line.starts_with(b"#") {
        return None;
    }
    let open = line.iter().position(|&b| b == b'{')?;
    let close = line.iter().rposition(|&b| b == b'}')?;
    Some(((&line[..open], &line[open + 1..close]), &line[close..]))
}

fn split_pairs(labels: &[u8]) -> Vec<&[u8]> {
    let mut pairs = Vec::new();
    let (mut start, mut quoted) = (0, false);
    for (at, &byte) in labels.iter().enumerate() {
        match byte {
            b'"' if at == 0 || labels[at - 1] != b'\\' => quoted = !quoted,
            b',' if !quoted => {
                pairs.push(&labels[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pairs.push(&labels[start..]);
    pairs
}

/// The same numbers every time, on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as usize
    }
}
