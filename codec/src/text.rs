//! Escapes: reading them, writing them, and repairing the ones that only Prometheus understands.

use std::borrow::Cow;

use memchr::memchr;

/// The meaning of the inside of a quoted string, as Prometheus reads it: `\\`, `\"` and `\n` are
/// replaced, any other escape stays as it is.
pub(crate) fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr(b'\\', raw) else { return Cow::Borrowed(raw) };
    let mut text = raw[..first].to_vec();
    let mut at = first;
    while at < raw.len() {
        match (raw[at], raw.get(at + 1)) {
            (b'\\', Some(b'n')) => text.push(b'\n'),
            (b'\\', Some(&escaped @ (b'\\' | b'"'))) => text.push(escaped),
            (byte, _) => {
                text.push(byte);
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    Cow::Owned(text)
}

/// `raw` with only its escaped quotes replaced.
pub(crate) fn unescape_quotes(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(backslash) = memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(backslash);
        text.extend_from_slice(plain);
        let kept = escape.get(..2).unwrap_or(escape);
        text.extend_from_slice(if kept == b"\\\"" { b"\"" } else { kept });
        rest = &escape[kept.len()..];
    }
    text.extend_from_slice(rest);
    text
}

/// Appends `value` as the inside of a quoted string.
pub(crate) fn escape_into(out: &mut Vec<u8>, value: &[u8]) {
    for &byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'"' => out.extend_from_slice(b"\\\""),
            b'\n' => out.extend_from_slice(b"\\n"),
            other => out.push(other),
        }
    }
}

/// Appends the inside of a quoted string, each backslash that begins no known escape doubled.
pub(crate) fn repair_string_into(out: &mut Vec<u8>, raw: &[u8]) {
    repair_into(out, raw, b"\\\"n");
}

/// Appends a HELP text, each backslash that begins no known escape doubled.
pub(crate) fn repair_help_into(out: &mut Vec<u8>, raw: &[u8]) {
    repair_into(out, raw, b"\\n");
}

/// Prometheus leaves an unknown escape alone and expfmt refuses it. Doubling its backslash makes an
/// escaped backslash of it, which both read as Prometheus read the original.
fn repair_into(out: &mut Vec<u8>, raw: &[u8], known: &[u8]) {
    let mut rest = raw;
    while let Some(backslash) = memchr(b'\\', rest) {
        let escaped = rest.get(backslash + 1).filter(|byte| known.contains(byte));
        let end = backslash + 1 + usize::from(escaped.is_some());
        out.extend_from_slice(&rest[..end]);
        if escaped.is_none() {
            out.push(b'\\');
        }
        rest = &rest[end..];
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repair_keeps_the_meaning_and_leaves_only_known_escapes() {
        for raw in [r"plain", r"\\", r"\n", r#"\""#, r"\t", r"a\tb\\c\n", r"\\\t", r"\\\\t", r"\é"] {
            let mut repaired = Vec::new();
            repair_string_into(&mut repaired, raw.as_bytes());
            assert_eq!(unescape(&repaired), unescape(raw.as_bytes()), "{raw}");
            let mut again = Vec::new();
            repair_string_into(&mut again, &repaired);
            assert_eq!(again, repaired, "{raw}");
        }
    }

    #[test]
    fn help_has_no_escaped_quote_and_may_end_in_a_backslash() {
        let mut out = Vec::new();
        repair_help_into(&mut out, br#"a\"b\\c\nd\"#);
        assert_eq!(out, br#"a\\"b\\c\nd\\"#);
    }

    #[test]
    fn escaping_is_undone_by_unescaping() {
        let value = b"a\\b\"c\nd{},#\xc3\xa9";
        let mut escaped = Vec::new();
        escape_into(&mut escaped, value);
        assert_eq!(unescape(&escaped), &value[..]);
    }
}
