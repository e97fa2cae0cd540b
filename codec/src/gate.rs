//! What becomes of the samples of one name.
//!
//! Everything that depends on the name alone is decided when the name first comes up, and kept for the samples that
//! follow: family, rules, reserved names, and the text up to the end of the injected labels.

use std::sync::Arc;

use crate::Names;
use crate::canonical::NameKey;
use crate::family::{Metadata, MetricType};
use crate::labels::TargetLabels;
use crate::rules::{Answers, Labels, Rules, Scratch, Verdict};
use crate::synthetic;

/// The decisions for the last few names.
#[derive(Debug)]
pub(crate) struct Gate {
    rules: Arc<Rules>,
    names: Names,
    /// A histogram goes round `_bucket`, `_sum` and `_count` with each of its series, so the last decision
    /// alone would be made again three times a series.
    decisions: [Decision; 4],
    /// The one for the name at hand.
    current: usize,
    /// The one to be replaced next.
    oldest: usize,
    scratch: Scratch,
}

/// The decision for one name.
#[derive(Debug)]
struct Decision {
    /// The name, unescaped; meaningless unless `valid`.
    name: Vec<u8>,
    valid: bool,
    fate: NameFate,
    /// Belongs to the family the pod has declared.
    declared: bool,
    /// The label that must be a float, if the family's type has one.
    bound: Option<(&'static [u8], NameKey)>,
    answers: Answers,
    /// `name{injected,`: what every canonical sample of this name begins with.
    prefix: Vec<u8>,
}

#[derive(Debug)]
enum NameFate {
    Rules(Verdict),
    Dropped(DropReason),
}

/// Why a valid sample is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// A relabel rule.
    Rule,
    /// The name of a family that the merge writes itself.
    Reserved,
    /// A name outside the legacy character set, for a scraper that cannot read it.
    Name,
}

impl Gate {
    pub(crate) fn new(rules: Arc<Rules>, names: Names) -> Self {
        let decisions = std::array::from_fn(|_| Decision::default());
        Self { rules, names, decisions, current: 0, oldest: 0, scratch: Scratch::default() }
    }

    /// To be called when the declared family changes.
    pub(crate) fn forget(&mut self) {
        for decision in &mut self.decisions {
            decision.valid = false;
        }
    }

    /// Whether there is a name at hand.
    #[inline]
    pub(crate) fn is_valid(&self) -> bool {
        self.decisions[self.current].valid
    }

    /// Turns to `name` (unescaped); whether it is another than before.
    pub(crate) fn turn_to(&mut self, name: &[u8], family: &Metadata, target: &TargetLabels) -> bool {
        if self.decisions[self.current].is_for(name) {
            return false;
        }
        let known = self.decisions.iter().position(|decision| decision.is_for(name));
        self.current = known.unwrap_or_else(|| {
            let replaced = self.oldest;
            self.oldest = (replaced + 1) % self.decisions.len();
            self.decisions[replaced].set(name, &self.rules, family, target);
            replaced
        });
        true
    }

    /// Decides one sample of the current name. `unreadable`: one of its names is outside the legacy set.
    #[inline]
    pub(crate) fn admits(&mut self, unreadable: bool, labels: &impl Labels) -> Result<(), DropReason> {
        if unreadable && self.names == Names::Legacy {
            return Err(DropReason::Name);
        }
        let Decision { fate, answers, name, .. } = &mut self.decisions[self.current];
        match fate {
            NameFate::Rules(Verdict::Keep) => Ok(()),
            NameFate::Rules(Verdict::Drop) => Err(DropReason::Rule),
            NameFate::Rules(Verdict::Check(rules)) => {
                let passes = answers.passes(&self.rules, rules, name, labels, &mut self.scratch);
                if passes { Ok(()) } else { Err(DropReason::Rule) }
            }
            NameFate::Dropped(reason) => Err(*reason),
        }
    }

    /// Whether every sample of the current name is admitted that the scraper can read.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.decisions[self.current].fate, NameFate::Rules(Verdict::Keep))
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.decisions[self.current].name
    }

    pub(crate) fn is_declared(&self) -> bool {
        self.decisions[self.current].declared
    }

    pub(crate) fn bound(&self) -> Option<&'static [u8]> {
        self.decisions[self.current].bound.map(|(label, _)| label)
    }

    #[inline]
    pub(crate) fn bound_key(&self) -> Option<NameKey> {
        self.decisions[self.current].bound.map(|(_, key)| key)
    }

    #[inline]
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.decisions[self.current].prefix
    }
}

impl Default for Decision {
    fn default() -> Self {
        Self {
            name: Vec::new(),
            valid: false,
            fate: NameFate::Dropped(DropReason::Name),
            declared: false,
            bound: None,
            answers: Answers::default(),
            prefix: Vec::new(),
        }
    }
}

impl Decision {
    #[inline]
    fn is_for(&self, name: &[u8]) -> bool {
        self.valid && self.name == name
    }

    fn set(&mut self, name: &[u8], rules: &Rules, family: &Metadata, target: &TargetLabels) {
        self.name.clear();
        self.name.extend_from_slice(name);
        self.valid = true;
        self.declared = family.has_member(name);
        let bound = if self.declared { family.kind().and_then(MetricType::bound_label) } else { None };
        self.bound = bound.map(|label| (label, NameKey::of(label)));
        // A member of a pod's own `up` histogram would bring that family's metadata along.
        let reserved = synthetic::is_reserved(name) || self.declared && synthetic::is_reserved(family.name());
        self.fate = if reserved { NameFate::Dropped(DropReason::Reserved) } else { NameFate::Rules(rules.judge(name)) };
        self.answers.forget();
        self.prefix.clear();
        self.prefix.extend_from_slice(name);
        self.prefix.push(b'{');
        self.prefix.extend_from_slice(target.text());
        if !target.text().is_empty() {
            self.prefix.push(b',');
        }
    }
}
