//! Byte runs, sixteen at a time.
//!
//! A line is read as a sequence of runs: name bytes, bytes of a quoted string, digits. Each function
//! here answers "where does this run end" by turning sixteen bytes into a bit mask and counting its
//! trailing zeros, so that a run of up to sixteen bytes costs no loop and no mispredicted branch.

#![expect(clippy::inline_always, reason = "a mask that went through memory would cost more than the run")]

use std::num::NonZeroU64;

use wide::u8x16;

/// What every machine of our two architectures compares at once; wider vectors would need a check at run time.
const LANES: usize = 16;
/// A mask with a bit for each lane.
const ALL: u32 = 0xffff;
/// As many bytes as a mask in one register has bits.
const BLOCK: usize = 64;

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

/// The first `"`, `\`, control character or non-ASCII byte from `at` on: where a plain run of a quoted string ends.
#[inline]
pub(crate) fn string_stop(buf: &[u8], at: usize) -> usize {
    run_end(buf, at, |v| !(quotes(v) | string_oddities(v)), |b| matches!(b, b' '..0x80) && b != b'"' && b != b'\\')
}

/// The end of the run of decimal digits that starts at `at`.
#[inline]
pub(crate) fn digits_end(buf: &[u8], at: usize) -> usize {
    run_end(buf, at, |v| in_range(v, b'0', 10), |b| b.is_ascii_digit())
}

/// How many bytes `a` and `b` have in common at their beginning.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    // Two blocks at a time while they are equal: that is the greater part of most lines.
    let pairs = a.as_chunks::<{ 2 * LANES }>().0.iter().zip(b.as_chunks::<{ 2 * LANES }>().0);
    let mut common = 2 * LANES * pairs.take_while(|(x, y)| x == y).count();
    while let (Some(x), Some(y)) = (block_at(a, common), block_at(b, common)) {
        let differing = !x.simd_eq(y).to_bitmask() & ALL;
        if differing != 0 {
            return common + differing.trailing_zeros() as usize;
        }
        common += LANES;
    }
    let tail = a[common..].iter().zip(&b[common..]);
    common + tail.take_while(|(x, y)| x == y).count()
}

#[inline(always)]
fn block_at(buf: &[u8], at: usize) -> Option<u8x16> {
    buf.get(at..)?.first_chunk::<LANES>().map(|block| u8x16::new(*block))
}

/// The quotes of a line, in order, as far as the text is plain: it ends before the first backslash,
/// control character (the newline is one) or non-ASCII byte, and within sixty-four bytes of the buffer's end.
///
/// Where runs are read one after the other, each has to wait for the end of the one before it. Here a block's quotes are
/// found together, and going from one to the next is a matter of clearing a bit.
pub(crate) struct Quotes<'a> {
    buf: &'a [u8],
    /// Quotes of the block at `base` that are still to come.
    bits: u64,
    base: usize,
    /// The text is plain to the end of this block.
    plain: bool,
}

impl<'a> Quotes<'a> {
    /// The quotes from `at` on.
    #[inline]
    pub(crate) fn new(buf: &'a [u8], at: usize) -> Self {
        Self { buf, bits: 0, base: at.wrapping_sub(BLOCK), plain: true }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<usize> {
        let bits = match NonZeroU64::new(self.bits) {
            Some(bits) => bits,
            None => self.next_block()?,
        };
        self.bits = bits.get() & (bits.get() - 1);
        Some(self.base + bits.trailing_zeros() as usize)
    }

    /// The quotes of the next block that has any.
    #[inline]
    fn next_block(&mut self) -> Option<NonZeroU64> {
        while self.plain {
            self.base = self.base.wrapping_add(BLOCK);
            let block = self.buf.get(self.base..)?.first_chunk::<BLOCK>()?;
            let (mut found, mut odd) = (0u64, 0u64);
            for (part, bytes) in block.as_chunks::<LANES>().0.iter().enumerate() {
                let v = u8x16::new(*bytes);
                found |= u64::from(quotes(v).to_bitmask()) << (LANES * part);
                odd |= u64::from(string_oddities(v).to_bitmask()) << (LANES * part);
            }
            self.plain = odd == 0;
            // Bits below the lowest of `odd`; all if there is none.
            found &= !odd & odd.wrapping_sub(1);
            if let Some(found) = NonZeroU64::new(found) {
                return Some(found);
            }
        }
        None
    }
}

/// Up to sixteen bytes of text, for comparing short texts without calling `memcmp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Short {
    /// Zero behind the text.
    bytes: [u8; LANES],
    /// A bit for each byte of it; one more for a text that did not fit.
    mask: u32,
}

impl Short {
    /// The beginning of `text`.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut bytes = [0; LANES];
        let len = text.len().min(LANES);
        bytes[..len].copy_from_slice(&text[..len]);
        Self { bytes, mask: first_bits(text.len()) }
    }

    /// The beginning of the text of `len` bytes at `at`; `None` where the buffer has fewer than sixteen left.
    #[inline]
    pub(crate) fn read(buf: &[u8], at: usize, len: usize) -> Option<Self> {
        let kept = block_at(buf, at)? & u8x16::new(KEEP[len.min(LANES)]);
        Some(Self { bytes: kept.to_array(), mask: first_bits(len) })
    }

    /// Whether the buffer has this text at `at`. False for a text that did not fit, and perhaps within
    /// sixteen bytes of the buffer's end.
    #[inline]
    pub(crate) fn is_at(&self, buf: &[u8], at: usize) -> bool {
        let Some(block) = block_at(buf, at) else { return false };
        !block.simd_eq(u8x16::new(self.bytes)).to_bitmask() & self.mask == 0
    }

    /// Whether the two are equal, if neither ends in NUL.
    #[inline]
    pub(crate) fn has_bytes_of(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }

    /// Whether all of it fitted.
    #[inline]
    pub(crate) fn is_whole(&self) -> bool {
        self.mask <= ALL
    }

    /// A number that is mostly different for different texts; the high bits are the better ones.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let bytes = u128::from_le_bytes(self.bytes);
        (bytes as u64 ^ ((bytes >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Whether there is a label name at `at`, and `=` between it and the quote at `open`.
#[inline]
pub(crate) fn is_label_name(buf: &[u8], at: usize, open: usize) -> bool {
    let (Some(equals), Some(first)) = (open.checked_sub(1), buf.get(at)) else { return false };
    equals > at && buf[equals] == b'=' && !first.is_ascii_digit() && label_name_end(buf, at) == equals
}

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

/// A bit for each of `len` bytes, and no more than one that no byte has.
#[inline]
fn first_bits(len: usize) -> u32 {
    !(u32::MAX << len.min(LANES + 1))
}

/// Equal for equal texts; for texts past sixteen bytes perhaps also for others. The length counts: a text may end in NUL.
impl PartialEq for Short {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.has_bytes_of(other) && self.mask == other.mask
    }
}

pub(crate) fn is_metric_name_byte(b: u8) -> bool {
    is_label_name_byte(b) || b == b':'
}

pub(crate) fn is_label_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

#[inline(always)]
fn run_end(buf: &[u8], at: usize, in_run: impl Fn(u8x16) -> u8x16, in_run_byte: impl Fn(u8) -> bool) -> usize {
    let mut at = at;
    while let Some(block) = block_at(buf, at) {
        let outside = !in_run(block).to_bitmask() & ALL;
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
    in_range(v | u8x16::splat(0x20), b'a', 26) | in_range(v, b'0', 10) | v.simd_eq(u8x16::splat(b'_'))
}

#[inline(always)]
fn quotes(v: u8x16) -> u8x16 {
    v.simd_eq(u8x16::splat(b'"'))
}

/// Backslashes, control characters and whatever is not ASCII.
#[inline(always)]
fn string_oddities(v: u8x16) -> u8x16 {
    v.simd_eq(u8x16::splat(b'\\')) | !in_range(v, b' ', 0x60)
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
            (string_stop, |b| (0x20..0x80).contains(&b) && !matches!(b, b'"' | b'\\'), b'x'),
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
