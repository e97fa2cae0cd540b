//! A rule's anchored pattern, as a set of literals and prefixes where it is one.
//!
//! Nearly every pattern in use is an alternation of names (`(a|b|c)`), of beginnings (`etcd_(debugging|disk).*`) or
//! a name and something else (`name;(0.15|0.25)`). The first two need no regex engine at all; of the third the
//! beginning says which names it can ever match.

use ahash::AHashSet;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::dialect;

#[derive(Debug)]
pub(super) enum Pattern {
    /// Matches these texts and whatever begins with one of these prefixes.
    Set { texts: AHashSet<Box<[u8]>>, prefixes: Vec<Box<[u8]>> },
    /// Anything else. Whatever it matches begins with `beginning`.
    Regex { regex: Regex, beginning: Box<[u8]> },
}

/// A text the pattern matches, or (`open`) the beginning of all texts it matches.
#[derive(Clone, Debug, Default)]
struct Branch {
    text: Vec<u8>,
    open: bool,
}

/// More branches than this stay a regex: a pattern of nested alternations multiplies.
const MOST_BRANCHES: usize = 1024;

/// Bound on a compiled pattern, as the regex crate's own default: past it the pattern is refused, not
/// the memory taken.
const SIZE_LIMIT: usize = 10 << 20;

/// Bound on what a matcher remembers of the texts it has seen; past it the matcher starts anew. A rule's pattern
/// needs a fraction of this, and hostile label values get no more.
const DFA_SIZE_LIMIT: usize = 256 << 10;

impl Pattern {
    pub(super) fn compile(pattern: &str) -> Result<Self, String> {
        // The pattern alone must be valid: `a)|(b` is only so between our parentheses.
        let pattern = &dialect::translate(pattern)?;
        // The whole joined value, with `.` matching a newline, as Prometheus 3 anchors.
        let anchored = format!("^(?s:{pattern})$");
        let regex = RegexBuilder::new(&anchored)
            .size_limit(SIZE_LIMIT)
            .dfa_size_limit(DFA_SIZE_LIMIT)
            .build()
            .map_err(one_line)?;
        let hir =
            ParserBuilder::new().utf8(false).dot_matches_new_line(true).build().parse(pattern).map_err(one_line)?;
        Ok(match branches(&hir) {
            Some(branches) => {
                let (open, closed): (Vec<_>, Vec<_>) = branches.into_iter().partition(|branch| branch.open);
                let boxed = |branch: Branch| branch.text.into_boxed_slice();
                Self::Set {
                    texts: closed.into_iter().map(boxed).collect(),
                    prefixes: open.into_iter().map(boxed).collect(),
                }
            }
            None => Self::Regex { regex, beginning: beginning(&hir).into() },
        })
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Set { texts, prefixes } => {
                texts.contains(text) || prefixes.iter().any(|prefix| text.starts_with(prefix))
            }
            Self::Regex { regex, beginning } => text.starts_with(beginning) && regex.is_match(text),
        }
    }

    /// False if nothing that begins with `text` can match.
    pub(super) fn may_begin_with(&self, text: &[u8]) -> bool {
        let compatible = |other: &[u8]| text.starts_with(other) || other.starts_with(text);
        match self {
            Self::Set { texts, prefixes } => {
                texts.iter().any(|other| other.starts_with(text)) || prefixes.iter().any(|other| compatible(other))
            }
            Self::Regex { beginning, .. } => compatible(beginning),
        }
    }
}

/// The last line of what the compiler says; the others draw the pattern.
fn one_line(error: impl std::fmt::Display) -> String {
    error.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_string()
}

/// All that the pattern matches, if that is a small set of texts and prefixes.
fn branches(hir: &Hir) -> Option<Vec<Branch>> {
    match hir.kind() {
        HirKind::Empty => Some(vec![Branch::default()]),
        HirKind::Literal(literal) => Some(vec![Branch { text: literal.0.to_vec(), open: false }]),
        HirKind::Capture(capture) => branches(&capture.sub),
        HirKind::Class(class) => class_branches(class),
        HirKind::Repetition(repetition) => match (repetition.min, repetition.max) {
            (0, None) if is_any(&repetition.sub) => Some(vec![Branch { text: Vec::new(), open: true }]),
            (0, Some(1)) => {
                let mut all = branches(&repetition.sub)?;
                all.push(Branch::default());
                Some(all)
            }
            _ => None,
        },
        HirKind::Alternation(alternatives) => {
            let mut all = Vec::new();
            for alternative in alternatives {
                all.extend(branches(alternative)?);
                if all.len() > MOST_BRANCHES {
                    return None;
                }
            }
            Some(all)
        }
        HirKind::Concat(parts) => {
            let mut all = vec![Branch::default()];
            for part in parts {
                let next = branches(part)?;
                // What follows an open branch would have to be found in the middle of the text.
                if all.iter().any(|branch| branch.open) || all.len() * next.len() > MOST_BRANCHES {
                    return None;
                }
                let joined = all.iter().flat_map(|head| {
                    next.iter().map(|tail| Branch { text: [&head.text[..], &tail.text].concat(), open: tail.open })
                });
                all = joined.collect();
            }
            Some(all)
        }
        HirKind::Look(_) => None,
    }
}

/// The members of a class of few ASCII characters.
fn class_branches(class: &Class) -> Option<Vec<Branch>> {
    const MOST_MEMBERS: usize = 16;
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
    };
    let mut all = Vec::new();
    for (start, end) in ranges {
        if end > 0x7f || all.len() + (end - start) as usize >= MOST_MEMBERS {
            return None;
        }
        all.extend((start..=end).map(|byte| Branch { text: vec![byte as u8], open: false }));
    }
    Some(all)
}

/// Whether this is `.` with newlines.
fn is_any(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            matches!(class.ranges(), [only] if only.start() == '\0' && only.end() == char::MAX)
        }
        _ => false,
    }
}

/// A text that all matches begin with.
fn beginning(hir: &Hir) -> Vec<u8> {
    match hir.kind() {
        HirKind::Literal(literal) => literal.0.to_vec(),
        HirKind::Capture(capture) => beginning(&capture.sub),
        HirKind::Concat(parts) => {
            let mut text = Vec::new();
            for part in parts {
                text.extend(beginning(part));
                if !matches!(part.kind(), HirKind::Literal(_)) {
                    break;
                }
            }
            text
        }
        _ => Vec::new(),
    }
}
