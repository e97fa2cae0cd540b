//! What becomes of a sample's own labels beside the injected ones.
//!
//! The rule is Prometheus' own (`mutateSampleLabels` and `resolveConflictingExposedLabels` in its scrape
//! package): with `honor_labels: false` the injected label wins and the sample's is renamed; with `true` the
//! sample's label wins, an empty one too.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::labels::TargetLabels;
use crate::rules::Labels;
use crate::sample::{Label, Sample};
use crate::text;

const EXPORTED: &[u8] = b"exported_";

/// A sample with its conflicts resolved: what is written and what rules see.
pub(crate) struct Resolved<'a> {
    line: &'a [u8],
    sample: &'a Sample,
    target: &'a TargetLabels,
    /// One for each label of the sample.
    fates: SmallVec<[Fate; 16]>,
    /// Injected labels give way to the sample's.
    honor: bool,
}

/// What became of a label that clashed with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelChange {
    /// The sample's label has another name now, since it had that of an injected one.
    Renamed {
        /// The name it came under.
        from: String,
        /// The name it is written under.
        to: String,
    },
    /// The sample's label is empty, which is the same as absent, and its name is needed: it is not written.
    LeftOut(String),
    /// The injected label is not written, since the sample has one of that name and is honoured.
    Honored(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    /// Empty, and its name is needed.
    Dropped,
    /// Renamed, with `exported_` this often before its name.
    Exported(u32),
}

impl<'a> Resolved<'a> {
    pub(crate) fn new(line: &'a [u8], sample: &'a Sample, target: &'a TargetLabels, honor: bool) -> Self {
        let fates = smallvec::smallvec![Fate::Kept; sample.labels.len()];
        let mut resolved = Self { line, sample, target, fates, honor };
        if !honor {
            resolved.rename();
        }
        resolved
    }

    fn rename(&mut self) {
        let mut conflicts: SmallVec<[(&[u8], usize); 8]> = SmallVec::new();
        for label in self.target.iter() {
            let name = label.name.as_bytes();
            match self.position(name) {
                Some(at) if self.sample.labels[at].value.is_empty() => self.fates[at] = Fate::Dropped,
                Some(at) => conflicts.push((name, at)),
                None => {}
            }
        }
        conflicts.sort_by_key(|&(name, _)| (name.len(), name));
        let mut new_name = Vec::new();
        for (name, at) in conflicts {
            new_name.clear();
            new_name.extend_from_slice(name);
            let mut times = 0;
            loop {
                new_name.splice(..0, EXPORTED.iter().copied());
                times += 1;
                if self.get(&new_name).is_none_or(|value| value.is_empty()) {
                    break;
                }
            }
            if let Some(empty) = self.position(&new_name) {
                self.fates[empty] = Fate::Dropped;
            }
            self.fates[at] = Fate::Exported(times);
        }
    }

    /// Where labels clashed; injected ones first, the sample's in the order they came.
    pub(crate) fn changes(&self) -> Vec<LabelChange> {
        let injected = self.target.iter().filter(|label| self.honor && self.position(label.name.as_bytes()).is_some());
        let honored = injected.map(|label| LabelChange::Honored(label.name.to_string()));
        let own = self.sample.labels.iter().zip(&self.fates).filter_map(|(label, fate)| {
            let raw = label.name.span.of(self.line);
            let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            match fate {
                Fate::Kept => None,
                Fate::Dropped => Some(LabelChange::LeftOut(text(raw))),
                Fate::Exported(times) => {
                    let to = [&EXPORTED.repeat(*times as usize), raw].concat();
                    Some(LabelChange::Renamed { from: text(raw), to: text(&to) })
                }
            }
        });
        honored.chain(own).collect()
    }

    /// Writes the braces and what is in them; nothing for a sample that has neither a label nor a quoted name.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let name = self.sample.name;
        let before = out.len();
        out.push(b'{');
        if name.quoted {
            out.push(b'"');
            text::repair_string_into(out, name.span.of(self.line));
            out.extend_from_slice(b"\",");
        }
        for label in self.target.iter() {
            if !(self.honor && self.position(label.name.as_bytes()).is_some()) {
                label.write(out);
                out.push(b',');
            }
        }
        for (label, fate) in self.sample.labels.iter().zip(&self.fates) {
            if *fate != Fate::Dropped {
                self.write_label(out, label, *fate);
                out.push(b',');
            }
        }
        if out.len() == before + 1 {
            out.truncate(before);
        } else {
            // The comma behind the last item.
            out.pop();
            out.push(b'}');
        }
    }

    fn write_label(&self, out: &mut Vec<u8>, label: &Label, fate: Fate) {
        if let Fate::Exported(times) = fate {
            for _ in 0..times {
                out.extend_from_slice(EXPORTED);
            }
        }
        if label.name.quoted {
            out.push(b'"');
            text::repair_string_into(out, label.name.span.of(self.line));
            out.push(b'"');
        } else {
            out.extend_from_slice(label.name.span.of(self.line));
        }
        out.extend_from_slice(b"=\"");
        text::repair_string_into(out, label.value.of(self.line));
        out.push(b'"');
    }

    /// The sample's label that came under this legacy name.
    fn position(&self, name: &[u8]) -> Option<usize> {
        let labels = &self.sample.labels;
        labels.iter().position(|label| !label.name.quoted && label.name.span.of(self.line) == name)
    }

    fn has_final_name(&self, label: &Label, fate: Fate, name: &[u8]) -> bool {
        let raw = label.name.span.of(self.line);
        match fate {
            Fate::Kept if label.name.quoted => raw.len() >= name.len() && text::unescape(raw) == name,
            Fate::Kept => raw == name,
            Fate::Dropped => false,
            Fate::Exported(times) => {
                let stripped = (0..times).try_fold(name, |rest, _| rest.strip_prefix(EXPORTED));
                stripped == Some(raw)
            }
        }
    }
}

impl Labels for Resolved<'_> {
    fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let injected = || self.target.get(name).map(|label| Cow::Borrowed(label.value.as_bytes()));
        let own = || {
            let mut labels = self.sample.labels.iter().zip(&self.fates);
            let found = labels.find(|(label, fate)| self.has_final_name(label, **fate, name));
            found.map(|(label, _)| text::unescape(label.value.of(self.line)))
        };
        if self.honor { own().or_else(injected) } else { injected().or_else(own) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewrite(line: &str, target: &[(&str, &str)], honor: bool) -> String {
        let line = format!("{line}\n");
        let mut sample = Sample::default();
        sample.read(line.as_bytes()).unwrap();
        let target = TargetLabels::new(target.iter().copied()).unwrap();
        let mut out = Vec::new();
        Resolved::new(line.as_bytes(), &sample, &target, honor).write(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// The vectors of Prometheus' `TestScrapeLoopAppendForConflictingPrefixedLabels`, in our words.
    #[test]
    fn conflicts_are_renamed_as_prometheus_renames_them() {
        let cases = [
            (r#"m{foo="1"} 0"#, vec![("foo", "2")], r#"{foo="2",exported_foo="1"}"#),
            (r#"m{foo="1"} 0"#, vec![("exported_foo", "2")], r#"{exported_foo="2",foo="1"}"#),
            (
                r#"m{foo="1",exported_foo="2"} 0"#,
                vec![("foo", "3")],
                r#"{foo="3",exported_exported_foo="1",exported_foo="2"}"#,
            ),
            (
                r#"m{foo="1",exported_foo="3"} 0"#,
                vec![("foo", "2"), ("exported_foo", "4")],
                r#"{foo="2",exported_foo="4",exported_exported_foo="1",exported_exported_exported_foo="3"}"#,
            ),
            (
                r#"m{foo="1",exported_exported_foo="2"} 0"#,
                vec![("foo", "3"), ("exported_foo", "4")],
                r#"{foo="3",exported_foo="4",exported_exported_exported_foo="1",exported_exported_foo="2"}"#,
            ),
        ];
        for (line, target, expected) in cases {
            assert_eq!(rewrite(line, &target, false), expected, "{line}");
        }
    }

    #[test]
    fn an_empty_label_counts_as_absent() {
        let target = [("foo", "2")];
        assert_eq!(rewrite(r#"m{foo=""} 0"#, &target, false), r#"{foo="2"}"#);
        assert_eq!(rewrite(r#"m{foo="1",exported_foo=""} 0"#, &target, false), r#"{foo="2",exported_foo="1"}"#);
        assert_eq!(rewrite(r#"m{a=""} 0"#, &target, false), r#"{foo="2",a=""}"#);
    }

    #[test]
    fn honored_labels_win_even_when_empty() {
        let target = [("foo", "2"), ("bar", "3")];
        assert_eq!(rewrite(r#"m{foo="1"} 0"#, &target, true), r#"{bar="3",foo="1"}"#);
        assert_eq!(rewrite(r#"m{foo="",bar=""} 0"#, &target, true), r#"{foo="",bar=""}"#);
        assert_eq!(rewrite("m 0", &[], true), "");
    }
}
