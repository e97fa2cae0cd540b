//! Metadata lines of text 0.0.4: HELP, TYPE, and comments, which say nothing.

use std::borrow::Cow;

use crate::error::{Fault, LineFault};
use crate::family::MetricType;
use crate::sample::{check_name_length, check_utf8, read_quoted_name, skip_blanks};
use crate::{scan, text};

/// What a line that begins with `#` says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Statement<'a> {
    Comment,
    /// The text as written behind the name, empty for none.
    Help {
        name: Cow<'a, [u8]>,
        text: &'a [u8],
    },
    Type {
        name: Cow<'a, [u8]>,
        kind: MetricType,
    },
}

/// Reads a line whose first byte is `#` and last its newline.
pub(crate) fn read(line: &[u8]) -> Result<Statement<'_>, LineFault> {
    let word = skip_blanks(line, 1);
    let is_help = match line[word..].first_chunk::<5>() {
        Some([b'H', b'E', b'L', b'P', b' ' | b'\t']) if word > 1 => true,
        Some([b'T', b'Y', b'P', b'E', b' ' | b'\t']) if word > 1 => false,
        _ => return Ok(Statement::Comment),
    };
    let start = skip_blanks(line, word + 4);
    let (name, end) = read_name(line, start)?;
    let rest = match line[end] {
        b'\n' => &[],
        b' ' | b'\t' => &line[end + 1..line.len() - 1],
        _ => return Err(Fault::MetadataName.at(end)),
    };
    if is_help {
        check_utf8(rest).map_err(|fault| LineFault { column: end + 1 + fault.column, ..fault })?;
        let blank = rest.iter().all(|b| matches!(b, b' ' | b'\t'));
        Ok(Statement::Help { name, text: if blank { &[] } else { rest } })
    } else {
        let column = (end + 1).min(line.len() - 1);
        let kind = MetricType::from_keyword(rest).ok_or(Fault::TypeKeyword.at(column))?;
        Ok(Statement::Type { name, kind })
    }
}

/// The metric name at `start`, unescaped, and the offset behind it.
pub(crate) fn read_name(line: &[u8], start: usize) -> Result<(Cow<'_, [u8]>, usize), LineFault> {
    if line[start] == b'"' {
        let name = read_quoted_name(line, start)?;
        let raw = name.span.of(line);
        let name = text::unescape(raw);
        check_name_length(&name, start + 1)?;
        return Ok((name, start + raw.len() + 2));
    }
    let end = scan::metric_name_end(line, start);
    if end == start || line[start].is_ascii_digit() {
        return Err(Fault::MetadataName.at(start));
    }
    check_name_length(&line[start..end], start)?;
    Ok((Cow::Borrowed(&line[start..end]), end))
}
