//! Strategies for pod bodies: tidy ones as real exporters write them, odd ones that are legal in
//! every way GRAMMAR.md repairs, and hostile ones that break every rule it has.
//!
//! The vocabularies are small on purpose: pods must collide in families, types and labels.

// Each test binary uses its own part of the support code, and a panic is how a test fails.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};

/// Sorted boundaries in `0..=len`; equal neighbours stand for an empty chunk.
pub fn cuts(len: usize) -> impl Strategy<Value = Vec<usize>> {
    let some = vec(0..=len, 0..8).prop_map(|mut cuts| {
        cuts.sort_unstable();
        cuts
    });
    prop_oneof![
        8 => some,
        1 => Just((0..=len).collect()),
        1 => Just(Vec::new()),
    ]
}

// === tidy ===

/// Sorted, so that every subsequence of it is.
const TIDY_FAMILIES: [(&str, &str); 7] = [
    ("a", ""),
    ("b_seconds", "histogram"),
    ("b_total", "counter"),
    ("c", "untyped"),
    ("d", "summary"),
    ("d_ratio", "gauge"),
    ("z:rule", "gauge"),
];

const LABELS: [&str; 9] =
    ["code", "pod", "exported_pod", "namespace", "job", "exported_job", "exported_exported_pod", "instance", "__tmp"];

/// As they stand between the quotes, with known escapes only.
const LABEL_VALUES: [&str; 11] = [
    "",
    "x",
    "200",
    "kube-system",
    "{a,b}",
    "} 1 # no comment",
    "a=\\\"b\\\",",
    "back\\\\slash",
    "two\\nlines",
    "Grüße 日本",
    "nul\0tab\t",
];

const VALUES: [&str; 14] =
    ["0", "1", "+1", "-2.5", ".5", "5.", "1e3", "1.5E-3", "1e-999", "NaN", "nan", "+Inf", "-inf", "Infinity"];

const TIMESTAMPS: [&str; 4] = ["0", "1700000000000", "007", "9223372036854775807"];

const HELP_TEXTS: [&str; 5] =
    ["Help.", "Other help.", "back\\\\slash and\\nnewline", "\"quoted\" {braces} # é", "  blanks around  "];

fn pick(from: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    select(from).prop_map(str::to_string)
}

/// Distinct names with values, in the order of the vocabulary.
fn label_pairs(most: usize) -> impl Strategy<Value = Vec<(String, String)>> {
    subsequence(LABELS.to_vec(), 0..=most).prop_flat_map(|names| {
        let count = names.len();
        vec(pick(&LABEL_VALUES), count).prop_map(move |values| {
            let names = names.iter().map(|name| (*name).to_string());
            names.zip(values).collect()
        })
    })
}

fn tidy_labels() -> impl Strategy<Value = Vec<String>> {
    label_pairs(3).prop_map(|pairs| {
        let spell = |(name, value): (String, String)| format!("{name}=\"{value}\"");
        pairs.into_iter().map(spell).collect()
    })
}

fn tidy_sample(name: &str, labels: &[String], extra: &str, value: &str) -> String {
    let mut items = labels.to_vec();
    items.extend(Some(extra.to_string()).filter(|extra| !extra.is_empty()));
    if items.is_empty() {
        return format!("{name} {value}\n");
    }
    format!("{name}{{{}}} {value}\n", items.join(","))
}

/// Value with timestamp.
fn reading() -> impl Strategy<Value = String> {
    let timestamp = prop::option::weighted(0.2, pick(&TIMESTAMPS));
    (pick(&VALUES), timestamp).prop_map(|(value, timestamp)| match timestamp {
        Some(timestamp) => format!("{value} {timestamp}"),
        None => value,
    })
}

/// One series, or all the lines of one histogram or summary.
fn tidy_metric(name: &'static str, kind: &'static str) -> BoxedStrategy<String> {
    let parts: &'static [(&str, &str)] = match kind {
        "histogram" => &[
            ("_bucket", "le=\"0.5\""),
            ("_bucket", "le=\"1\""),
            ("_bucket", "le=\"+Inf\""),
            ("_sum", ""),
            ("_count", ""),
        ],
        "summary" => &[("", "quantile=\"0.9\""), ("", "quantile=\"NaN\""), ("_sum", ""), ("_count", "")],
        _ => &[("", "")],
    };
    (tidy_labels(), vec(reading(), parts.len()))
        .prop_map(move |(labels, readings)| {
            let lines = parts
                .iter()
                .zip(readings)
                .map(|((suffix, extra), reading)| tidy_sample(&format!("{name}{suffix}"), &labels, extra, &reading));
            lines.collect()
        })
        .boxed()
}

fn tidy_family((name, kind): (&'static str, &'static str)) -> BoxedStrategy<String> {
    let most = if ["histogram", "summary"].contains(&kind) { 1 } else { 3 };
    let help = prop::option::weighted(0.8, pick(&HELP_TEXTS));
    (help, vec(tidy_metric(name, kind), 1..=most))
        .prop_map(move |(help, metrics)| {
            let help = help.map_or(String::new(), |text| format!("# HELP {name} {text}\n"));
            let kind = match kind {
                "" => String::new(),
                _ => format!("# TYPE {name} {kind}\n"),
            };
            help + &kind + &metrics.concat()
        })
        .boxed()
}

/// Families sorted by name, each with one type in all bodies, as client libraries write them.
pub fn tidy_body() -> impl Strategy<Value = Vec<u8>> {
    subsequence(TIDY_FAMILIES.to_vec(), 0..=4).prop_flat_map(|families| {
        let families: Vec<_> = families.into_iter().map(tidy_family).collect();
        families.prop_map(|texts| texts.concat().into_bytes())
    })
}

// === odd ===

/// With `a` typed histogram or summary, the next ones are part of it or not, as the body has it.
const ODD_NAMES: [&str; 9] =
    ["a", "a_sum", "a_count", "a_bucket", "b", "c:d", "up", "up_sum", "metrics_aggregator_pod_scrape_errors_total"];

/// As they stand between the quotes: not legacy, with escapes of both sorts.
const QUOTED_ONLY: [&str; 6] = ["my.metric", "a b", "esc\\\"aped\\\\ \\n", "unknown\\t", "0", "日本"];

const UNKNOWN_ESCAPES: [&str; 3] = ["tab\\t", "\\é\\'", "\\\\\\N"];

const FLOAT_LABELS: [&str; 5] = ["0.5", "1", "+Inf", "1e-5", "nan"];

const TYPES: [&str; 5] = ["counter", "gauge", "histogram", "summary", "untyped"];

const ODD_HELP_TEXTS: [&str; 6] = ["tab\\t", "ends in \\", "nul \0", "cr\r", "", " "];

const COMMENTS: [&str; 10] = [
    "#",
    "##",
    "# EOF",
    "#HELP a x",
    "# HELP",
    "# TYPE",
    "# UNIT a b",
    "# help a x",
    "# TYPED a b",
    "# any \0 thing {\" \\",
];

fn blank() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        8 => Just(String::new()),
        2 => Just(" ".to_string()),
        1 => Just("\t".to_string()),
        1 => Just(" \t ".to_string()),
    ]
}

fn gap() -> impl Strategy<Value = String> + Clone {
    prop_oneof![6 => Just(" "), 1 => Just("\t"), 1 => Just(" \t ")].prop_map(str::to_string)
}

/// A label name as it may be spelled, its quotes included.
fn spelled_label() -> impl Strategy<Value = Vec<String>> {
    let value = prop_oneof![4 => pick(&LABEL_VALUES), 1 => pick(&UNKNOWN_ESCAPES)];
    let names = subsequence(LABELS.to_vec(), 0..=3);
    let others = prop_oneof![
        12 => Just(vec![]),
        1 => subsequence(QUOTED_ONLY.to_vec(), 1),
        1 => Just(vec!["co:lon"]),
    ];
    let number = prop_oneof![6 => Just(""), 2 => Just("le"), 1 => Just("quantile")];
    (names, others, number, pick(&FLOAT_LABELS)).prop_flat_map(move |(names, others, number, float)| {
        let mut labels: Vec<(String, BoxedStrategy<String>)> = Vec::new();
        for name in names {
            labels.push((name.to_string(), value.clone().boxed()));
        }
        for name in others {
            labels.push((format!("\"{name}\""), value.clone().boxed()));
        }
        if !number.is_empty() {
            labels.push((number.to_string(), Just(float).boxed()));
        }
        let items: Vec<_> = labels
            .into_iter()
            .map(|(name, value)| {
                (prop::bool::weighted(0.1), blank(), blank(), value).prop_map(move |(quoted, before, after, value)| {
                    let quotes = if quoted && !name.starts_with('"') { "\"" } else { "" };
                    format!("{quotes}{name}{quotes}{before}={after}\"{value}\"")
                })
            })
            .collect();
        items.prop_shuffle()
    })
}

fn separator() -> impl Strategy<Value = String> {
    prop_oneof![8 => Just(","), 1 => Just(" , "), 1 => Just(" "), 1 => Just("")].prop_map(str::to_string)
}

/// The braces with the labels, and in them, somewhere, the quoted name if there is one.
fn odd_braces(name: Option<String>) -> impl Strategy<Value = String> {
    let ends = (blank(), blank(), prop::bool::weighted(0.2));
    let parts = (spelled_label(), vec(separator(), 4 + 1), any::<Index>(), ends);
    parts.prop_map(move |(mut items, separators, position, ends)| {
        let (open, close, trailing_comma) = ends;
        let at = position.index(items.len() + 1);
        if let Some(name) = &name {
            items.insert(at, format!("\"{name}\""));
        }
        let mut text = format!("{{{open}");
        for (index, item) in items.iter().enumerate() {
            text += item;
            let last = index + 1 == items.len();
            // The one place where a missing comma is not repaired.
            let needs_comma = name.is_some() && index == at;
            text += match &separators[index % separators.len()] {
                _ if last && trailing_comma => ",",
                _ if last => "",
                given if needs_comma && !given.contains(',') => ",",
                given => given,
            };
        }
        format!("{text}{close}}}")
    })
}

fn odd_series() -> impl Strategy<Value = String> {
    let quoted = prop_oneof![pick(&ODD_NAMES), pick(&QUOTED_ONLY)];
    prop_oneof![
        3 => pick(&ODD_NAMES),
        6 => (pick(&ODD_NAMES), blank(), odd_braces(None)).prop_map(|(name, gap, braces)| name + &gap + &braces),
        2 => quoted.prop_flat_map(|name| odd_braces(Some(name))),
    ]
}

fn odd_sample() -> impl Strategy<Value = String> {
    let timestamp = prop::option::weighted(0.2, (gap(), pick(&TIMESTAMPS)));
    let glued = prop::bool::weighted(0.2);
    let parts = (blank(), odd_series(), gap(), glued, pick(&VALUES), timestamp, blank());
    parts.prop_map(|(before, series, gap, glued, value, timestamp, after)| {
        let parted = series.ends_with('}') || value.starts_with(['+', '-', '.']);
        let gap = if glued && parted { String::new() } else { gap };
        let timestamp = timestamp.map_or(String::new(), |(gap, digits)| gap + &digits);
        format!("{before}{series}{gap}{value}{timestamp}{after}")
    })
}

fn odd_metadata() -> impl Strategy<Value = String> {
    let quoted = prop_oneof![pick(&ODD_NAMES), pick(&QUOTED_ONLY)].prop_map(|name| format!("\"{name}\""));
    let name = prop_oneof![
        6 => Just("a".to_string()),
        3 => pick(&ODD_NAMES),
        1 => quoted,
    ];
    let one_blank = prop_oneof![8 => Just(" "), 1 => Just("\t")];
    let help = prop_oneof![3 => pick(&HELP_TEXTS), 1 => pick(&ODD_HELP_TEXTS)].prop_map(|text| ("HELP", text));
    let kind = pick(&TYPES).prop_map(|kind| ("TYPE", kind));
    let content = prop_oneof![2 => help, 3 => kind];
    (blank(), gap(), gap(), name, one_blank, content).prop_map(|(before, first, second, name, third, content)| {
        let (keyword, text) = content;
        let third = if text.is_empty() { "" } else { third };
        format!("{before}#{first}{keyword}{second}{name}{third}{text}")
    })
}

fn odd_line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => odd_sample(),
        4 => odd_metadata(),
        1 => (blank(), pick(&COMMENTS)).prop_map(|(before, comment)| before + &comment),
        1 => blank(),
    ]
}

/// Odd but legal: no line of it fails the pod.
pub fn odd_body() -> impl Strategy<Value = Vec<u8>> {
    (vec(odd_line(), 0..25), prop::bool::weighted(0.8)).prop_map(|(lines, final_newline)| {
        let newline = if final_newline && !lines.is_empty() { "\n" } else { "" };
        (lines.join("\n") + newline).into_bytes()
    })
}

// === hostile ===

/// Every refused row of GRAMMAR.md that fits on a short line, for whatever line comes before.
#[rustfmt::skip]
pub const REFUSED: &[&[u8]] = &[
    b"a 1\r", b"# TYPE a counter\r", b"\r", b"\xef\xbb\xbfa 1", b"\xef\xbb\xbf# TYPE a counter", b"# HELP ",
    b"# TYPE ", b"# HELP 1a x", b"# HELP {} x", b"# HELP \"\" x", b"# HELP \"a x", b"# HELP \"a\"b x", b"# HELP a\r",
    b"# HELP a{} x", b"# HELP a \xff", b"# TYPE \"a\0b\" gauge", b"# TYPE a", b"# TYPE a ", b"# TYPE a  gauge",
    b"# TYPE a gauge ", b"# TYPE a Gauge", b"# TYPE a info", b"# TYPE a gauge gauge", b"# TYPE a unknown",
    b"# TYPE \"a.b\" stateset", b"# TYPE a \xff", b"a", b"a ", b"a{}", b"a{", b"a{b", b"a{b=", b"a{b=\"", b"a{b=\"\\",
    b"a{b=\"c\"", b"a{b=\"c\"} ", b"a b", b"a{,b=\"1\"} 1", b"a{b=\"1\",,c=\"2\"} 1", b"a{,} 1", b"a{b=1} 1",
    b"a{b} 1", b"a{b:c=\"1\"} 1", b"a{1=\"1\"} 1", b"a{__name__=\"x\"} 1", b"a{\"__name__\"=\"\"} 1",
    b"a{b=\"\",b=\"\"} 1", b"a{b=\"1\",\"b\"=\"2\"} 1", b"a{\"x\\t\"=\"1\",\"x\\\\t\"=\"2\"} 1",
    b"a{b=\"line\nbreak\"} 1", b"a{b=\"\xff\"} 1", b"a{b=\"\xc3\"} 1", b"a{b=\"\xed\xa0\x80\"} 1", b"a{}{} 1",
    b"a} 1", b"a{b=\"1\"} 1 # {c=\"d\"} 1", b"a 1_0", b"a 0x10", b"a 0x1p-2", b"a 1e999", b"a -1e400", b"a +nan",
    b"a -NaN", b"a infin", b"a .", b"a +", b"a 1e", b"a 1e+", b"a 1.2.3", b"a 1,5", b"a \xd9\xa1", b"a 1\0", b"\0",
    b"a\0 1", b"a.b 1", b"1a 1", b"\xff", b"a 1 -1", b"a 1 +1", b"a 1 1.5", b"a 1 1e3", b"a 1 9223372036854775808",
    b"a 1 99999999999999999999", b"a 1 2 3", b"a 1 NaN", b"{} 1", b"{b=\"1\"} 1", b"{\"a\",\"b\"} 1", b"a{\"b\"} 1",
    b"{\"a\" b=\"1\"} 1", b"{\"\"} 1", b"{\"a\0b\"} 1", b"{\"a\xff\"} 1", b"a{\"\"=\"1\"} 1", b"a{\"b\0\"=\"1\"} 1",
    b"{\"a} 1", b"{\"a\"", b"{\"a\"}", b"# TYPE a histogram\na_bucket{le=\"x\"} 1",
    b"# TYPE a histogram\na_sum{le=\"\"} 1", b"# TYPE a histogram\na{\"le\"=\"1e999\"} 1",
    b"# TYPE a summary\na{quantile=\"0x1\"} 1", b"# TYPE a summary\na_count{quantile=\"1 \"} 1",
    b"# TYPE up summary\nup{quantile=\"\"} 1",
];

/// Bytes that mean something to a parser, where a random one seldom does.
const TELLING: &[u8] = b"\"\\{},= \t\r\n#\0\xff_:0+eN.";

#[derive(Debug, Clone)]
enum Mutation {
    Line(Index, Vec<u8>),
    Replace(Index, u8),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    Cut(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let labels = |count: usize| -> Vec<u8> {
        let labels: Vec<String> = (0..count).map(|number| format!("l{number}=\"\"")).collect();
        format!("a{{{}}} 1", labels.join(",")).into_bytes()
    };
    let place = any::<Index>;
    let line = select(REFUSED).prop_map(<[u8]>::to_vec);
    prop_oneof![
        12 => (place(), line).prop_map(|(at, line)| Mutation::Line(at, line)),
        // Bodies stay small: the limit of 1024 labels is met once in a while only.
        1 => (place(), 1024..=1025_usize).prop_map(move |(at, count)| Mutation::Line(at, labels(count))),
        8 => (place(), select(TELLING)).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        4 => (place(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, 1 << bit)),
        8 => (place(), vec(select(TELLING), 1..3)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => (place(), vec(any::<u8>(), 1..12)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        8 => (place(), 1..4_usize).prop_map(|(at, count)| Mutation::Delete(at, count)),
        3 => place().prop_map(Mutation::Cut),
    ]
}

fn mutate(body: &mut Vec<u8>, mutation: Mutation) {
    let end = body.len();
    match mutation {
        Mutation::Line(place, line) => {
            let starts = body.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            let mut starts: Vec<usize> = starts.map(|(newline, _)| newline + 1).collect();
            starts.push(0);
            let at = *place.get(&starts);
            body.splice(at..at, line.into_iter().chain(*b"\n"));
        }
        Mutation::Insert(place, bytes) => {
            let at = place.index(end + 1);
            body.splice(at..at, bytes);
        }
        Mutation::Delete(place, count) => {
            let at = place.index(end + 1);
            body.drain(at..end.min(at + count));
        }
        Mutation::Cut(place) => body.truncate(place.index(end + 1)),
        Mutation::Replace(..) | Mutation::Flip(..) if body.is_empty() => {}
        Mutation::Replace(place, byte) => body[place.index(end)] = byte,
        Mutation::Flip(place, bit) => body[place.index(end)] ^= bit,
    }
}

/// Odd bodies with lines that GRAMMAR.md refuses and with bytes flipped, lost, added and cut off.
pub fn hostile_body() -> impl Strategy<Value = Vec<u8>> {
    let mutated = (odd_body(), vec(mutation(), 1..4)).prop_map(|(mut body, mutations)| {
        for mutation in mutations {
            mutate(&mut body, mutation);
        }
        body
    });
    prop_oneof![
        12 => mutated,
        1 => vec(any::<u8>(), 0..200),
        1 => vec(select(TELLING), 0..60),
    ]
}
