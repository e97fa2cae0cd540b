//! A small, strict reader of the text format 0.0.4, independent of the one that is tested with it.

use std::collections::{BTreeMap, BTreeSet};

/// One sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The metric's name.
    pub name: String,
    /// Its labels, unescaped.
    pub labels: BTreeMap<String, String>,
    /// The value as it was written.
    pub value: String,
    /// The time in milliseconds, if one was written.
    pub timestamp: Option<i64>,
}

impl Sample {
    /// The value of a label; empty, as Prometheus has it, if there is none.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// A line that is not of the format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {number} ({what}): {line}")]
pub struct BadLine {
    /// Counted from 1.
    pub number: usize,
    /// What is wrong with it.
    pub what: &'static str,
    /// The line, or the beginning of a long one.
    pub line: String,
}

/// All samples of a body in their order.
///
/// Strict: the last line must be ended, a name may have only the characters of 0.0.4, a label must not stand twice in
/// a sample, a type must be known, and all of a family must stand together, with its TYPE first.
pub fn parse(body: &[u8]) -> Result<Vec<Sample>, BadLine> {
    let mut samples: Vec<Sample> = Vec::new();
    let mut families = Families::default();
    for (place, line) in body.split_inclusive(|&b| b == b'\n').enumerate() {
        let bad = |what| {
            let shown = &line[..line.len().min(500)];
            BadLine { number: place + 1, what, line: String::from_utf8_lossy(shown).trim_end().to_owned() }
        };
        let line = std::str::from_utf8(line).map_err(|_| bad("not UTF-8"))?;
        let line = line.strip_suffix('\n').ok_or_else(|| bad("no line feed at the end"))?;
        if let Some(comment) = line.strip_prefix("# TYPE ") {
            let (name, kind) = comment.split_once(' ').ok_or_else(|| bad("a TYPE without a type"))?;
            if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind) {
                return Err(bad("an unknown type"));
            }
            families.begin(name, kind).map_err(bad)?;
        } else if !line.is_empty() && !line.starts_with('#') {
            let sample = sample(line).map_err(bad)?;
            families.meet(&sample.name).map_err(bad)?;
            samples.push(sample);
        }
    }
    Ok(samples)
}

/// The families met so far.
#[derive(Default)]
struct Families {
    all: BTreeSet<String>,
    current: String,
    /// Whether names with the suffixes of histograms and summaries belong to the current one.
    has_parts: bool,
}

impl Families {
    fn begin(&mut self, name: &str, kind: &str) -> Result<(), &'static str> {
        if !self.all.insert(name.to_owned()) {
            return Err("a TYPE whose family stood before");
        }
        name.clone_into(&mut self.current);
        self.has_parts = matches!(kind, "histogram" | "summary");
        Ok(())
    }

    fn meet(&mut self, name: &str) -> Result<(), &'static str> {
        let rest = name.strip_prefix(self.current.as_str());
        let is_part = |rest| self.has_parts && matches!(rest, "_bucket" | "_count" | "_sum");
        if rest.is_some_and(|rest| rest.is_empty() || is_part(rest)) {
            return Ok(());
        }
        self.begin(name, "untyped").map_err(|_| "a sample whose family stood before")
    }
}

fn sample(line: &str) -> Result<Sample, &'static str> {
    let (name, rest) = take_name(line, true).ok_or("no name at its start")?;
    let mut labels = BTreeMap::new();
    let rest = match rest.strip_prefix('{') {
        Some(inside) => take_labels(inside, &mut labels)?,
        None => rest,
    };
    let mut words = rest.strip_prefix(' ').ok_or("no space before the value")?.split(' ');
    let value = words.next().unwrap_or_default();
    let is_number = matches!(value, "NaN" | "+Inf" | "-Inf" | "Inf") || is_finite_number(value);
    if !is_number {
        return Err("a value that is no number");
    }
    let timestamp = words.next().map(str::parse).transpose().map_err(|_| "a timestamp that is no integer")?;
    if words.next().is_some() {
        return Err("something behind the timestamp");
    }
    Ok(Sample { name: name.to_owned(), labels, value: value.to_owned(), timestamp })
}

/// Rust's own parser reads "inf" and "nan" in any case as well, which is not for a metric to say.
fn is_finite_number(value: &str) -> bool {
    value.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) && value.parse::<f64>().is_ok()
}

/// Reads `name="value",…}`, and gives what is behind the brace.
fn take_labels<'a>(mut rest: &'a str, labels: &mut BTreeMap<String, String>) -> Result<&'a str, &'static str> {
    loop {
        if let Some(behind) = rest.strip_prefix('}') {
            return Ok(behind);
        }
        let (name, behind) = take_name(rest, false).ok_or("a label without a name")?;
        let quoted = behind.strip_prefix("=\"").ok_or("a label without a quoted value")?;
        let (value, behind) = take_quoted(quoted)?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err("a label that stands twice");
        }
        rest = match behind.strip_prefix(',') {
            Some(next) => next,
            None if behind.starts_with('}') => behind,
            None => return Err("neither comma nor brace behind a label"),
        };
    }
}

/// Reads up to the closing quote, and gives the text unescaped and what is behind the quote.
fn take_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, same @ ('"' | '\\'))) => same,
                _ => return Err("an unknown escape"),
            }),
            other => value.push(other),
        }
    }
    Err("a quote without an end")
}

fn take_name(text: &str, colons: bool) -> Option<(&str, &str)> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || (colons && b == b':');
    let end = text.bytes().position(|b| !fits(b)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (!name.is_empty() && !name.as_bytes()[0].is_ascii_digit()).then_some((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels_unescaped() {
        let body = b"# TYPE a counter\na{b=\"x\\\"y\\\\z\\n\",c=\"\",} 1e+06 1700000000000\n\nup 0\nnan:x NaN\n";
        let samples = parse(body).expect("a valid body");
        assert_eq!(samples.len(), 3);
        assert_eq!(samples[0].label("b"), "x\"y\\z\n");
        assert_eq!((samples[0].value.as_str(), samples[0].timestamp), ("1e+06", Some(1_700_000_000_000)));
        assert_eq!((samples[1].name.as_str(), samples[1].label("b"), samples[1].timestamp), ("up", "", None));
        assert_eq!(samples[2].value, "NaN");
    }

    #[test]
    fn what_is_not_of_the_format_is_named_with_its_line() {
        let cases: [(&[u8], usize, &str); 16] = [
            (b"a 1\nb", 2, "no line feed at the end"),
            (b"a\n", 1, "no space before the value"),
            (b"a one\n", 1, "a value that is no number"),
            (b"a inf\n", 1, "a value that is no number"),
            (b"a 1 2 3\n", 1, "something behind the timestamp"),
            (b"a 1 2.5\n", 1, "a timestamp that is no integer"),
            (b"1a 1\n", 1, "no name at its start"),
            (b"a{b=\"1\" 1\n", 1, "neither comma nor brace behind a label"),
            (b"a{b=\"1\",b=\"2\"} 1\n", 1, "a label that stands twice"),
            (b"a{b=\"1} 1\n", 1, "a quote without an end"),
            (b"a{b=\"\\t\"} 1\n", 1, "an unknown escape"),
            (b"a{\"b\"} 1\n", 1, "a label without a name"),
            (b"# TYPE a gauge\n# TYPE a gauge\n", 2, "a TYPE whose family stood before"),
            (b"a 1\n# TYPE a gauge\n", 2, "a TYPE whose family stood before"),
            (b"# TYPE a summary\na_sum 1\nb 1\na_count 1\na 1\n", 5, "a sample whose family stood before"),
            (b"a \xff\n", 1, "not UTF-8"),
        ];
        for (body, number, what) in cases {
            let bad = parse(body).expect_err("a bad body");
            assert_eq!((bad.number, bad.what), (number, what), "{}", String::from_utf8_lossy(body));
        }
    }
}
