//! The small encodings an API server needs: times, identifiers, base64.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, as `metadata.creationTimestamp` has it.
pub(super) fn now() -> String {
    time(SystemTime::now())
}

/// RFC 3339 in UTC with whole seconds, the precision of Kubernetes' `Time`.
pub(super) fn time(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (year, month, day) = civil(seconds / 86_400);
    let rest = seconds % 86_400;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Year, month and day of a number of days since 1970, by 400-year eras that begin on the first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// A random version 4 UUID.
pub(super) fn uid() -> String {
    let (high, low) = (random(), random());
    let variant = (low >> 48) & 0x3fff | 0x8000;
    format!(
        "{:08x}-{:04x}-4{:03x}-{variant:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        low & 0xffff_ffff_ffff
    )
}

/// What Kubernetes appends to `generateName`: five letters that make no words.
pub(super) fn name_suffix() -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut bits = random();
    let letter = |bits: &mut u64| {
        let letter = ALPHABET[(*bits % 27) as usize];
        *bits /= 27;
        char::from(letter)
    };
    (0..5).map(|_| letter(&mut bits)).collect()
}

/// Different at every call; nothing here needs to be hard to guess.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0)
}

/// Base64 with padding, as in Secrets and kubeconfigs.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = encode(bytes, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");
    text.extend(std::iter::repeat_n('=', (4 - text.len() % 4) % 4));
    text
}

/// Base64 for URLs without padding, as in JSON web tokens.
pub(super) fn base64_url(bytes: &[u8]) -> String {
    encode(bytes, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
}

fn encode(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=group.len() as u32 {
            text.push(char::from(alphabet[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| time(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(at(1_772_323_200), "2026-03-01T00:00:00Z");
    }

    #[test]
    fn base64_pads_and_the_url_form_does_not() {
        let both = |text: &str| (base64(text.as_bytes()), base64_url(text.as_bytes()));
        assert_eq!(both(""), (String::new(), String::new()));
        assert_eq!(both("f"), ("Zg==".into(), "Zg".into()));
        assert_eq!(both("fo"), ("Zm8=".into(), "Zm8".into()));
        assert_eq!(both("foo?>"), ("Zm9vPz4=".into(), "Zm9vPz4".into()));
        assert_eq!(both("???"), ("Pz8/".into(), "Pz8_".into()));
    }

    #[test]
    fn identifiers_look_as_they_should_and_differ() {
        let uid = uid();
        assert_eq!(uid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{uid}");
        assert_ne!(uid, super::uid());
        assert_eq!(name_suffix().len(), 5);
    }
}
