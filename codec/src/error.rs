//! Whose fault, where, and which rule was broken.

use std::fmt;

use thiserror::Error;

/// A pod ended before its body did: what was wrong and where.
///
/// The codec does not know the pod's name; the caller knows it by the index it gave.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, byte {offset}: {fault}{}", excerpt.behind())]
pub struct PodError {
    /// The pod's place in the list given to [`Merge::new`](crate::Merge::new).
    pub pod: usize,
    /// Number of the bad line in the pod's body, from 1.
    pub line: u64,
    /// Offset in the pod's body of the first byte that could not be accepted.
    pub offset: u64,
    /// The rule that was broken.
    pub fault: Fault,
    /// The beginning of the bad line, safe to log.
    pub excerpt: Excerpt,
}

/// The rules a pod's body can break. `GRAMMAR.md` has the table behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The line starts with neither a metric name, a brace nor `#`.
    #[error("expected a metric name")]
    MetricName,
    /// A sample in braces without a quoted name among them.
    #[error("the sample has no metric name")]
    NoMetricName,
    /// A quoted name beside another name.
    #[error("the sample has two metric names")]
    TwoMetricNames,
    /// A quoted name that is empty or holds a NUL.
    #[error("a quoted name must not be empty or contain NUL")]
    QuotedName,
    /// Expected a label name or `}`.
    #[error("expected a label name")]
    LabelName,
    /// `__name__` as a label.
    #[error("the label name __name__ is reserved")]
    ReservedLabel,
    /// The same label name twice in one sample.
    #[error("the label name stands twice in one sample")]
    DuplicateLabel,
    /// No `=` after a label name.
    #[error("expected '=' after the label name")]
    LabelEquals,
    /// No quoted string after `=`.
    #[error("expected a quoted label value")]
    LabelValue,
    /// A quoted string that the line ends in.
    #[error("quoted string without an end")]
    UnterminatedString,
    /// Bytes that are not UTF-8 in a label value, a quoted name or a HELP text.
    #[error("invalid UTF-8")]
    Utf8,
    /// The sample's value is missing or is no float that Go's `ParseFloat` accepts.
    #[error("expected a float as the sample's value")]
    Value,
    /// The value overflows a float64.
    #[error("the value is out of range")]
    ValueRange,
    /// The timestamp is no whole number of milliseconds.
    #[error("expected a whole number of milliseconds as timestamp")]
    Timestamp,
    /// Something stands behind the timestamp.
    #[error("unexpected text behind the timestamp")]
    TrailingText,
    /// HELP or TYPE without a valid metric name.
    #[error("expected a metric name after HELP or TYPE")]
    MetadataName,
    /// A TYPE line whose keyword is none of the five.
    #[error("the type is none of counter, gauge, histogram, summary, untyped")]
    TypeKeyword,
    /// `le` of a histogram or `quantile` of a summary is no float.
    #[error("the bound of a histogram bucket or summary quantile is no float")]
    Bound,
    /// A limit was exceeded.
    #[error("over the limit of {value} {limit}")]
    Limit {
        /// Which one.
        limit: Limit,
        /// Its value.
        value: u64,
    },
    /// OpenMetrics text that Prometheus' own parser would refuse.
    #[error("invalid OpenMetrics text: {0}")]
    OpenMetrics(OpenMetricsFault),
    /// The caller gave the pod up: connection lost, deadline, body cut short.
    #[error("the pod's body ended early")]
    Abandoned,
}

impl Fault {
    /// A short constant word for a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Limit { limit: Limit::LineBytes, .. } => "line_limit",
            Self::Limit { limit: Limit::BodyBytes, .. } => "body_limit",
            Self::Limit { limit: Limit::Samples, .. } => "sample_limit",
            Self::Limit { limit: Limit::Labels, .. } => "label_limit",
            Self::Limit { limit: Limit::NameBytes, .. } => "name_limit",
            Self::OpenMetrics(_) => "openmetrics",
            Self::Abandoned => "abandoned",
            _ => "syntax",
        }
    }
}

/// What the limits of [`Limits`](crate::Limits) count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::line_bytes`](crate::Limits::line_bytes).
    LineBytes,
    /// [`Limits::body_bytes`](crate::Limits::body_bytes).
    BodyBytes,
    /// [`Limits::samples`](crate::Limits::samples).
    Samples,
    /// [`Limits::LABELS`](crate::Limits::LABELS).
    Labels,
    /// [`Limits::NAME_BYTES`](crate::Limits::NAME_BYTES).
    NameBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineBytes => "bytes in a line",
            Self::BodyBytes => "bytes in a body",
            Self::Samples => "samples in a body",
            Self::Labels => "labels in a sample",
            Self::NameBytes => "bytes in a metric's name",
        })
    }
}

/// The rules that only OpenMetrics text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenMetricsFault {
    /// The body ended without `# EOF`: it was cut short.
    #[error("no # EOF at the end")]
    MissingEof,
    /// A line behind `# EOF`.
    #[error("text behind # EOF")]
    AfterEof,
    /// A comment or an empty line, neither of which OpenMetrics has.
    #[error("comments and empty lines are not allowed")]
    Comment,
    /// Blanks where OpenMetrics has none, or none where it has one.
    #[error("tokens must be separated by single spaces")]
    Spacing,
    /// A TYPE keyword OpenMetrics does not know.
    #[error("unknown type")]
    TypeKeyword,
    /// A unit that is not the end of its metric's name.
    #[error("the unit is not a suffix of the metric's name")]
    Unit,
    /// A timestamp that is no float or cannot be written as milliseconds.
    #[error("the timestamp is no number of seconds that text 0.0.4 can carry")]
    Timestamp,
    /// Something other than an exemplar behind the value.
    #[error("malformed exemplar")]
    Exemplar,
}

/// The beginning of a line as printable ASCII, for logs: control characters, quotes and whatever is
/// not ASCII are escaped, so a pod can neither forge a log line nor confuse a terminal.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Excerpt(Box<str>);

impl Excerpt {
    /// Enough to recognise a metric's name and its first labels; a log line stays a line.
    const BYTES: usize = 96;

    /// The beginning of a line of which at most one byte more than `limit` is looked at.
    pub(crate) fn of(line: &[u8], limit: u32) -> Self {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.get(..=limit as usize).unwrap_or(line);
        let shown = line.get(..Self::BYTES).unwrap_or(line);
        let mut text = shown.escape_ascii().to_string();
        if shown.len() < line.len() {
            text.push_str("...");
        }
        Self(text.into())
    }

    /// The text, possibly empty.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn behind(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!(": \"{}\"", self.0) }
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A fault and its column, before it is known which line of which pod it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineFault {
    pub(crate) fault: Fault,
    /// Offset from the beginning of the line.
    pub(crate) column: usize,
}

impl Fault {
    pub(crate) fn at(self, column: usize) -> LineFault {
        LineFault { fault: self, column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_one_printable_line() {
        let excerpt = Excerpt::of(b"up{a=\"\x1b[31m\xff\r\"} 1\n", u32::MAX);
        assert_eq!(excerpt.as_str(), r#"up{a=\"\x1b[31m\xff\r\"} 1"#);
        let long = Excerpt::of(&[b'x'; 500], u32::MAX);
        assert_eq!(long.as_str().len(), Excerpt::BYTES + 3);
    }

    #[test]
    fn an_error_says_where_and_which_limit() {
        let error = PodError {
            pod: 0,
            line: 7,
            offset: 1234,
            fault: Fault::Limit { limit: Limit::LineBytes, value: 64 },
            excerpt: Excerpt::of(b"foo{\n", u32::MAX),
        };
        assert_eq!(error.to_string(), "line 7, byte 1234: over the limit of 64 bytes in a line: \"foo{\"");
    }
}
