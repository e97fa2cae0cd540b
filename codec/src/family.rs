//! Families: the five types, a pod's declared metadata, and which samples belong to it.

use crate::sample::is_legacy_metric_name;
use crate::text;

/// A metric's type, in the words of text 0.0.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricType {
    Counter,
    Gauge,
    Histogram,
    Summary,
    Untyped,
}

impl MetricType {
    const ALL: [Self; 5] = [Self::Counter, Self::Gauge, Self::Histogram, Self::Summary, Self::Untyped];

    /// The word behind the name in a TYPE line.
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
            Self::Untyped => "untyped",
        }
    }

    /// The type of that word; only these five, only in lower case.
    pub(crate) fn from_keyword(word: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.keyword().as_bytes() == word)
    }

    /// The label that must be a float in this type's samples: promtool refuses the whole response otherwise.
    pub(crate) fn bound_label(self) -> Option<&'static [u8]> {
        match self {
            Self::Histogram => Some(b"le"),
            Self::Summary => Some(b"quantile"),
            _ => None,
        }
    }

    fn suffixes(self) -> &'static [&'static [u8]] {
        match self {
            Self::Histogram => &[b"_bucket", b"_sum", b"_count"],
            Self::Summary => &[b"_sum", b"_count"],
            _ => &[],
        }
    }
}

/// A type as a metadata line gives it, with what OpenMetrics calls differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredType {
    pub(crate) kind: MetricType,
    /// What text 0.0.4 has at the end of the family's name and the metadata line has not.
    pub(crate) name_suffix: &'static [u8],
    /// Further endings of the declared name that samples of this family may have.
    pub(crate) extra_suffixes: &'static [&'static [u8]],
}

impl From<MetricType> for DeclaredType {
    fn from(kind: MetricType) -> Self {
        Self { kind, name_suffix: b"", extra_suffixes: &[] }
    }
}

/// What a pod's metadata lines say about one family. One name and one HELP text are held, each bounded
/// by the line limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metadata {
    /// The family's name in text 0.0.4, unescaped; empty if nothing has been declared yet.
    name: Vec<u8>,
    /// The part of `name` that the metadata lines give.
    declared_len: usize,
    /// As written, repaired; empty for none.
    help: Vec<u8>,
    /// No block has given `help` yet.
    help_due: bool,
    kind: Option<DeclaredType>,
}

impl Metadata {
    /// Notes a HELP line; whether that changed anything.
    pub(crate) fn declare_help(&mut self, name: &[u8], raw: &[u8]) -> bool {
        let renamed = self.declare(name);
        let mut help = Vec::new();
        text::repair_help_into(&mut help, raw);
        let changed = help != self.help;
        self.help = help;
        self.help_due |= changed;
        renamed || changed
    }

    /// Notes a TYPE line; whether that changed anything.
    pub(crate) fn declare_type(&mut self, name: &[u8], kind: DeclaredType) -> bool {
        let renamed = self.declare(name);
        let changed = self.kind != Some(kind);
        self.kind = Some(kind);
        self.name.truncate(self.declared_len);
        self.name.extend_from_slice(kind.name_suffix);
        renamed || changed
    }

    /// Turns to the family of that name; whether it is another one.
    fn declare(&mut self, name: &[u8]) -> bool {
        if self.declared_name() == name {
            return false;
        }
        self.name.clear();
        self.name.extend_from_slice(name);
        self.declared_len = name.len();
        self.help = Vec::new();
        self.kind = None;
        true
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// The name as the metadata lines give it.
    pub(crate) fn declared_name(&self) -> &[u8] {
        &self.name[..self.declared_len]
    }

    pub(crate) fn help(&self) -> &[u8] {
        &self.help
    }

    /// Whether the block that begins now is to give HELP: the first after each HELP line. Were it every block, a pod that changes
    /// between two families could turn eight bytes of samples into a HELP text, again and again.
    pub(crate) fn take_help_due(&mut self) -> bool {
        std::mem::take(&mut self.help_due)
    }

    pub(crate) fn kind(&self) -> Option<MetricType> {
        self.kind.map(|declared| declared.kind)
    }

    /// Whether a sample called `name` (unescaped) belongs to this family.
    pub(crate) fn has_member(&self, name: &[u8]) -> bool {
        if self.name.is_empty() {
            return false;
        }
        if name == self.name {
            return true;
        }
        let Some(declared) = self.kind else { return false };
        let ends_in =
            |stem: &[u8], suffixes: &[&[u8]]| name.strip_prefix(stem).is_some_and(|suffix| suffixes.contains(&suffix));
        ends_in(&self.name, declared.kind.suffixes())
            || ends_in(&self.name[..self.declared_len], declared.extra_suffixes)
    }
}

/// Appends `# HELP name text`.
pub(crate) fn write_help(out: &mut Vec<u8>, name: &[u8], help: &[u8]) {
    write_line(out, b"# HELP ", name, help);
}

/// Appends `# TYPE name keyword`.
pub(crate) fn write_type(out: &mut Vec<u8>, name: &[u8], kind: MetricType) {
    write_line(out, b"# TYPE ", name, kind.keyword().as_bytes());
}

fn write_line(out: &mut Vec<u8>, statement: &[u8], name: &[u8], rest: &[u8]) {
    out.extend_from_slice(statement);
    if is_legacy_metric_name(name) {
        out.extend_from_slice(name);
    } else {
        out.push(b'"');
        text::escape_into(out, name);
        out.push(b'"');
    }
    out.push(b' ');
    out.extend_from_slice(rest);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_what_expfmt_counts_as_such() {
        let mut family = Metadata::default();
        assert!(!family.has_member(b""));
        family.declare_type(b"x", MetricType::Histogram.into());
        for name in ["x", "x_bucket", "x_sum", "x_count"] {
            assert!(family.has_member(name.as_bytes()), "{name}");
        }
        for name in ["x_total", "x_buckets", "y", "xx_sum", "_sum"] {
            assert!(!family.has_member(name.as_bytes()), "{name}");
        }
        family.declare_type(b"x", MetricType::Summary.into());
        assert!(!family.has_member(b"x_bucket"));
        assert!(family.has_member(b"x_sum"));
    }

    #[test]
    fn restating_changes_nothing_and_another_name_forgets() {
        let mut family = Metadata::default();
        assert!(family.declare_help(b"x", b"one"));
        assert!(!family.declare_help(b"x", b"one"));
        assert!(family.declare_type(b"x", MetricType::Gauge.into()));
        assert!(!family.declare_type(b"x", MetricType::Gauge.into()));
        assert!(family.declare_help(b"x", b"two"));
        assert_eq!(family.kind(), Some(MetricType::Gauge));
        assert!(family.declare_type(b"y", MetricType::Gauge.into()));
        assert_eq!(family.help(), b"");
    }
}
