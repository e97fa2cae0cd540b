//! Values and timestamps: what Go's `ParseFloat` and `ParseInt` accept, as the parsers use them.

use crate::error::Fault;
use crate::scan;

/// Checks that `token` is a float every parser reads.
///
/// That is Go's `strconv.ParseFloat(s, 64)` without hexadecimal floats and underscores, which both
/// Prometheus and expfmt refuse beforehand. Go reports overflow as an error, underflow not.
pub(crate) fn check_float(token: &[u8]) -> Result<(), Fault> {
    if let Some(decimal) = Decimal::read(token, 0)
        && decimal.end == token.len()
    {
        return if decimal.may_overflow && overflows(token) { Err(Fault::ValueRange) } else { Ok(()) };
    }
    let (signed, letters) = match token {
        [b'+' | b'-', rest @ ..] => (true, rest),
        _ => (false, token),
    };
    let infinite = letters.eq_ignore_ascii_case(b"inf") || letters.eq_ignore_ascii_case(b"infinity");
    if infinite || !signed && letters.eq_ignore_ascii_case(b"nan") { Ok(()) } else { Err(Fault::Value) }
}

/// The end of a float that starts at `at`, if it is a decimal one too small to overflow: the
/// overwhelming case, decided without looking for the token's end first.
#[inline]
pub(crate) fn plain_float_end(buf: &[u8], at: usize) -> Option<usize> {
    let decimal = Decimal::read(buf, at)?;
    (!decimal.may_overflow).then_some(decimal.end)
}

/// Checks that `token` is a number of milliseconds in an int64, without a sign.
pub(crate) fn check_timestamp(token: &[u8]) -> Result<(), Fault> {
    const MAX: &[u8] = b"9223372036854775807";
    if token.is_empty() || !token.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Timestamp);
    }
    let zeros = token.iter().take_while(|&&b| b == b'0').count();
    let digits = &token[zeros..];
    if (digits.len(), digits) <= (MAX.len(), MAX) { Ok(()) } else { Err(Fault::Timestamp) }
}

/// A float of the form `[+-]? (digits [. digits*] | . digits) ([eE] [+-]? digits)?`.
struct Decimal {
    end: usize,
    /// False only where the float certainly fits.
    may_overflow: bool,
}

impl Decimal {
    /// The largest float64 has 309 digits: what is written in fewer bytes than this needs an exponent
    /// of three digits to pass it.
    const LONG: usize = 200;

    #[inline]
    fn read(buf: &[u8], start: usize) -> Option<Self> {
        let mut at = start + usize::from(matches!(buf.get(start), Some(b'+' | b'-')));
        let integer = at;
        at = scan::digits_end(buf, at);
        let mut digits = at - integer;
        if buf.get(at) == Some(&b'.') {
            let fraction = at + 1;
            at = scan::digits_end(buf, fraction);
            digits += at - fraction;
        }
        if digits == 0 {
            return None;
        }
        let mut large_exponent = false;
        if let Some(b'e' | b'E') = buf.get(at) {
            let sign = buf.get(at + 1).copied();
            let exponent = at + 1 + usize::from(matches!(sign, Some(b'+' | b'-')));
            at = scan::digits_end(buf, exponent);
            if at == exponent {
                return None;
            }
            large_exponent = sign != Some(b'-') && at - exponent > 2;
        }
        Some(Self { end: at, may_overflow: large_exponent || at - start > Self::LONG })
    }
}

fn overflows(token: &[u8]) -> bool {
    let value = std::str::from_utf8(token).ok().and_then(|text| text.parse::<f64>().ok());
    value.is_none_or(f64::is_infinite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_what_go_parses_without_hex_and_underscores() {
        let good = [
            "0",
            "1",
            "-1",
            "+1",
            "1.",
            ".5",
            "-.5",
            "1.5",
            "1e5",
            "1E+5",
            "1e-5",
            "1.e5",
            "007",
            "NaN",
            "nan",
            "NAN",
            "Inf",
            "+Inf",
            "-inf",
            "INFINITY",
            "+infinity",
            "1e308",
            "1e-999",
            "1.7976931348623157e308",
            "0e999999999999999999999",
            "4.9351e-05",
        ];
        for text in good {
            assert_eq!(check_float(text.as_bytes()), Ok(()), "{text}");
        }
        let bad = [
            "", ".", "+", "-", "e5", ".e5", "1e", "1e+", "1_2", "0x10", "0x1p-3", "1p3", "+nan", "-NaN", "infi",
            "infinit", "1.2.3", "1 ", "\u{661}", "true", "1f", "1d", "--1", "1e5.5", "1\r",
        ];
        for text in bad {
            assert_eq!(check_float(text.as_bytes()), Err(Fault::Value), "{text}");
        }
        let long = format!("1{}", "0".repeat(309));
        for text in ["1e309", "-1e999", "1.7976931348623159e308", "1e99999999999999999999", &long] {
            assert_eq!(check_float(text.as_bytes()), Err(Fault::ValueRange), "{text}");
        }
        assert_eq!(check_float("1".repeat(309).as_bytes()), Ok(()));
    }

    #[test]
    fn plain_floats_end_at_the_first_other_byte() {
        assert_eq!(plain_float_end(b"x 12.5e3 7\n", 2), Some(8));
        assert_eq!(plain_float_end(b"1e999\n", 0), None);
        assert_eq!(plain_float_end(b"NaN\n", 0), None);
    }

    #[test]
    fn timestamps_are_unsigned_int64() {
        for text in ["0", "1", "1395066363000", "9223372036854775807", "0009223372036854775807"] {
            assert_eq!(check_timestamp(text.as_bytes()), Ok(()), "{text}");
        }
        for text in ["", "-1", "+1", "1.5", "9223372036854775808", "99999999999999999999", "1e3", "1\r"] {
            assert_eq!(check_timestamp(text.as_bytes()), Err(Fault::Timestamp), "{text}");
        }
    }
}
