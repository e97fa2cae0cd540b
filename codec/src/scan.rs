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

/// Up to sixteen bytes of text, for comparing short texts without calling `memcmp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    /// Zero behind the text.
    bytes: [u8; LANES],
    /// A bit for each byte of it.
    mask: u32,
}

impl Short {
    /// The first bytes of `text`, at most sixteen.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut bytes = [0; LANES];
        let len = text.len().min(LANES);
        bytes[..len].copy_from_slice(&text[..len]);
        Self { bytes, mask: !(u32::MAX << len) }
    }

    /// The `len` bytes at `at`, at most sixteen; `None` where the buffer has fewer than sixteen left.
    #[inline]
    pub(crate) fn read(buf: &[u8], at: usize, len: usize) -> Option<Self> {
        /// Row n keeps n bytes.
        const KEEP: [[u8; LANES]; LANES + 1] = {
            let mut keep = [[0; LANES]; LANES + 1];
            let mut n = 0;
            while n <= LANES {
                let mut i = 0;
                while i < n {
                    keep[n][i] = 0xff;
                    i += 1;
                }
                n += 1;
            }
            keep
        };
        let block = buf.get(at..)?.first_chunk::<LANES>()?;
        let len = len.min(LANES);
        let kept = u8x16::new(*block) & u8x16::new(KEEP[len]);
        Some(Self { bytes: kept.to_array(), mask: !(u32::MAX << len) })
    }

    /// Whether the buffer has this text at `at`. May be false within sixteen bytes of the buffer's end.
    #[inline]
    pub(crate) fn is_at(&self, buf: &[u8], at: usize) -> bool {
        let Some(block) = buf.get(at..).and_then(<[u8]>::first_chunk::<LANES>) else { return false };
        let equal = u8x16::new(*block).simd_eq(u8x16::new(self.bytes)).to_bitmask();
        !equal & self.mask == 0
    }

    /// A number that is mostly different for different texts; the high bits are the better ones.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let bytes = u128::from_le_bytes(self.bytes);
        (bytes as u64 ^ ((bytes >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Equal for equal texts; for texts past sixteen bytes perhaps also for others.
impl PartialEq for Short {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
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
    fn short_texts_are_compared_whole() {
        let buf = [[b'a'; 18].as_slice(), &[b'.'; 20]].concat();
        for len in 0..=16 {
            let short = Short::of(&buf[..len]);
            assert_eq!(Short::read(&buf, 0, len), Some(short));
            for at in 0..18 {
                assert_eq!(short.is_at(&buf, at), buf[at..].starts_with(&buf[..len]), "{len} at {at}");
            }
            for other in 0..=16 {
                assert_eq!(short == Short::of(&buf[..other]), len == other);
            }
        }
        assert_eq!(Short::read(&buf, 23, 4), None);
    }
}
