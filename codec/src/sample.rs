//! One sample line, the whole grammar: every spelling that `GRAMMAR.md` accepts or repairs.
//!
//! This is the codec's judge. The quick way (`canonical`) only recognises lines that this parser
//! would accept unchanged, and hands everything else over to it.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::error::{Fault, Limit, LineFault};
use crate::limits::Limits;
use crate::{number, scan, text};

/// The tokens of a sample, as ranges of its line.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    pub(crate) name: Token,
    pub(crate) labels: SmallVec<[Label; 16]>,
    pub(crate) value: Span,
    pub(crate) timestamp: Option<Span>,
}

/// A label of a sample; name and value without their quotes, escapes as they came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Label {
    pub(crate) name: Token,
    pub(crate) value: Span,
}

/// A name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Token {
    pub(crate) span: Span,
    /// Outside the legacy character set: must be written in quotes, or not at all.
    pub(crate) quoted: bool,
}

/// A range of the line. A line is at most 4 GiB long by the type of its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    #[inline]
    pub(crate) fn of(self, line: &[u8]) -> &[u8] {
        &line[self.start as usize..self.end as usize]
    }

    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }
}

impl Sample {
    /// Reads `line`, which ends with its newline and begins at a token.
    pub(crate) fn read(&mut self, line: &[u8]) -> Result<(), LineFault> {
        self.read_series(line).and_then(|at| self.read_point(line, at))
    }

    /// Reads name and labels; the offset behind them.
    pub(crate) fn read_series(&mut self, line: &[u8]) -> Result<usize, LineFault> {
        self.labels.clear();
        let mut name = None;
        let mut end = 0;
        if line[0] != b'{' {
            end = scan::metric_name_end(line, 0);
            if end == 0 || line[0].is_ascii_digit() {
                return Err(Fault::MetricName.at(0));
            }
            name = Some(Token { span: Span::new(0, end), quoted: false });
        }
        let brace = skip_blanks(line, end);
        if line[brace] == b'{' {
            end = self.read_labels(line, brace + 1, &mut name)?;
        }
        self.name = name.ok_or(Fault::NoMetricName.at(0))?;
        check_name_length(&text::unescape(self.name.span.of(line)), self.name.span.start())?;
        check_unique(line, &self.labels)?;
        Ok(end)
    }

    /// Reads what stands in the braces; the offset behind the closing one.
    pub(crate) fn read_labels(
        &mut self,
        line: &[u8],
        mut at: usize,
        metric: &mut Option<Token>,
    ) -> Result<usize, LineFault> {
        loop {
            at = skip_blanks(line, at);
            let start = at;
            let name = match line[at] {
                b'}' => return Ok(at + 1),
                b'"' => {
                    let name = read_quoted_name(line, at)?;
                    at = name.span.end as usize + 1;
                    name
                }
                b'0'..=b'9' => return Err(Fault::LabelName.at(at)),
                _ => {
                    at = scan::label_name_end(line, at);
                    if at == start {
                        return Err(Fault::LabelName.at(at));
                    }
                    Token { span: Span::new(start, at), quoted: false }
                }
            };
            at = skip_blanks(line, at);
            if line[start] == b'"' && matches!(line[at], b',' | b'}') {
                if metric.replace(name).is_some() {
                    return Err(Fault::TwoMetricNames.at(start));
                }
                at += usize::from(line[at] == b',');
                continue;
            }
            if line[at] != b'=' {
                return Err(Fault::LabelEquals.at(at));
            }
            if name.span.of(line) == b"__name__" {
                return Err(Fault::ReservedLabel.at(start));
            }
            // A colon is part of a metric's legacy name, not of a label's.
            let name = Token { quoted: name.quoted || name.span.of(line).contains(&b':'), ..name };
            at = skip_blanks(line, at + 1);
            if line[at] != b'"' {
                return Err(Fault::LabelValue.at(at));
            }
            let value = read_string(line, at)?;
            if self.labels.len() == Limits::LABELS {
                let fault = Fault::Limit { limit: Limit::Labels, value: Limits::LABELS as u64 };
                return Err(fault.at(start));
            }
            self.labels.push(Label { name, value });
            at = skip_blanks(line, value.end as usize + 1);
            at += usize::from(line[at] == b',');
        }
    }

    /// Reads value and timestamp, which start at `at`.
    fn read_point(&mut self, line: &[u8], at: usize) -> Result<(), LineFault> {
        let at = skip_blanks(line, at);
        let end = token_end(line, at);
        number::check_float(&line[at..end]).map_err(|fault| fault.at(at))?;
        self.value = Span::new(at, end);
        self.timestamp = None;
        let at = skip_blanks(line, end);
        if line[at] == b'\n' {
            return Ok(());
        }
        let end = token_end(line, at);
        number::check_timestamp(&line[at..end]).map_err(|fault| fault.at(at))?;
        self.timestamp = Some(Span::new(at, end));
        let at = skip_blanks(line, end);
        if line[at] == b'\n' { Ok(()) } else { Err(Fault::TrailingText.at(at)) }
    }
}

/// The first byte from `at` on that is neither space nor tab; the line's newline at the latest.
#[inline]
pub(crate) fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while matches!(line[at], b' ' | b'\t') {
        at += 1;
    }
    at
}

pub(crate) fn token_end(line: &[u8], mut at: usize) -> usize {
    while !matches!(line[at], b' ' | b'\t' | b'\n') {
        at += 1;
    }
    at
}

/// The inside of the quoted string that opens at `at`.
pub(crate) fn read_string(line: &[u8], at: usize) -> Result<Span, LineFault> {
    let start = at + 1;
    let mut stop = start;
    let mut ascii = true;
    loop {
        stop = scan::string_stop(line, stop);
        match line[stop] {
            b'"' => break,
            b'\\' if line[stop + 1] != b'\n' => {
                ascii &= line[stop + 1].is_ascii();
                stop += 2;
            }
            b'\\' | b'\n' => return Err(Fault::UnterminatedString.at(at)),
            _ => {
                ascii = false;
                stop += 1;
            }
        }
    }
    if !ascii {
        check_utf8(&line[start..stop]).map_err(|fault| LineFault { column: start + fault.column, ..fault })?;
    }
    Ok(Span::new(start, stop))
}

/// The metric name in quotes that opens at `at`.
pub(crate) fn read_quoted_name(line: &[u8], at: usize) -> Result<Token, LineFault> {
    let span = read_string(line, at)?;
    let text = span.of(line);
    if text.is_empty() || text.contains(&0) {
        return Err(Fault::QuotedName.at(at));
    }
    Ok(Token { span, quoted: !is_legacy_metric_name(text) })
}

/// Checks a metric name (unescaped) that stands at `column`.
pub(crate) fn check_name_length(name: &[u8], column: usize) -> Result<(), LineFault> {
    if name.len() <= Limits::NAME_BYTES {
        return Ok(());
    }
    Err(Fault::Limit { limit: Limit::NameBytes, value: Limits::NAME_BYTES as u64 }.at(column))
}

pub(crate) fn check_utf8(text: &[u8]) -> Result<(), LineFault> {
    std::str::from_utf8(text).map(drop).map_err(|error| Fault::Utf8.at(error.valid_up_to()))
}

/// Whether a metric name can be written without quotes.
pub(crate) fn is_legacy_metric_name(name: &[u8]) -> bool {
    name.first().is_some_and(|b| !b.is_ascii_digit()) && name.iter().all(|&b| scan::is_metric_name_byte(b))
}

/// Whether a label name can be written without quotes.
pub(crate) fn is_legacy_label_name(name: &[u8]) -> bool {
    is_legacy_metric_name(name) && !name.contains(&b':')
}

/// A sorted walk where there are many labels, so that a hostile line costs n log n comparisons.
fn check_unique(line: &[u8], labels: &[Label]) -> Result<(), LineFault> {
    const FEW: usize = 16;
    let name = |label: &Label| unescaped_name(line, label.name);
    if labels.len() <= FEW {
        for (i, label) in labels.iter().enumerate() {
            if labels[..i].iter().any(|earlier| same_name(line, earlier.name, label.name)) {
                return Err(Fault::DuplicateLabel.at(label.name.span.start()));
            }
        }
        return Ok(());
    }
    let mut sorted: Vec<&Label> = labels.iter().collect();
    sorted.sort_by(|a, b| name(a).cmp(&name(b)).then(a.name.span.start.cmp(&b.name.span.start)));
    let repeated = sorted.windows(2).filter(|pair| same_name(line, pair[0].name, pair[1].name));
    match repeated.map(|pair| pair[1].name.span.start()).min() {
        Some(first) => Err(Fault::DuplicateLabel.at(first)),
        None => Ok(()),
    }
}

fn same_name(line: &[u8], a: Token, b: Token) -> bool {
    a.span.of(line) == b.span.of(line) || a.quoted && b.quoted && unescaped_name(line, a) == unescaped_name(line, b)
}

fn unescaped_name(line: &[u8], name: Token) -> Cow<'_, [u8]> {
    text::unescape(name.span.of(line))
}
