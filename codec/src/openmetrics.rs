//! OpenMetrics text in, lines of text 0.0.4 out.
//!
//! We never ask for OpenMetrics, but a pod may answer with it. Each line is turned into the line text 0.0.4 has
//! for it, and goes the way of all lines from there. Not fast, and need not be.

use crate::error::{Fault, LineFault, OpenMetricsFault};
use crate::family::{DeclaredType, Metadata, MetricType};
use crate::metadata::read_name;
use crate::sample::{Sample, Token, check_utf8};
use crate::{number, text};

/// Translates one pod's body.
#[derive(Debug, Default)]
pub(crate) struct Translator {
    /// `# EOF` was read: nothing may follow.
    ended: bool,
    sample: Sample,
}

/// What a line of OpenMetrics says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Translated {
    /// A sample; the line for it was written.
    Sample,
    /// Nothing that text 0.0.4 can say.
    Nothing,
    /// The declared family changed.
    Declared,
}

impl Translator {
    /// Translates `line`, which ends with its newline: metadata into `family`, a sample onto `text`.
    pub(crate) fn translate(
        &mut self,
        line: &[u8],
        family: &mut Metadata,
        text: &mut Vec<u8>,
    ) -> Result<Translated, LineFault> {
        if self.ended {
            return Err(Fault::OpenMetrics(OpenMetricsFault::AfterEof).at(0));
        }
        match line {
            b"# EOF\n" => {
                self.ended = true;
                Ok(Translated::Nothing)
            }
            [b'#', ..] => read_metadata(line, family),
            _ => self.read_sample(line, text).map(|()| Translated::Sample),
        }
    }

    /// Whether the body may end here.
    pub(crate) fn check_end(&self) -> Result<(), Fault> {
        if self.ended { Ok(()) } else { Err(Fault::OpenMetrics(OpenMetricsFault::MissingEof)) }
    }

    fn read_sample(&mut self, line: &[u8], text: &mut Vec<u8>) -> Result<(), LineFault> {
        match line[0] {
            b'\n' => return Err(Fault::OpenMetrics(OpenMetricsFault::Comment).at(0)),
            b' ' | b'\t' => return Err(Fault::OpenMetrics(OpenMetricsFault::Spacing).at(0)),
            _ => {}
        }
        let at = self.sample.read_series(line)?;
        if let Some(blank) = blank_outside_strings(&line[..at]) {
            return Err(Fault::OpenMetrics(OpenMetricsFault::Spacing).at(blank));
        }
        let (value, at) = read_token(line, at)?;
        number::check_float(value).map_err(|fault| fault.at(at - value.len()))?;
        text.extend_from_slice(&line[..at - value.len()]);
        text.extend_from_slice(value);
        let mut at = at;
        if line[at] == b' ' && line.get(at + 1) != Some(&b'#') {
            let (seconds, end) = read_token(line, at)?;
            let milliseconds =
                to_milliseconds(seconds).ok_or(Fault::OpenMetrics(OpenMetricsFault::Timestamp).at(at + 1))?;
            text.extend_from_slice(format!(" {milliseconds}").as_bytes());
            at = end;
        }
        text.push(b'\n');
        self.read_exemplar(line, at)
    }

    /// Checks the exemplar that may stand behind value and timestamp; it is not passed on.
    fn read_exemplar(&mut self, line: &[u8], at: usize) -> Result<(), LineFault> {
        if line[at] == b'\n' {
            return Ok(());
        }
        let malformed = |at: usize| Fault::OpenMetrics(OpenMetricsFault::Exemplar).at(at);
        if !line[at..].starts_with(b" # {") {
            return Err(malformed(at));
        }
        // A name is taken already, so that a quoted string without `=` is refused.
        let mut name = Some(Token::default());
        self.sample.labels.clear();
        let (value, mut end) = read_token(line, self.sample.read_labels(line, at + 4, &mut name)?)?;
        number::check_float(value).map_err(|fault| fault.at(end - value.len()))?;
        if line[end] == b' ' {
            let (seconds, behind) = read_token(line, end)?;
            number::check_float(seconds).map_err(|_| malformed(end))?;
            end = behind;
        }
        if line[end] == b'\n' { Ok(()) } else { Err(malformed(end)) }
    }
}

/// The token behind the single space at `at`, and the offset behind it.
fn read_token(line: &[u8], at: usize) -> Result<(&[u8], usize), LineFault> {
    let start = at + 1;
    let end = line[at..].iter().skip(1).position(|b| matches!(b, b' ' | b'\n')).map_or(start, |len| start + len);
    if line[at] != b' ' || end == start {
        return Err(Fault::OpenMetrics(OpenMetricsFault::Spacing).at(at));
    }
    Ok((&line[start..end], end))
}

fn read_metadata(line: &[u8], family: &mut Metadata) -> Result<Translated, LineFault> {
    let statement = line.get(2..7).unwrap_or_default();
    if !line.starts_with(b"# ") || !matches!(statement, b"HELP " | b"TYPE " | b"UNIT ") {
        return Err(Fault::OpenMetrics(OpenMetricsFault::Comment).at(0));
    }
    let (name, end) = read_name(line, 7)?;
    if line[end] != b' ' {
        return Err(Fault::OpenMetrics(OpenMetricsFault::Spacing).at(end));
    }
    let rest = &line[end + 1..line.len() - 1];
    let changed = match statement {
        b"HELP " => {
            check_utf8(rest).map_err(|fault| LineFault { column: end + 1 + fault.column, ..fault })?;
            // Escaped quotes are OpenMetrics' own; to text 0.0.4 they are two characters.
            family.declare_help(&name, &text::unescape_quotes(rest))
        }
        b"TYPE " => {
            let kind =
                declared_type(&name, rest).ok_or(Fault::OpenMetrics(OpenMetricsFault::TypeKeyword).at(end + 1))?;
            family.declare_type(&name, kind)
        }
        _ => {
            let stem = name.strip_suffix(rest);
            if !rest.is_empty() && !stem.is_some_and(|stem| stem.ends_with(b"_")) {
                return Err(Fault::OpenMetrics(OpenMetricsFault::Unit).at(end + 1));
            }
            false
        }
    };
    Ok(if changed { Translated::Declared } else { Translated::Nothing })
}

/// The nearest type of text 0.0.4. A counter's samples end in `_total` and text 0.0.4 calls the family so; an info's
/// in `_info`. A gauge histogram is no histogram to a text parser, so its buckets stay as they are.
fn declared_type(name: &[u8], keyword: &[u8]) -> Option<DeclaredType> {
    let suffix = |suffix: &'static [u8]| if name.ends_with(suffix) { b"" } else { suffix };
    let created: &'static [&'static [u8]] = &[b"_created"];
    let declared = |kind, name_suffix, extra_suffixes| DeclaredType { kind, name_suffix, extra_suffixes };
    Some(match keyword {
        b"counter" => declared(MetricType::Counter, suffix(b"_total"), created),
        b"gauge" | b"stateset" => MetricType::Gauge.into(),
        b"info" => declared(MetricType::Gauge, suffix(b"_info"), &[]),
        b"histogram" => declared(MetricType::Histogram, b"", created),
        b"summary" => declared(MetricType::Summary, b"", created),
        b"gaugehistogram" => declared(MetricType::Untyped, b"", &[b"_bucket", b"_gcount", b"_gsum"]),
        b"unknown" => MetricType::Untyped.into(),
        _ => return None,
    })
}

/// Seconds to whole milliseconds as Prometheus does it. Text 0.0.4 has no sign, so none before 1970.
fn to_milliseconds(seconds: &[u8]) -> Option<u64> {
    number::check_float(seconds).ok()?;
    let seconds: f64 = std::str::from_utf8(seconds).ok()?.parse().ok()?;
    let milliseconds = (seconds * 1000.0).trunc();
    // Below the largest int64 by more than a float's distance there.
    let in_range = (0.0..9.2e18).contains(&milliseconds);
    #[expect(clippy::cast_sign_loss, reason = "the range begins at 0")]
    in_range.then_some(milliseconds as u64)
}

fn blank_outside_strings(series: &[u8]) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    series.iter().position(|&byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b' ' | b'\t' => return !quoted,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(line: &str) -> Result<String, Fault> {
        let mut text = Vec::new();
        let mut translator = Translator::default();
        translator
            .translate(format!("{line}\n").as_bytes(), &mut Metadata::default(), &mut text)
            .map_err(|fault| fault.fault)?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn timestamps_become_milliseconds_and_exemplars_go() {
        assert_eq!(sample("a_total 1 1520879607.789").unwrap(), "a_total 1 1520879607789\n");
        assert_eq!(sample("a_total 1 1e3").unwrap(), "a_total 1 1000000\n");
        assert_eq!(
            sample(r#"a_bucket{le="1"} 2 # {trace_id="} # {"} 0.5 1520879607"#).unwrap(),
            "a_bucket{le=\"1\"} 2\n"
        );
        assert_eq!(sample(r#"a{b="c"} 2 3.5 # {} 1"#).unwrap(), "a{b=\"c\"} 2 3500\n");
    }

    #[test]
    fn what_prometheus_own_parser_refuses_is_refused() {
        use OpenMetricsFault::{Comment, Exemplar, Spacing, Timestamp};
        for (line, fault) in [
            ("", Comment),
            ("# a comment", Comment),
            (" a 1", Spacing),
            ("a  1", Spacing),
            ("a\t1", Spacing),
            (r#"a{ b="c"} 1"#, Spacing),
            ("a 1 ", Spacing),
            ("a 1 x", Timestamp),
            ("a 1 -5", Timestamp),
            ("a 1 NaN", Timestamp),
            ("a 1 1e300", Timestamp),
            ("a 1 # x", Exemplar),
            (r#"a 1 # {b="c"} 1 x"#, Exemplar),
            (r#"a 1 # {b="c"} 1 1 1"#, Exemplar),
            ("a 1 2 3", Exemplar),
        ] {
            assert_eq!(sample(line), Err(Fault::OpenMetrics(fault)), "{line:?}");
        }
        assert_eq!(sample(r#"a 1 # {"b"} 1"#), Err(Fault::TwoMetricNames));
        assert_eq!(sample("a 0x1"), Err(Fault::Value));
    }

    #[test]
    fn families_get_the_names_of_text() {
        let family = |lines: &[&str]| {
            let mut family = Metadata::default();
            for line in lines {
                let line = format!("{line}\n");
                Translator::default().translate(line.as_bytes(), &mut family, &mut Vec::new()).unwrap();
            }
            family
        };
        let counter = family(&["# HELP a text", "# TYPE a counter", "# UNIT a "]);
        assert_eq!((counter.name(), counter.help()), (&b"a_total"[..], &b"text"[..]));
        assert!(counter.has_member(b"a_total") && counter.has_member(b"a_created") && !counter.has_member(b"a"));
        assert_eq!(family(&["# TYPE a_total counter"]).name(), b"a_total");
        assert_eq!(family(&["# TYPE a info"]).name(), b"a_info");
        let gauges = family(&["# TYPE a gaugehistogram"]);
        assert!(gauges.has_member(b"a_bucket") && gauges.kind() == Some(MetricType::Untyped));
    }

    #[test]
    fn a_unit_ends_its_metrics_name_and_eof_ends_the_body() {
        let mut family = Metadata::default();
        let mut translate = |translator: &mut Translator, line: &str| {
            translator.translate(line.as_bytes(), &mut family, &mut Vec::new()).map_err(|fault| fault.fault)
        };
        let mut translator = Translator::default();
        assert!(translate(&mut translator, "# UNIT a_seconds seconds\n").is_ok());
        let unit = Err(Fault::OpenMetrics(OpenMetricsFault::Unit));
        assert_eq!(translate(&mut translator, "# UNIT seconds seconds\n"), unit);
        assert_eq!(translator.check_end(), Err(Fault::OpenMetrics(OpenMetricsFault::MissingEof)));
        assert_eq!(translate(&mut translator, "# EOF\n"), Ok(Translated::Nothing));
        assert_eq!(translator.check_end(), Ok(()));
        let after = Err(Fault::OpenMetrics(OpenMetricsFault::AfterEof));
        assert_eq!(translate(&mut translator, "a 1\n"), after);
    }
}
