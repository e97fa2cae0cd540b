//! The token in a request's headers.

use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Deserialize;
use serde_json::Value;

use crate::fault::Refusal;

/// The bearer token; `None` if there is no such header. One that cannot be a token is refused without asking anybody.
pub(crate) fn token(headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Refusal::BadToken);
    }
    let value = value.to_str().map_err(|_| Refusal::BadToken)?;
    let Some((scheme, token)) = value.split_once(' ') else { return Err(Refusal::BadToken) };
    let token = token.trim_matches(' ');
    let is_token = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=');
    if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() || !token.bytes().all(is_token) {
        return Err(Refusal::BadToken);
    }
    Ok(Some(token))
}

/// How long a token that the API server has just accepted is good for by its own `exp`; `None` if it does not say.
pub(crate) fn remaining_life(token: &str, now: SystemTime) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: Value,
    }
    let payload = token.split('.').nth(1)?;
    let payload = BASE64URL_NOPAD.decode(payload.trim_end_matches('=').as_bytes()).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    // A date may have a fraction (RFC 7519). One that we cannot read is no reason to believe the token for long.
    let seconds = claims.exp.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default();
    let expiry = SystemTime::UNIX_EPOCH.checked_add(seconds)?;
    Some(expiry.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        headers
    }

    #[test]
    fn the_scheme_may_be_written_in_any_case() {
        for value in ["Bearer abc.def_1-2", "bearer abc.def_1-2", "BEARER  abc.def_1-2 "] {
            assert_eq!(token(&headers(value)), Ok(Some("abc.def_1-2")), "{value}");
        }
        assert_eq!(token(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn what_cannot_be_a_token_is_refused_at_once() {
        for value in ["Basic abc", "Bearer", "Bearer ", "abc", "Bearer a b", "Bearer a\tb", "Bearer \"x\""] {
            assert_eq!(token(&headers(value)), Err(Refusal::BadToken), "{value}");
        }
        let mut twice = headers("Bearer a");
        twice.append(AUTHORIZATION, "Bearer b".parse().unwrap());
        assert_eq!(token(&twice), Err(Refusal::BadToken));
    }

    #[test]
    fn a_token_says_when_it_expires() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let token = |claims: &str| format!("e30.{}.sig", BASE64URL_NOPAD.encode(claims.as_bytes()));
        assert_eq!(remaining_life(&token(r#"{"exp":1060}"#), now), Some(Duration::from_mins(1)));
        assert_eq!(remaining_life(&token(r#"{"exp":999}"#), now), Some(Duration::ZERO));
        assert_eq!(remaining_life(&token(r#"{"exp":1060.5}"#), now), Some(Duration::from_millis(60_500)));
        assert_eq!(remaining_life(&token(r#"{"aud":"x"}"#), now), None);
        for unreadable in [
            r#"{"exp":"soon"}"#,
            r#"{"exp":-1}"#,
            r#"{"exp":1e400}"#,
            r#"{"exp":18446744073709551615}"#,
            r#"{"exp":null}"#,
        ] {
            let life = remaining_life(&token(unreadable), now);
            assert!(life.is_none_or(|life| life.is_zero()), "{unreadable}: {life:?}");
        }
        for opaque in ["opaque", "a.b.c", "a..c", ""] {
            assert_eq!(remaining_life(opaque, now), None, "{opaque}");
        }
    }
}
