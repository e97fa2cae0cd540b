//! The model's reading of one line: what GRAMMAR.md says without regard to the lines around it.
//!
//! Byte by byte, into owned and unescaped values; nothing is borrowed, skipped or done twice as fast.

const MOST_LABELS: usize = 1024;

pub(super) enum Line {
    Skipped,
    /// Empty text: the same as no HELP.
    Help {
        name: String,
        text: String,
    },
    Type {
        name: String,
        keyword: String,
    },
    Sample(Sample),
}

pub(super) struct Sample {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: String,
    pub(super) timestamp: Option<String>,
}

pub(super) type Decision<T> = Result<T, &'static str>;

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += 1;
        byte
    }

    fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += 1;
        }
        found
    }

    /// Whether there were any.
    fn blanks(&mut self) -> bool {
        let start = self.at;
        while is_blank(self.peek()) {
            self.at += 1;
        }
        self.at > start
    }

    fn while_byte(&mut self, accept: impl Fn(u8) -> bool) -> Vec<u8> {
        let mut taken = Vec::new();
        while let Some(byte) = self.peek().filter(|byte| accept(*byte)) {
            taken.push(byte);
            self.at += 1;
        }
        taken
    }

    fn word(&mut self) -> Vec<u8> {
        self.while_byte(|byte| !is_blank(Some(byte)))
    }

    fn bare_name(&mut self) -> Decision<String> {
        let name = self.while_byte(|byte| byte == b'_' || byte == b':' || byte.is_ascii_alphanumeric());
        let name = String::from_utf8(name).unwrap();
        if is_metric_name(&name) { Ok(name) } else { Err("no valid name") }
    }

    /// Unescaped. Prometheus leaves the backslash of an escape that it does not know.
    fn quoted(&mut self) -> Decision<String> {
        if !self.take(b'"') {
            return Err("expected a quoted string");
        }
        let mut text = Vec::new();
        loop {
            match self.next().ok_or("quoted string without end")? {
                b'"' => break,
                b'\\' => match self.next().ok_or("quoted string without end")? {
                    b'n' => text.push(b'\n'),
                    b'\\' => text.push(b'\\'),
                    b'"' => text.push(b'"'),
                    other => text.extend([b'\\', other]),
                },
                other => text.push(other),
            }
        }
        String::from_utf8(text).map_err(|_| "invalid UTF-8 in a quoted string")
    }

    fn quoted_name(&mut self) -> Decision<String> {
        let name = self.quoted()?;
        if name.is_empty() || name.contains('\0') {
            return Err("quoted name empty or with NUL");
        }
        Ok(name)
    }
}

fn is_blank(byte: Option<u8>) -> bool {
    matches!(byte, Some(b' ' | b'\t'))
}

pub(super) fn is_label_name(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

pub(super) fn is_metric_name(name: &str) -> bool {
    is_label_name(&name.replace(':', "_"))
}

pub(super) fn decide(line: &[u8]) -> Decision<Line> {
    let mut cursor = Cursor { line, at: 0 };
    cursor.blanks();
    match cursor.peek() {
        None => Ok(Line::Skipped),
        Some(b'#') => decide_comment(cursor),
        Some(_) => decide_sample(cursor).map(Line::Sample),
    }
}

const MOST_NAME_BYTES: usize = 4096;

fn decide_comment(mut cursor: Cursor) -> Decision<Line> {
    cursor.take(b'#');
    if !cursor.blanks() {
        return Ok(Line::Skipped);
    }
    let keyword = cursor.word();
    if keyword != b"HELP" && keyword != b"TYPE" || !cursor.blanks() {
        return Ok(Line::Skipped);
    }
    let name = match cursor.peek() {
        Some(b'"') => cursor.quoted_name()?,
        _ => cursor.bare_name()?,
    };
    if name.len() > MOST_NAME_BYTES {
        return Err("name too long");
    }
    let after_name = cursor.next();
    if after_name.is_some() && !is_blank(after_name) {
        return Err("metadata name runs into something else");
    }
    let rest = cursor.while_byte(|_| true);
    let rest = String::from_utf8(rest).map_err(|_| "invalid UTF-8 in metadata")?;
    if keyword == b"HELP" {
        let text = repair_help(&rest);
        return Ok(Line::Help { name, text });
    }
    if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&rest.as_str()) {
        return Err("bad TYPE keyword");
    }
    Ok(Line::Type { name, keyword: rest })
}

fn repair_help(text: &str) -> String {
    if text.bytes().all(|byte| is_blank(Some(byte))) {
        return String::new();
    }
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        out.push(char);
        if char == '\\' {
            match chars.next_if(|next| *next == '\\' || *next == 'n') {
                Some(known) => out.push(known),
                None => out.push('\\'),
            }
        }
    }
    out
}

fn decide_sample(mut cursor: Cursor) -> Decision<Sample> {
    let mut name = None;
    let mut labels = Vec::new();
    if cursor.peek() != Some(b'{') {
        name = Some(cursor.bare_name()?);
        cursor.blanks();
    }
    if cursor.take(b'{') {
        read_braces(&mut cursor, &mut name, &mut labels)?;
        cursor.blanks();
    }
    let name = name.ok_or("no name")?;
    if labels.len() > MOST_LABELS {
        return Err("too many labels");
    }
    for (index, (label, _)) in labels.iter().enumerate() {
        if label == "__name__" {
            return Err("label __name__");
        }
        if labels[..index].iter().any(|(earlier, _)| earlier == label) {
            return Err("the same label twice");
        }
    }
    let value = String::from_utf8(cursor.word()).map_err(|_| "bad value")?;
    if !is_float(&value) {
        return Err("bad value");
    }
    cursor.blanks();
    let timestamp = String::from_utf8(cursor.word()).map_err(|_| "bad timestamp")?;
    if !timestamp.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("bad timestamp");
    }
    if !timestamp.is_empty() && timestamp.parse::<i64>().is_err() {
        return Err("timestamp out of range");
    }
    cursor.blanks();
    if cursor.peek().is_some() {
        return Err("something after the timestamp");
    }
    let timestamp = Some(timestamp).filter(|digits| !digits.is_empty());
    if name.len() > MOST_NAME_BYTES {
        return Err("name too long");
    }
    Ok(Sample { name, labels, value, timestamp })
}

fn read_braces(cursor: &mut Cursor, name: &mut Option<String>, labels: &mut Vec<(String, String)>) -> Decision<()> {
    loop {
        cursor.blanks();
        if cursor.take(b'}') {
            return Ok(());
        }
        let quoted = cursor.peek() == Some(b'"');
        let item = if quoted { cursor.quoted_name()? } else { cursor.bare_name()? };
        cursor.blanks();
        if cursor.take(b'=') {
            if !quoted && !is_label_name(&item) {
                return Err("colon in a label name");
            }
            cursor.blanks();
            labels.push((item, cursor.quoted()?));
        } else if quoted && matches!(cursor.peek(), Some(b',' | b'}')) {
            if name.is_some() {
                return Err("two names");
            }
            *name = Some(item);
        } else {
            return Err("malformed label");
        }
        cursor.blanks();
        cursor.take(b',');
    }
}

pub(super) fn is_float(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.strip_prefix(['+', '-']).unwrap_or(&lower);
    if lower == "nan" || unsigned == "inf" || unsigned == "infinity" {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent),
        None => (unsigned, "0"),
    };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let some_mantissa = !whole.is_empty() || !fraction.is_empty();
    let well_formed = some_mantissa && !exponent.is_empty();
    well_formed && digits(whole) && digits(fraction) && digits(exponent) && unsigned.parse::<f64>().unwrap().is_finite()
}
