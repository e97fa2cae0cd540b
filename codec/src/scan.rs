//! Byte runs, sixteen at a time.
//!
//! A line is read as a sequence of runs: name bytes, bytes of a quoted string, digits. Each function
//! here answers "where does this run end" by turning sixteen bytes into a bit mask and counting its
//! trailing zeros, so that a run of up to sixteen bytes costs no loop and no mispredicted branch.

use wide::u8x16;

const LANES: usize = 16;
const ALL: u32 = 0xffff;

/// The end of the run of metric name bytes (`[a-zA-Z0-9_:]`) that starts at `at`.
#[inline]
pub(crate) fn metric_name_end(buf: &[u8], at: usize) -> usize {
    run_end(buf, at, |v| label_name_bytes(v) | v.simd_eq(u8x16::splat(b':')), is_metric_name_byte)
}

/// The end of the run of label name bytes (`[a-zA-Z0-9_]`) that starts at `at`.
#[inline]
pub(crate) fn label_name_end(buf: &[u8], at: usize) -> usize {
    run_end(buf, at, label_name_bytes, is_label_name_byte)
}

/// The first `"`, `\`, newline or non-ASCII byte from `at` on: where a plain run of a quoted string ends.
#[inline]
pub(crate) fn string_stop(buf: &[u8], at: usize) -> usize {
    run_end(buf, at, |v| !(quotes(v) | string_oddities(v)), |b| {
        b != b'"' && b != b'\\' && b != b'\n' && b.is_ascii()
    })
}

/// The end of the run of decimal digits that starts at `at`.
#[inline]
pub(crate) fn digits_end(buf: &[u8], at: usize) -> usize {
    run_end(buf, at, |v| in_range(v, b'0', 10), |b| b.is_ascii_digit())
}

/// How many bytes `a` and `b` have in common at their beginning.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut common = 0;
    for (x, y) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        let differing = !u8x16::new(*x).simd_eq(u8x16::new(*y)).to_bitmask() & ALL;
        if differing != 0 {
            return common + differing.trailing_zeros() as usize;
        }
        common += LANES;
    }
    let tail = a[common..].iter().zip(&b[common..]);
    common + tail.take_while(|(x, y)| x == y).count()
}

/// The bytes from one position on where a label is expected, classified: bit i stands for byte i.
pub(crate) struct LabelWindow {
    /// Label name bytes, of the first sixteen.
    names: u32,
    /// Quotes and what [`string_stop`] stops at besides, of thirty-two.
    stops: u32,
    /// The first sixteen bytes, little endian.
    bytes: u128,
}

impl LabelWindow {
    /// Bytes looked at.
    pub(crate) const BYTES: usize = 2 * LANES;
    /// A name of this length may go on behind the window's first part.
    pub(crate) const NAME: usize = LANES;

    /// `None` within thirty-two bytes of the buffer's end, where the caller takes its slow way.
    #[inline]
    pub(crate) fn read(buf: &[u8], at: usize) -> Option<Self> {
        let window = buf.get(at..)?.first_chunk::<{ Self::BYTES }>()?;
        let (low, high) = (window.first_chunk::<LANES>()?, window.last_chunk::<LANES>()?);
        let (v, w) = (u8x16::new(*low), u8x16::new(*high));
        Some(Self {
            names: label_name_bytes(v).to_bitmask(),
            stops: (quotes(v) | string_oddities(v)).to_bitmask() & ALL
                | (quotes(w) | string_oddities(w)).to_bitmask() << LANES,
            bytes: u128::from_le_bytes(*low),
        })
    }

    /// Length of the label name at the window's start, up to [`NAME`](Self::NAME).
    #[inline]
    pub(crate) fn name_len(&self) -> usize {
        (!self.names).trailing_zeros().min(LANES as u32) as usize
    }

    /// Offsets of the first two stops; [`BYTES`](Self::BYTES) where there is none.
    #[inline]
    pub(crate) fn first_two_stops(&self) -> (usize, usize) {
        let rest = self.stops & self.stops.wrapping_sub(1);
        (self.stops.trailing_zeros() as usize, rest.trailing_zeros() as usize)
    }

    /// The first `len` bytes as a number: two names shorter than sixteen bytes are equal if and only
    /// if their keys are, since a name holds no NUL.
    #[inline]
    pub(crate) fn key(&self, len: usize) -> LabelKey {
        LabelKey::from_bytes(self.bytes, len)
    }
}

/// A label name packed into a number, for comparing names without calling `memcmp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LabelKey(u64, u64);

impl LabelKey {
    pub(crate) fn of(name: &[u8]) -> Self {
        let mut bytes = [0; LANES];
        let len = name.len().min(LANES);
        bytes[..len].copy_from_slice(&name[..len]);
        Self::from_bytes(u128::from_le_bytes(bytes), len)
    }

    /// The key of `__name__`.
    pub(crate) const fn reserved() -> Self {
        Self(u64::from_le_bytes(*b"__name__"), 0)
    }

    #[inline]
    fn from_bytes(bytes: u128, len: usize) -> Self {
        let (low, high) = (bytes as u64, (bytes >> 64) as u64);
        let keep = |n: usize| if n >= 8 { u64::MAX } else { (1 << (8 * n)) - 1 };
        Self(low & keep(len), high & keep(len.saturating_sub(8)))
    }

    /// Whether equal keys mean equal names: true below sixteen bytes.
    #[inline]
    pub(crate) fn is_whole_name(self) -> bool {
        self.1 >> 56 == 0
    }
}

pub(crate) fn is_metric_name_byte(b: u8) -> bool {
    is_label_name_byte(b) || b == b':'
}

pub(crate) fn is_label_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

#[inline(always)]
fn run_end(
    buf: &[u8],
    at: usize,
    in_run: impl Fn(u8x16) -> u8x16,
    in_run_byte: impl Fn(u8) -> bool,
) -> usize {
    let mut at = at;
    while let Some(block) = buf.get(at..).and_then(<[u8]>::first_chunk::<LANES>) {
        let outside = !in_run(u8x16::new(*block)).to_bitmask() & ALL;
        if outside != 0 {
            return at + outside.trailing_zeros() as usize;
        }
        at += LANES;
    }
    while buf.get(at).is_some_and(|&b| in_run_byte(b)) {
        at += 1;
    }
    at
}

#[inline(always)]
fn label_name_bytes(v: u8x16) -> u8x16 {
    in_range(v | u8x16::splat(0x20), b'a', 26)
        | in_range(v, b'0', 10)
        | v.simd_eq(u8x16::splat(b'_'))
}

#[inline(always)]
fn quotes(v: u8x16) -> u8x16 {
    v.simd_eq(u8x16::splat(b'"'))
}

#[inline(always)]
fn string_oddities(v: u8x16) -> u8x16 {
    v.simd_eq(u8x16::splat(b'\\'))
        | v.simd_eq(u8x16::splat(b'\n'))
        | v.max(u8x16::splat(0x80)).simd_eq(v)
}

#[inline(always)]
fn in_range(v: u8x16, first: u8, count: u8) -> u8x16 {
    let distance = v - u8x16::splat(first);
    distance.min(u8x16::splat(count - 1)).simd_eq(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every distance from a block's edge, against the one-byte definition.
    #[test]
    fn runs_end_where_the_byte_by_byte_definition_says() {
        type Run = (fn(&[u8], usize) -> usize, fn(u8) -> bool, u8);
        let runs: [Run; 4] = [
            (metric_name_end, is_metric_name_byte, b'a'),
            (label_name_end, is_label_name_byte, b'a'),
            (string_stop, |b| !matches!(b, b'"' | b'\\' | b'\n') && b < 0x80, b'x'),
            (digits_end, |b| b.is_ascii_digit(), b'7'),
        ];
        for (run, inside, filler) in runs {
            for len in 0..70 {
                for stop in (0..len).chain([len]) {
                    for byte in [b'"', b'\\', b'\n', b':', b'_', b'@', b'[', b'`', b'{', b'/', 0x80, 0] {
                        let mut buf = vec![filler; len];
                        if stop < len {
                            buf[stop] = byte;
                        }
                        let naive = buf.iter().position(|&b| !inside(b)).unwrap_or(len);
                        assert_eq!(run(&buf, 0), naive, "{byte} at {stop} of {len}");
                    }
                }
            }
        }
        for byte in 0..=255u8 {
            let buf = [byte; 16];
            for (run, inside, _) in runs {
                assert_eq!(run(&buf, 0) == 16, inside(byte), "{byte}");
            }
        }
    }

    #[test]
    fn common_prefix_is_the_first_difference() {
        for len in 0..70 {
            let a = vec![b'a'; len];
            assert_eq!(common_prefix(&a, &a), len);
            for at in 0..len {
                let mut b = vec![b'a'; 80];
                b[at] = b'b';
                assert_eq!(common_prefix(&a, &b), at);
            }
        }
    }

    #[test]
    fn keys_tell_names_apart() {
        let names: Vec<Vec<u8>> = (0..20).map(|n| vec![b'a'; n]).collect();
        for a in &names {
            for b in &names {
                let (ka, kb) = (LabelKey::of(a), LabelKey::of(b));
                if ka.is_whole_name() {
                    assert_eq!(ka == kb, a == b);
                }
            }
        }
    }
}
