//! The quick way through a sample line.
//!
//! Exporters write samples in one shape: `name{a="1",b="2"} 3`, no blanks but one before the value, bare names,
//! no trailing comma. This reader recognises that shape and nothing else: whatever departs from it (or has labels that
//! clash with each other or with the injected ones) is `None`, and [`Sample`](crate::sample::Sample) judges it. So an error is never
//! decided here, and a line that is accepted here is accepted there, unchanged.
//!
//! What makes it quick is that a line mostly repeats the one before it. In pseudo code:
//!
//! ```text
//! common = bytes this line has in common with the line before
//! keep the labels that lie wholly in `common`, with the comma behind them: they were read before
//! read the rest: for each label
//!     classify 32 bytes at once; the name's end and both quotes are bit positions
//!     is the name the one this place had in the line before?  then it clashes with nothing, as before
//!     otherwise compare it with the names read so far and with the injected names
//! read the value: digits up to the newline, or else a float, or else give up
//! ```

use std::borrow::Cow;

use crate::error::LineFault;
use crate::labels::TargetLabels;
use crate::rules::Labels;
use crate::sample::check_utf8;
use crate::scan::{self, LabelKey, LabelWindow};
use crate::{number, text};

/// Reads canonical lines of one buffer, in order.
///
/// Labels are remembered between lines as offsets from their line's beginning, which the common prefix
/// makes valid for the next line.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Labels of the last line; with those behind `count` of an earlier one.
    labels: Vec<CanonicalLabel>,
    count: usize,
    /// Where the last line stands in the buffer; `None` at the beginning of one.
    last: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    end: usize,
    name_end: usize,
    braces: bool,
}

/// `name="value"`: the name starts at `start`, the value two bytes behind `name_end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanonicalLabel {
    key: LabelKey,
    start: u32,
    name_end: u32,
    /// The closing quote.
    value_end: u32,
}

/// A line in canonical shape. Offsets count from its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) name_end: usize,
    /// Whether there are labels; they start at `name_end + 1` then.
    pub(crate) labels: bool,
    /// The newline.
    pub(crate) end: usize,
    /// The name is that of the line read before, in the same buffer.
    pub(crate) same_name: bool,
}

/// More labels than this are left to the slow way, whose comparison of names grows more slowly.
const MOST_LABELS: usize = 48;

impl Reader {
    /// To be called for each new buffer, and when a line was read in another way.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// Reads the line that starts at `start`, if it is canonical. `buf` ends with a newline.
    #[inline]
    pub(crate) fn read(&mut self, buf: &[u8], start: usize, target: &TargetLabels) -> Option<Line> {
        let line = &buf[start..];
        let found = self.read_line(line, buf, target);
        if found.is_none() {
            // The labels are those of two lines now, and nobody has compared them with each other.
            self.count = 0;
        }
        self.last = found.map(|found| Place {
            start,
            end: start + found.end,
            name_end: found.name_end,
            braces: found.labels,
        });
        found
    }

    #[inline]
    fn read_line(&mut self, line: &[u8], buf: &[u8], target: &TargetLabels) -> Option<Line> {
        let mut kept = 0;
        let mut same_name = false;
        let mut name_end = 0;
        if let Some(last) = self.last {
            let common = scan::common_prefix(&buf[last.start..last.end], line);
            // The byte behind the name is in the prefix too, so the name ends here as it did there.
            same_name = common > last.name_end;
            if same_name {
                name_end = last.name_end;
                if last.braces {
                    kept = self.count;
                    while kept > 0 && self.labels[kept - 1].value_end as usize + 2 > common {
                        kept -= 1;
                    }
                }
            }
        }
        if !same_name {
            name_end = scan::metric_name_end(line, 0);
            if name_end == 0 || line[0].is_ascii_digit() {
                return None;
            }
        }
        let braces = line[name_end] == b'{';
        let mut at = name_end;
        if braces {
            let from = if kept > 0 { self.labels[kept - 1].value_end as usize + 2 } else { name_end + 1 };
            at = self.read_labels(line, from, kept, target)?;
        } else {
            self.count = 0;
        }
        let end = read_point(line, at)?;
        Some(Line { name_end, labels: braces, end, same_name })
    }

    /// Reads labels from `at` on, behind the first `kept`; the offset behind the closing brace.
    #[inline]
    fn read_labels(&mut self, line: &[u8], mut at: usize, kept: usize, target: &TargetLabels) -> Option<usize> {
        let mut place = kept;
        let before = self.count;
        // As long as each name is the one the line before had in this place, none can clash.
        let mut repeating = true;
        loop {
            let window = LabelWindow::read(line, at)?;
            let mut name_len = window.name_len();
            let (open, close) = window.first_two_stops();
            let in_window = name_len < LabelWindow::NAME;
            if !in_window {
                name_len = scan::label_name_end(line, at) - at;
            } else if open != name_len + 1 {
                return None;
            }
            let name_end = at + name_len;
            if name_len == 0
                || line[at].is_ascii_digit()
                || line[name_end] != b'='
                || line[name_end + 1] != b'"'
            {
                return None;
            }
            let value = name_end + 2;
            let stop = match (in_window, close < LabelWindow::BYTES) {
                (true, true) => at + close,
                (true, false) => scan::string_stop(line, at + LabelWindow::BYTES),
                (false, _) => scan::string_stop(line, value),
            };
            let value_end = if line[stop] == b'"' { stop } else { read_odd_string(line, value)? };
            let label = CanonicalLabel {
                key: window.key(name_len),
                start: at as u32,
                name_end: name_end as u32,
                value_end: value_end as u32,
            };
            repeating = repeating
                && place < before
                && label.key.is_whole_name()
                && self.labels[place].key == label.key;
            if !repeating && self.clashes(place, label.key, target) {
                return None;
            }
            match self.labels.get_mut(place) {
                Some(slot) => *slot = label,
                None if place < MOST_LABELS => self.labels.push(label),
                None => return None,
            }
            place += 1;
            match line[value_end + 1] {
                b',' => at = value_end + 2,
                b'}' => {
                    self.count = place;
                    return Some(value_end + 2);
                }
                _ => return None,
            }
        }
    }

    /// Whether the name is, or may be, that of an earlier label or of an injected one.
    fn clashes(&self, place: usize, key: LabelKey, target: &TargetLabels) -> bool {
        // Keys of long names may be equal though the names differ; then the slow way decides.
        let own = self.labels[..place].iter().fold(false, |found, earlier| found | (earlier.key == key));
        let injected = target.iter().fold(false, |found, other| found | (other.key == key));
        own | injected | (key == RESERVED)
    }

    /// The raw value of the last line's label of this name, which is shorter than sixteen bytes.
    #[inline]
    pub(crate) fn value_of<'a>(&self, line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
        let key = LabelKey::of(name);
        let label = self.labels[..self.count].iter().rev().find(|label| label.key == key)?;
        Some(&line[label.name_end as usize + 2..label.value_end as usize])
    }

    /// The last line's labels as rules see them. `None` of them clashes with an injected one.
    pub(crate) fn labels<'a>(&'a self, line: &'a [u8], target: &'a TargetLabels) -> CanonicalLabels<'a> {
        CanonicalLabels { line, labels: &self.labels[..self.count], target }
    }
}

/// `__name__` must not be a label.
const RESERVED: LabelKey = LabelKey::reserved();

/// The end of a string that holds an escape or a non-ASCII byte, if it needs no repair.
#[cold]
fn read_odd_string(line: &[u8], value: usize) -> Option<usize> {
    let mut at = value;
    loop {
        at = scan::string_stop(line, at);
        match (line[at], line.get(at + 1)) {
            (b'"', _) => break,
            (b'\\', Some(b'\\' | b'"' | b'n')) => at += 2,
            (b'\\' | b'\n', _) => return None,
            _ => at += 1,
        }
    }
    let valid: Result<(), LineFault> = check_utf8(&line[value..at]);
    valid.is_ok().then_some(at)
}

/// The newline behind ` value` or ` value timestamp`, of which the first byte is at `at`.
#[inline]
fn read_point(line: &[u8], at: usize) -> Option<usize> {
    /// Fewer digits than int64 has, so no comparison with its largest value is needed.
    const SAFE_DIGITS: usize = 18;
    if line[at] != b' ' {
        return None;
    }
    let value = at + 1;
    let mut end = scan::digits_end(line, value);
    if line[end] != b'\n' || end == value {
        end = number::plain_float_end(line, value)?;
        if line[end] == b' ' {
            let timestamp = end + 1;
            end = scan::digits_end(line, timestamp);
            if end == timestamp || end - timestamp > SAFE_DIGITS {
                return None;
            }
        }
    } else if end - value > SAFE_DIGITS {
        number::plain_float_end(line, value)?;
    }
    (line[end] == b'\n').then_some(end)
}

/// The labels of a canonical line and the injected ones.
pub(crate) struct CanonicalLabels<'a> {
    line: &'a [u8],
    labels: &'a [CanonicalLabel],
    target: &'a TargetLabels,
}

impl Labels for CanonicalLabels<'_> {
    fn get(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        // From the end: `le` and `quantile` come last.
        let own = self.labels.iter().rev().find(|label| {
            &self.line[label.start as usize..label.name_end as usize] == name
        });
        match own {
            Some(label) => {
                Some(text::unescape(&self.line[label.name_end as usize + 2..label.value_end as usize]))
            }
            None => self.target.get(name).map(|label| Cow::Borrowed(label.value.as_bytes())),
        }
    }
}
