//! Relabel rules: `keep` and `drop` on any labels, as Prometheus applies `metric_relabel_configs`.
//!
//! A body has tens of thousands of samples but only hundreds of names, and neighbours share theirs. So
//! the rules are asked once for each name: most answer for good, because they look at `__name__` only or because their
//! pattern cannot match anything that begins with this name. Only what is left ([`Verdict::Check`]) looks at a
//! sample's labels, and remembers the answer for the values it saw.

mod dialect;
mod pattern;

use std::borrow::Cow;

use ahash::AHashMap;
use smallvec::SmallVec;
use thiserror::Error;

use pattern::Pattern;

/// One rule as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What happens to a sample that matches (`drop`) or does not (`keep`).
    pub action: Action,
    /// The labels whose values are joined; a label the sample lacks counts as empty.
    pub source_labels: Vec<String>,
    /// What stands between the joined values; Prometheus' default is `;`.
    pub separator: String,
    /// Must match the whole joined value. Go's dialect, in Prometheus 3's reading: `.` matches a newline too.
    pub regex: String,
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Only samples that match go on.
    Keep,
    /// Samples that match do not go on.
    Drop,
}

/// A rule that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("rule {}: regex {regex:?}: {reason}", rule + 1)]
pub struct RuleError {
    /// Place in the list, from 0.
    pub rule: usize,
    /// The pattern as given.
    pub regex: String,
    /// What is wrong with it, in one line.
    pub reason: String,
}

/// A compiled list of rules; cheap to share between pods and scrapes.
#[derive(Debug, Default)]
pub struct Rules {
    rules: Vec<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    action: Action,
    sources: SmallVec<[Box<str>; 2]>,
    separator: Box<str>,
    pattern: Pattern,
}

/// A sample's final labels, for rules to look at.
pub(crate) trait Labels {
    /// The unescaped value; `None` if there is no such label.
    fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>>;
}

/// What the rules say about all samples of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Keep,
    Drop,
    /// These rules, in order, depend on the sample's labels; all others let it pass.
    Check(SmallVec<[u16; 4]>),
}

/// The rule that drops a sample, and what it looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The first rule that does not let the sample pass, by place in the list.
    pub rule: usize,
    /// The joined values of its source labels.
    pub value: Vec<u8>,
}

/// A decision and the rule that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the sample goes on.
    pub keep: bool,
    /// The rule that dropped it, by place in the list.
    pub rule: Option<usize>,
}

const NAME: &str = "__name__";

impl Rules {
    /// More rules than this are refused: nobody writes them, and a rule's number fits a `u16`.
    pub const MOST: usize = 10_000;

    /// Compiles the rules; the first that cannot be is the error. There is no partial success: a rule
    /// that is left out would open the gate.
    pub fn compile(rules: &[Rule]) -> Result<Self, RuleError> {
        let compiled = rules.iter().enumerate().map(|(number, rule)| {
            let error = |reason| RuleError { rule: number, regex: rule.regex.clone(), reason };
            if number >= Self::MOST {
                return Err(error(format!("more than {} rules", Self::MOST)));
            }
            Ok(Compiled {
                action: rule.action,
                sources: rule.source_labels.iter().map(|label| label.as_str().into()).collect(),
                separator: rule.separator.as_str().into(),
                pattern: Pattern::compile(&rule.regex).map_err(error)?,
            })
        });
        Ok(Self { rules: compiled.collect::<Result<_, _>>()? })
    }

    /// Decides one sample given its name and a way to look up its labels; for explaining, not for the
    /// data path.
    pub fn decide(&self, name: &str, label: impl Fn(&str) -> Option<String>) -> Decision {
        struct Lookup<F>(F);
        impl<F: Fn(&str) -> Option<String>> Labels for Lookup<F> {
            fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
                let name = std::str::from_utf8(name).ok()?;
                (self.0)(name).map(|value| Cow::Owned(value.into_bytes()))
            }
        }
        let rule = self.refusal(name.as_bytes(), &Lookup(label)).map(|refusal| refusal.rule);
        Decision { keep: rule.is_none(), rule }
    }

    /// Which rule drops a sample called `name` (unescaped), if any.
    pub(crate) fn refusal(&self, name: &[u8], labels: &impl Labels) -> Option<Refusal> {
        let mut value = Vec::new();
        let rule = (0..self.rules.len()).find(|&rule| !self.passes(rule, name, labels, &mut value))?;
        Some(Refusal { rule, value })
    }

    /// What can be said about every sample called `name` (unescaped).
    pub(crate) fn judge(&self, name: &[u8]) -> Verdict {
        let mut check = SmallVec::new();
        for (number, rule) in self.rules.iter().enumerate() {
            match (rule.matches_name(name), rule.action) {
                (Some(true), Action::Drop) | (Some(false), Action::Keep) => return Verdict::Drop,
                (Some(_), _) => {}
                (None, _) => check.push(number as u16),
            }
        }
        if check.is_empty() { Verdict::Keep } else { Verdict::Check(check) }
    }

    fn passes(&self, rule: usize, name: &[u8], labels: &impl Labels, joined: &mut Vec<u8>) -> bool {
        let rule = &self.rules[rule];
        joined.clear();
        rule.join(name, labels, joined);
        rule.pattern.matches(joined) == (rule.action == Action::Keep)
    }
}

impl Compiled {
    /// Whether the pattern matches every sample of this name, none, or it depends.
    fn matches_name(&self, name: &[u8]) -> Option<bool> {
        match &self.sources[..] {
            [] => Some(self.pattern.matches(b"")),
            [only] if &**only == NAME => Some(self.pattern.matches(name)),
            [first, ..] if &**first == NAME => {
                let beginning = [name, self.separator.as_bytes()].concat();
                if self.pattern.may_begin_with(&beginning) { None } else { Some(false) }
            }
            _ => None,
        }
    }

    fn join(&self, name: &[u8], labels: &impl Labels, joined: &mut Vec<u8>) {
        for (place, source) in self.sources.iter().enumerate() {
            if place > 0 {
                joined.extend_from_slice(self.separator.as_bytes());
            }
            if &**source == NAME {
                joined.extend_from_slice(name);
            } else if let Some(value) = labels.get(source.as_bytes()) {
                joined.extend_from_slice(&value);
            }
        }
    }
}

/// What [`Verdict::Check`] answered for the samples of one name.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// By the values of all labels the rules look at, each behind its length.
    known: AHashMap<Box<[u8]>, bool>,
}

/// Texts put together to ask for an answer; one for all names of a pod.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    key: Vec<u8>,
    joined: Vec<u8>,
}

impl Answers {
    /// A histogram has tens of buckets, and `le` is what such rules look at. Past this many different
    /// values the rules are evaluated each time.
    const MOST: usize = 64;
    /// Longer values are not worth keeping.
    const KEY_BYTES: usize = 64;

    /// To be called when the name changes.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
    }

    pub(crate) fn passes(
        &mut self,
        rules: &Rules,
        check: &[u16],
        name: &[u8],
        labels: &impl Labels,
        scratch: &mut Scratch,
    ) -> bool {
        let has_key = scratch.set_key(rules, check, labels);
        if has_key && let Some(&answer) = self.known.get(&scratch.key[..]) {
            return answer;
        }
        let answer = check.iter().all(|&rule| rules.passes(usize::from(rule), name, labels, &mut scratch.joined));
        if has_key && self.known.len() < Self::MOST {
            self.known.insert(scratch.key.as_slice().into(), answer);
        }
        scratch.shrink();
        answer
    }
}

impl Scratch {
    /// What is kept between samples; a longer value's memory is given back at once.
    const KEPT_BYTES: usize = 4096;

    /// Puts together what the answer depends on; false if that is too long to be remembered.
    fn set_key(&mut self, rules: &Rules, check: &[u16], labels: &impl Labels) -> bool {
        self.key.clear();
        for &number in check {
            let sources = &rules.rules[usize::from(number)].sources;
            for source in sources.iter().filter(|source| &***source != NAME) {
                let value = labels.get(source.as_bytes()).unwrap_or_default();
                if self.key.len() + value.len() > Answers::KEY_BYTES {
                    return false;
                }
                self.key.push(value.len() as u8);
                self.key.extend_from_slice(&value);
            }
        }
        true
    }

    fn shrink(&mut self) {
        if self.joined.capacity() > Self::KEPT_BYTES {
            self.joined = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests;
