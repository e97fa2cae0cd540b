//! Times and sizes as people write them: `5m`, `256MiB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A length of time: whole numbers with `ms`, `s`, `m` or `h`, largest first (`1h30m`), as Prometheus writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A number of bytes: a whole number, alone or with `B`, `KiB`, `MiB` or `GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

const TIMES: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Span {
    /// A number of seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time like 10s, 5m or 1h30m");
        let mut rest = text;
        let mut last = u64::MAX;
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (number, behind) = split_number(rest).ok_or_else(wrong)?;
            let end = behind.find(|c: char| c.is_ascii_digit()).unwrap_or(behind.len());
            let (_, factor) = TIMES.into_iter().find(|(unit, _)| *unit == &behind[..end]).ok_or_else(wrong)?;
            if factor >= last {
                return Err(wrong());
            }
            last = factor;
            total = number.checked_mul(factor).and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
            rest = &behind[end..];
        }
        if last == u64::MAX { Err(wrong()) } else { Ok(Self(Duration::from_millis(total))) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, factor) in TIMES {
            if rest >= factor {
                write!(f, "{}{unit}", rest / factor)?;
                rest %= factor;
            }
        }
        Ok(())
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no size like 1024, 256KiB or 1GiB");
        let (number, unit) = split_number(text).ok_or_else(wrong)?;
        let factor = match unit {
            "" => 1,
            _ => SIZES.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1,
        };
        number.checked_mul(factor).map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = SIZES.into_iter().find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        match whole {
            Some((unit, factor)) if factor > 1 => write!(f, "{}{unit}", self.0 / factor),
            _ => write!(f, "{}", self.0),
        }
    }
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

macro_rules! as_text {
    ($unit:ty) => {
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                /// YAML has numbers too: `limits: {bodyBytes: 1024}`.
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Written {
                    Number(u64),
                    Text(String),
                }
                let text = match Written::deserialize(deserializer)? {
                    Written::Number(number) => number.to_string(),
                    Written::Text(text) => text,
                };
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

as_text!(Span);
as_text!(ByteSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_prometheus_does() {
        for (text, millis) in
            [("10s", 10_000), ("5m", 300_000), ("1h30m", 5_400_000), ("250ms", 250), ("1m1s1ms", 61_001)]
        {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0.as_millis(), millis, "{text}");
            assert_eq!(span.to_string(), text);
        }
        for text in ["", "10", "s", "5 m", "1m1h", "1s1s", "-1s", "1.5s", "1d", "99999999999999999h"] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        for (text, bytes) in [("0", 0), ("1024B", 1024), ("256KiB", 1 << 18), ("256MiB", 1 << 28), ("2GiB", 2 << 30)] {
            assert_eq!(text.parse::<ByteSize>().unwrap().0, bytes, "{text}");
        }
        assert_eq!(ByteSize(1 << 18).to_string(), "256KiB");
        assert_eq!(ByteSize(1000).to_string(), "1000");
        for text in ["", "MiB", "1MB", "1.5MiB", "-1", "99999999999GiB"] {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }
}
