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
//! for each label behind them
//!     if the text here is `name="` as this place had it in the line before: nothing to check
//!     otherwise read the name, and compare it with the names so far and with the injected ones
//!     find the closing quote
//! read the value: digits up to the newline, or else a float, or else give up
//! ```

use std::borrow::Cow;

use crate::error::LineFault;
use crate::labels::TargetLabels;
use crate::limits::Limits;
use crate::rules::Labels;
use crate::sample::check_utf8;
use crate::scan::{self, Quotes, Short};
use crate::{number, text};

/// Reads canonical lines of one buffer, in order.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Labels of the last line, as offsets from its beginning (which the common prefix makes valid for the
    /// next line); behind `count` those of an earlier one.
    labels: [CanonicalLabel; MOST_LABELS],
    count: usize,
    /// Where the last line stands in the buffer; `None` at the beginning of one.
    last: Option<Place>,
    /// Label values known to be floats, each in the place its hash says. The same bounds come again with
    /// every series of a histogram.
    floats: [Short; FLOATS],
    /// Names known to be valid and not injected, each in its place.
    names: [NameKey; NAMES],
    /// `__name__`
    reserved: NameKey,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    end: usize,
    name_end: usize,
    braces: bool,
}

/// `name="value"`.
#[derive(Clone, Copy, Debug)]
struct CanonicalLabel {
    key: NameKey,
    start: u32,
    /// Behind the opening quote.
    value: u32,
    /// The closing quote.
    value_end: u32,
}

/// A label name as it stands in a canonical line: `name="`, or the first sixteen bytes of that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameKey(Short);

/// A name holds no NUL.
impl PartialEq for NameKey {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.0.has_bytes_of(&other.0)
    }
}

impl NameKey {
    pub(crate) fn of(name: &[u8]) -> Self {
        Self(Short::of(&[name, b"=\""].concat()))
    }

    #[inline]
    fn place(self) -> usize {
        (self.0.hash() >> (u64::BITS - NAMES.ilog2())) as usize
    }
}

/// Knows quickly which names have not been seen: 256 bits, one for each name, so that a dozen names make
/// a false alarm rare.
#[derive(Clone, Copy, Debug, Default)]
struct NameFilter([u64; 4]);

impl NameFilter {
    /// Adds a name; whether it may have been there before.
    #[inline]
    fn add(&mut self, key: NameKey) -> bool {
        let hash = key.0.hash();
        let word = &mut self.0[(hash >> 62) as usize];
        let bit = 1 << (hash >> 56 & 63);
        let seen = *word & bit != 0;
        *word |= bit;
        seen
    }
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
const MOST_LABELS: usize = 32;

/// The kube-apiserver has about a hundred different bounds. A table that is too small costs time, not more.
const FLOATS: usize = 256;

/// It has about fifty label names; with ten times as many places two of them seldom want the same.
const NAMES: usize = 512;

impl Default for Reader {
    fn default() -> Self {
        let nothing = CanonicalLabel { key: NameKey::of(b""), start: 0, value: 0, value_end: 0 };
        Self {
            labels: [nothing; MOST_LABELS],
            count: 0,
            last: None,
            // Any float will do for the places not in use.
            floats: [Short::of(b"0"); FLOATS],
            // What no line has where a name is expected.
            names: [NameKey::of(b"\n"); NAMES],
            reserved: NameKey::of(b"__name__"),
        }
    }
}

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
        self.last =
            found.map(|found| Place { start, end: start + found.end, name_end: found.name_end, braces: found.labels });
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
                // The last label has the brace behind it, not a comma: it is read again.
                if last.braces && common >= self.labels[0].value_end as usize + 2 {
                    kept = self.count.saturating_sub(1);
                    while kept > 0 && self.labels[kept - 1].value_end as usize + 2 > common {
                        kept -= 1;
                    }
                }
            }
        }
        if !same_name {
            name_end = scan::metric_name_end(line, 0);
            if name_end == 0 || name_end > Limits::NAME_BYTES || line[0].is_ascii_digit() {
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
    // Not inlined: it is a loop of its own and wants the registers.
    #[inline(never)]
    fn read_labels(&mut self, line: &[u8], mut at: usize, kept: usize, target: &TargetLabels) -> Option<usize> {
        let mut place = kept;
        // As long as each name is the one the line before had in this place, none can clash. From the
        // first that is not, `filter` knows the names so far.
        let mut repeating = true;
        let mut filter = NameFilter::default();
        let mut quotes = Quotes::new(line, at);
        loop {
            let open = quotes.next()?;
            let (earlier, rest) = self.labels.split_at_mut_checked(place)?;
            let label = rest.first_mut()?;
            if !(repeating && place < self.count && label.key.0.is_at(line, at)) {
                let key = NameKey(Short::read(line, at, (open + 1).checked_sub(at)?)?);
                let known = &mut self.names[key.place()];
                if *known != key {
                    let clashes = || key == self.reserved || target.iter().any(|injected| injected.key == key);
                    if !scan::is_label_name(line, at, open) || clashes() {
                        return None;
                    }
                    if key.0.is_whole() {
                        *known = key;
                    }
                }
                if repeating {
                    repeating = false;
                    for label in &*earlier {
                        filter.add(label.key);
                    }
                }
                if filter.add(key) && earlier.iter().any(|label| label.key == key) {
                    return None;
                }
                label.key = key;
            }
            let close = if let Some(close) = quotes.next() {
                close
            } else {
                let close = read_odd_string(line, open + 1)?;
                quotes = Quotes::new(line, close + 1);
                close
            };
            (label.start, label.value, label.value_end) = (at as u32, open as u32 + 1, close as u32);
            place += 1;
            match line[close + 1] {
                b',' => at = close + 2,
                b'}' => {
                    self.count = place;
                    return Some(close + 2);
                }
                _ => return None,
            }
        }
    }

    /// Whether the last line's label of this name, if it has one, is a float.
    #[inline]
    pub(crate) fn has_float(&mut self, line: &[u8], name: NameKey) -> bool {
        let Some(label) = self.labels[..self.count].iter().rev().find(|label| label.key == name) else {
            return true;
        };
        let (start, end) = (label.value as usize, label.value_end as usize);
        let is_float = || number::check_float(&line[start..end]).is_ok();
        let Some(value) = Short::read(line, start, end - start).filter(Short::is_whole) else {
            return is_float();
        };
        let slot = &mut self.floats[(value.hash() >> (u64::BITS - FLOATS.ilog2())) as usize];
        if *slot != value {
            if !is_float() {
                return false;
            }
            *slot = value;
        }
        true
    }

    /// The last line's labels as rules see them; not one of them clashes with an injected one.
    pub(crate) fn labels<'a>(&'a self, line: &'a [u8], target: &'a TargetLabels) -> CanonicalLabels<'a> {
        CanonicalLabels { line, labels: &self.labels[..self.count], target }
    }
}

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
        let own =
            self.labels.iter().rev().find(|label| &self.line[label.start as usize..label.value as usize - 2] == name);
        match own {
            Some(label) => Some(text::unescape(&self.line[label.value as usize..label.value_end as usize])),
            None => self.target.get(name).map(|label| Cow::Borrowed(label.value.as_bytes())),
        }
    }
}
