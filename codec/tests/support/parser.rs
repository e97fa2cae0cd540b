//! A strict parser of a complete text 0.0.4 response, the judge of what the codec writes.
//!
//! It accepts only what Prometheus 2.42, Prometheus 3 and expfmt (promtool) all accept, so `Ok` means
//! that no scraper refuses the response. One exception: metadata repeated for a family and families
//! split in several runs, which promtool refuses and Prometheus does not, are counted instead.
//! Built on regular expressions, to share neither code nor method with the codec or with the model.

// Each test binary uses its own part of the support code, and a panic is how a test fails.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use regex::{Captures, Regex};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub samples: Vec<Sample>,
    /// Family and unescaped text of each HELP line.
    pub help: Vec<(String, Vec<u8>)>,
    /// Family and keyword of each TYPE line.
    pub types: Vec<(String, String)>,
    /// What promtool alone refuses: HELP or TYPE of a family that had one before or had samples
    /// before, and a bad `le` or `quantile` that only expfmt's idea of families finds (see
    /// `Reader::expfmt_family`). Plus what is merely untidy: samples of a family that was left.
    pub repeated_metadata: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    pub name: Vec<u8>,
    /// Unescaped, in order of appearance.
    pub labels: Vec<(Vec<u8>, Vec<u8>)>,
    /// As written.
    pub value: Vec<u8>,
    pub timestamp: Option<Vec<u8>>,
    /// Keyword of the last TYPE line before the sample, whatever its family: what Prometheus 3
    /// normalises `le` and `quantile` by.
    pub type_in_force: Option<String>,
}

/// The error names the line and the reason.
pub fn parse(body: &[u8], utf8: bool) -> Result<Parsed, String> {
    let text = std::str::from_utf8(body).map_err(|error| {
        let before = &body[..error.valid_up_to()];
        let line = before.split(|byte| *byte == b'\n').count();
        format!("line {line}: invalid UTF-8")
    })?;
    let mut reader = Reader { utf8, ..Reader::default() };
    if text.is_empty() {
        return Ok(reader.parsed);
    }
    let Some(complete) = text.strip_suffix('\n') else {
        return Err(format!("line {}: no final newline", text.split('\n').count()));
    };
    for (index, line) in complete.split('\n').enumerate() {
        reader.line(line).map_err(|reason| format!("line {}: {reason}: {line:?}", index + 1))?;
    }
    Ok(reader.parsed)
}

const TYPES: [&str; 5] = ["counter", "gauge", "histogram", "summary", "untyped"];

macro_rules! pattern {
    ($name:ident, $regex:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($regex).unwrap());
    };
}

pattern!(BARE_NAME, r"^[a-zA-Z_:][a-zA-Z0-9_:]*");
pattern!(QUOTED_NAME, r#"^"((?:\\[\\"n]|[^\\"\x00])+)""#);
pattern!(
    LABEL,
    r#"^(?:([a-zA-Z_][a-zA-Z0-9_]*)|"((?:\\[\\"n]|[^\\"\x00])+)")[ \t]*=[ \t]*"((?:\\[\\"n]|[^\\"])*)"[ \t]*"#
);
pattern!(METADATA, r"^#[ \t]+(HELP|TYPE)[ \t]+(.*)$");
pattern!(HELP_TEXT, r"^(?:\\[\\n]|[^\\])*$");
pattern!(FLOAT, r"^(?i:([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)|[+-]?inf(?:inity)?|nan)$");
pattern!(DIGITS, r"^[0-9]+$");

#[derive(Default)]
struct Reader {
    utf8: bool,
    parsed: Parsed,
    /// Family of the last metadata line and its type.
    declared: Option<(String, Option<String>)>,
    type_in_force: Option<String>,
    helped: HashSet<String>,
    typed: HashSet<String>,
    sampled: HashSet<String>,
    /// All families so far, as expfmt files them, with their types.
    known: HashMap<String, String>,
    last_family: Option<String>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        // Prometheus takes leading blanks into the name.
        if line.starts_with([' ', '\t']) {
            return Err("leading blank".into());
        }
        if line.is_empty() {
            return Ok(());
        }
        if !line.starts_with('#') {
            return self.sample(line);
        }
        // Metadata to expfmt, comments to Prometheus.
        if ["#HELP ", "#HELP\t", "#TYPE ", "#TYPE\t"].iter().any(|start| line.starts_with(start)) {
            return Err("no blank after #".into());
        }
        match METADATA.captures(line) {
            Some(parts) => self.metadata(&parts[1], parts.get(2).unwrap().as_str()),
            None => Ok(()),
        }
    }

    fn metadata(&mut self, keyword: &str, after: &str) -> Result<(), String> {
        let (name, rest) = self.metadata_name(after)?;
        let rest = match rest.strip_prefix([' ', '\t']) {
            Some(rest) => rest,
            None if rest.is_empty() => rest,
            None => return Err("metadata name runs into something else".into()),
        };
        let family = self.expfmt_family(&name);
        if self.declared.as_ref().is_none_or(|(declared, _)| *declared != name) {
            self.declared = Some((name.clone(), None));
        }
        let seen = if keyword == "HELP" {
            if !HELP_TEXT.is_match(rest) {
                return Err("bad escape in HELP".into());
            }
            let text = unescape(rest).into_bytes();
            self.known.entry(family.clone()).or_default();
            self.parsed.help.push((name, text));
            &mut self.helped
        } else {
            if !TYPES.contains(&rest) {
                return Err("bad TYPE keyword".into());
            }
            self.declared = Some((name.clone(), Some(rest.to_string())));
            self.type_in_force = Some(rest.to_string());
            self.known.insert(family.clone(), rest.to_string());
            self.parsed.types.push((name, rest.to_string()));
            &mut self.typed
        };
        if !seen.insert(family.clone()) || self.sampled.contains(&family) {
            self.parsed.repeated_metadata += 1;
        }
        Ok(())
    }

    fn metadata_name<'a>(&self, text: &'a str) -> Result<(String, &'a str), String> {
        if let Some(name) = BARE_NAME.find(text) {
            return Ok((name.as_str().to_string(), &text[name.end()..]));
        }
        match QUOTED_NAME.captures(text) {
            Some(_) if !self.utf8 => Err("quoted name".into()),
            Some(parts) => Ok((unescape(&parts[1]), &text[parts[0].len()..])),
            None => Err("no valid name in metadata".into()),
        }
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let bare = BARE_NAME.find(line).map_or("", |name| name.as_str());
        let mut name = bare.to_string();
        let mut labels = Vec::new();
        let mut rest = skip_blanks(&line[bare.len()..]);
        if let Some(inside) = rest.strip_prefix('{') {
            rest = self.braces(inside, &mut name, &mut labels)?;
        }
        if name.is_empty() {
            return Err("no name".into());
        }
        self.check_labels(&name, &labels)?;
        let (value, timestamp) = value_and_timestamp(skip_blanks(rest))?;
        self.count_for_promtool(&name, &labels);
        self.parsed.samples.push(Sample {
            name: name.into_bytes(),
            labels: labels.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect(),
            value: value.as_bytes().to_vec(),
            timestamp: timestamp.map(|text| text.as_bytes().to_vec()),
            type_in_force: self.type_in_force.clone(),
        });
        Ok(())
    }

    /// Reads to the closing brace and returns what follows it.
    fn braces<'a>(
        &self,
        inside: &'a str,
        name: &mut String,
        labels: &mut Vec<(String, String)>,
    ) -> Result<&'a str, String> {
        let mut rest = skip_blanks(inside);
        // Elsewhere than in front, expfmt lets the labels before it fall to the previous family.
        if name.is_empty() {
            let parts = QUOTED_NAME.captures(rest).ok_or("no name in front")?;
            if !self.utf8 {
                return Err("quoted name".into());
            }
            *name = unescape(&parts[1]);
            rest = separator(skip_blanks(&rest[parts[0].len()..]))?;
        }
        loop {
            if let Some(after) = rest.strip_prefix('}') {
                return Ok(after);
            }
            let parts = LABEL.captures(rest).ok_or("malformed label")?;
            labels.push((self.label_name(&parts)?, unescape(&parts[3])));
            rest = separator(&rest[parts[0].len()..])?;
        }
    }

    fn label_name(&self, parts: &Captures) -> Result<String, String> {
        match (parts.get(1), parts.get(2)) {
            (Some(bare), _) => Ok(bare.as_str().to_string()),
            (_, Some(quoted)) if self.utf8 => Ok(unescape(quoted.as_str())),
            _ => Err("quoted label name".into()),
        }
    }

    fn check_labels(&self, name: &str, labels: &[(String, String)]) -> Result<(), String> {
        let mut seen = HashSet::new();
        let family_type = self.declared_type_of(name).unwrap_or("");
        for (label, value) in labels {
            if label == "__name__" {
                return Err("label __name__".into());
            }
            if !seen.insert(label) {
                return Err(format!("duplicate label {label}"));
            }
            if is_bad_number(family_type, label, value) {
                return Err(format!("{label} is no float"));
            }
        }
        Ok(())
    }

    fn declared_type_of(&self, sample: &str) -> Option<&str> {
        let (family, kind) = self.declared.as_ref()?;
        let kind = kind.as_deref()?;
        let suffix = sample.strip_prefix(family.as_str())?;
        let member = match kind {
            "histogram" => ["", "_bucket", "_sum", "_count"].contains(&suffix),
            "summary" => ["", "_sum", "_count"].contains(&suffix),
            _ => suffix.is_empty(),
        };
        member.then_some(kind)
    }

    /// A name that nothing has made a family of its own falls to any summary or histogram above it
    /// whose name it extends, however far back, even where a TYPE line introduces it.
    fn expfmt_family(&self, name: &str) -> String {
        let extends = |kind: &str, suffixes: &[&str]| {
            let base = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix))?;
            (self.known.get(base)? == kind).then(|| base.to_string())
        };
        if self.known.contains_key(name) {
            return name.to_string();
        }
        extends("summary", &["_sum", "_count"])
            .or_else(|| extends("histogram", &["_bucket", "_sum", "_count"]))
            .unwrap_or_else(|| name.to_string())
    }

    fn count_for_promtool(&mut self, sample: &str, labels: &[(String, String)]) {
        let family = self.expfmt_family(sample);
        let kind = self.known.entry(family.clone()).or_default();
        let first = self.sampled.insert(family.clone());
        let back = !first && self.last_family.as_ref() != Some(&family);
        let bad = labels.iter().any(|(label, value)| is_bad_number(kind, label, value));
        self.parsed.repeated_metadata += usize::from(back) + usize::from(bad);
        self.last_family = Some(family);
    }
}

fn is_bad_number(kind: &str, label: &str, value: &str) -> bool {
    let number = matches!((kind, label), ("histogram", "le") | ("summary", "quantile"));
    number && !is_float(value)
}

fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

/// After an item in braces: a comma, which is consumed, or the closing brace, which is not.
fn separator(text: &str) -> Result<&str, String> {
    match text.strip_prefix(',') {
        Some(rest) => Ok(skip_blanks(rest)),
        None if text.starts_with('}') => Ok(text),
        None => Err("neither comma nor closing brace".into()),
    }
}

fn value_and_timestamp(text: &str) -> Result<(&str, Option<&str>), String> {
    let (value, timestamp) = match text.split_once([' ', '\t']) {
        Some((value, rest)) => (value, Some(skip_blanks(rest))),
        None => (text, None),
    };
    if !is_float(value) {
        return Err("bad value".into());
    }
    match timestamp {
        // Covers blanks before the end of the line and anything behind the timestamp as well.
        Some(digits) if !DIGITS.is_match(digits) || digits.parse::<i64>().is_err() => Err("bad timestamp".into()),
        _ => Ok((value, timestamp)),
    }
}

fn is_float(text: &str) -> bool {
    let Some(parts) = FLOAT.captures(text) else {
        return false;
    };
    // Go's ParseFloat makes an error of an overflow.
    parts.get(1).is_none_or(|number| number.as_str().parse::<f64>().unwrap().is_finite())
}

/// For text whose escapes have been checked.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.as_str().starts_with('n') => {
                chars.next();
                out.push('\n');
            }
            '\\' => out.push(chars.next().unwrap()),
            _ => out.push(char),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn accepts() {
        for body in [
            "",
            "\n\n",
            "foo 1\n",
            "foo+1\nfoo{}.5\n",
            "foo \t{ a = \"b\" , } \t 1 \t 7\n",
            "foo{a=\"{},#=\\\\\\\"\\n\0é\"} NaN 9223372036854775807\n",
            "#\n#HELP\n# HELP\n# HELPER x y\n# TYPED \n# EOF\n",
            "# HELP x\n# HELP x  a\\\\b\\n \n# TYPE x untyped\n",
            "x -Inf\nx +infinity\nx 1e-999\nx 5.\nx 1E+3 007\n",
            "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_max{le=\"x\"} 1\n",
            "# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_bucket{le=\"x\",quantile=\"y\"} 1\n",
        ] {
            assert_eq!(parse(body.as_bytes(), false).err(), None, "{body:?}");
            assert_eq!(parse(body.as_bytes(), true).err(), None, "{body:?}");
        }
        for body in [
            "{\"a.b\"} 1\n{\"a.b\",c=\"d\",\"e f\"=\"g\",} 1\n",
            "# HELP \"a.\\\"b\" text\n# TYPE \"a.\\\"b\" counter\n{\"a.\\\"b\"} 1\n",
        ] {
            assert!(parse(body.as_bytes(), false).is_err(), "{body:?}");
            assert_eq!(parse(body.as_bytes(), true).err(), None, "{body:?}");
        }
    }

    #[test]
    fn refuses() {
        #[rustfmt::skip]
        let bodies = [
            "foo 1", "foo\n", " foo 1\n", "foo 1 \n", "foo 1 2 \n", "foo 1 2 3\n", "foo 1\r\n", "\r\n",
            "\u{feff}foo 1\n", "foo 1 -2\n", "foo 1 2.5\n", "foo 1 9223372036854775808\n", "foo 0x1p3\n",
            "foo 1_0\n", "foo 1e999\n", "foo +nan\n", "foo .\n", "foo 1e\n", "foo infin\n", "foo{,} 1\n",
            "foo{,a=\"\"} 1\n", "foo{a=\"\",,b=\"\"} 1\n", "foo{a=\"\" b=\"\"} 1\n", "foo{a=\"\\t\"} 1\n",
            "foo{a=\"x\ny\"} 1\n", "foo{a=\"x} 1\n", "foo{a=\"x\" 1\n", "foo{a=x} 1\n",
            "foo{a=\"\",a=\"\"} 1\n", "foo{__name__=\"a\"} 1\n", "foo{a:b=\"\"} 1\n", "foo{\"bar\"} 1\n",
            "{} 1\n", "{a=\"b\"} 1\n", "{\"a\",\"b\"} 1\n", "{a=\"b\",\"c.d\"} 1\n", "{\"\"} 1\n",
            "{\"a\0\"} 1\n", "foo{\"\"=\"a\"} 1\n", "é 1\n", "1foo 1\n", "# HELP \n", "# HELP x \\t\n",
            "# HELP x \\\n", "# HELP 1x a\n", "# HELP x{} a\n", "# TYPE x\n", "# TYPE x info\n",
            "# TYPE x Counter\n", "# TYPE x  gauge\n", "# TYPE x gauge \n", "# TYPE x gauge\r\n",
            "#TYPE x gauge\n", "# TYPE \n", "# TYPE h histogram\nh_bucket{le=\"x\"} 1\n",
            "# TYPE h histogram\nh_sum{le=\"\"} 1\n", "# TYPE s summary\ns{quantile=\"1e999\"} 1\n",
        ];
        let mut bodies: Vec<Vec<u8>> = bodies.map(|body| body.as_bytes().to_vec()).to_vec();
        bodies.push(b"foo{a=\"\xff\"} 1\n".to_vec());
        bodies.push(b"# HELP x \xff\n".to_vec());
        for body in bodies {
            assert!(parse(&body, true).is_err(), "{:?}", String::from_utf8_lossy(&body));
        }
    }

    #[test]
    fn counts_what_promtool_alone_refuses() {
        let repeated = |body: &str| parse(body.as_bytes(), false).unwrap().repeated_metadata;
        assert_eq!(repeated("# HELP a x\n# TYPE a gauge\na 1\na 2\nb 1\n"), 0);
        assert_eq!(repeated("# TYPE a gauge\n# TYPE a gauge\na 1\n# HELP a x\n"), 2);
        assert_eq!(repeated("a 1\nb 1\na 2\na 3\n"), 1);
        let expfmt_alone = "# TYPE h histogram\nh_sum 1\n# TYPE o gauge\no 1\nh_sum{le=\"x\"} 1\n";
        assert_eq!(repeated(expfmt_alone), 2);
        assert_eq!(repeated("# TYPE h histogram\nh_sum 1\n# TYPE h_count gauge\nh_count 1\n"), 1);
        let body = b"# TYPE h histogram\nh_sum 1\nother 2\n";
        let samples = parse(body, false).unwrap().samples;
        assert_eq!(samples[1].type_in_force.as_deref(), Some("histogram"));
    }
}
