//! What is remembered about tokens: never the tokens themselves, only their keyed hashes.

use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use ring::{hmac, rand};
use tokio::sync::watch;
use tokio::time::Instant;

/// Accepted tokens that are remembered. A guest cluster has two or three; whoever has thousands of valid ones pays for it with
/// reviews, not with our memory.
const ACCEPTED_MOST: usize = 256;

/// Refused tokens that are remembered. A flood of random ones pushes out other refusals and nothing else.
const REFUSED_MOST: usize = 1024;

/// A renewal that failed is tried again after this, as long as the old answer is good.
const RENEWAL_RETRY: Duration = Duration::from_secs(15);

/// A token's name in the cache: HMAC-SHA256 with a key of this process.
pub(crate) type Digest = [u8; 32];

/// What the hosted API server says about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It belongs to this user, and may be believed for this long.
    Accepted(Arc<str>, Duration),
    Refused,
    /// It could not be asked. Never remembered.
    Unavailable,
}

/// What the cache knows.
#[derive(Debug)]
pub(crate) enum Known {
    Accepted {
        user: Arc<str>,
        /// Half of its time is over: the caller has to ask again, while this answer is still good.
        renew: bool,
    },
    Refused,
    /// Somebody is asking already.
    Pending(watch::Receiver<Option<Verdict>>),
    /// Nobody is; the caller has to, and to send the verdict.
    Unknown,
}

/// The cache of one tenant.
pub(crate) struct Cache {
    key: hmac::Key,
    accepted: AHashMap<Digest, Accepted>,
    /// Until when.
    refused: AHashMap<Digest, Instant>,
    /// Bounded by the rate of reviews and their timeout.
    pending: AHashMap<Digest, watch::Receiver<Option<Verdict>>>,
}

struct Accepted {
    user: Arc<str>,
    until: Instant,
    renew_from: Instant,
}

impl Cache {
    /// `None` if the system has no randomness to give.
    pub(crate) fn new() -> Option<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new()).ok()?;
        Some(Self { key, accepted: AHashMap::default(), refused: AHashMap::default(), pending: AHashMap::default() })
    }

    pub(crate) fn digest(&self, token: &str) -> Digest {
        let mut digest = [0; 32];
        digest.copy_from_slice(hmac::sign(&self.key, token.as_bytes()).as_ref());
        digest
    }

    pub(crate) fn look_up(&mut self, digest: &Digest, now: Instant) -> Known {
        if let Some(entry) = self.accepted.get_mut(digest).filter(|entry| now < entry.until) {
            let renew = now >= entry.renew_from;
            if renew {
                // This caller asks; others need not, until it has had time to.
                entry.renew_from = now + RENEWAL_RETRY;
            }
            return Known::Accepted { user: Arc::clone(&entry.user), renew };
        }
        if self.refused.get(digest).is_some_and(|until| now < *until) {
            return Known::Refused;
        }
        self.pending.get(digest).map_or(Known::Unknown, |pending| Known::Pending(pending.clone()))
    }

    /// Somebody asks about an unknown token; whoever looks it up meanwhile gets the receiver.
    pub(crate) fn begin(&mut self, digest: Digest, verdict: watch::Receiver<Option<Verdict>>) {
        self.pending.insert(digest, verdict);
    }

    /// The question that was begun has its answer.
    pub(crate) fn end(&mut self, digest: &Digest) {
        self.pending.remove(digest);
    }

    /// The verdict is there.
    pub(crate) fn settle(&mut self, digest: Digest, verdict: &Verdict, refusal_ttl: Duration, now: Instant) {
        match verdict {
            Verdict::Accepted(user, ttl) => {
                make_room(&mut self.accepted, ACCEPTED_MOST, |entry| entry.until, now);
                self.refused.remove(&digest);
                let entry = Accepted { user: Arc::clone(user), until: now + *ttl, renew_from: now + *ttl / 2 };
                self.accepted.insert(digest, entry);
            }
            Verdict::Refused => {
                self.accepted.remove(&digest);
                make_room(&mut self.refused, REFUSED_MOST, |until| *until, now);
                self.refused.insert(digest, now + refusal_ttl);
            }
            Verdict::Unavailable => {}
        }
    }

    /// Whether anybody would be let in without asking.
    pub(crate) fn knows_somebody(&self, now: Instant) -> bool {
        self.accepted.values().any(|entry| now < entry.until)
    }
}

/// Room for one more: what has expired goes first, then what would expire first.
fn make_room<T>(entries: &mut AHashMap<Digest, T>, most: usize, until: impl Fn(&T) -> Instant, now: Instant) {
    if entries.len() < most {
        return;
    }
    entries.retain(|_, entry| until(entry) > now);
    if entries.len() >= most
        && let Some(first) = entries.iter().min_by_key(|(_, entry)| until(entry)).map(|(digest, _)| *digest)
    {
        entries.remove(&first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_mins(5);
    const REFUSAL: Duration = Duration::from_secs(10);

    fn accepted(user: &str) -> Verdict {
        Verdict::Accepted(user.into(), TTL)
    }

    fn user_of(known: &Known) -> Option<(&str, bool)> {
        match known {
            Known::Accepted { user, renew } => Some((user, *renew)),
            _ => None,
        }
    }

    #[test]
    fn an_accepted_token_is_believed_for_its_time_and_renewed_once_after_half_of_it() {
        let mut cache = Cache::new().unwrap();
        let start = Instant::now();
        let digest = cache.digest("token");
        assert!(matches!(cache.look_up(&digest, start), Known::Unknown));
        cache.settle(digest, &accepted("prometheus"), REFUSAL, start);
        let look = |cache: &mut Cache, seconds| cache.look_up(&digest, start + Duration::from_secs(seconds));
        assert_eq!(user_of(&look(&mut cache, 149)), Some(("prometheus", false)));
        assert_eq!(user_of(&look(&mut cache, 150)), Some(("prometheus", true)), "the first after half asks again");
        assert_eq!(user_of(&look(&mut cache, 151)), Some(("prometheus", false)), "the second does not");
        assert_eq!(user_of(&look(&mut cache, 166)), Some(("prometheus", true)), "it failed, so it is tried again");
        assert_eq!(user_of(&look(&mut cache, 299)), Some(("prometheus", true)));
        assert!(matches!(look(&mut cache, 300), Known::Unknown));
    }

    #[test]
    fn a_renewal_that_is_refused_ends_the_old_answer() {
        let mut cache = Cache::new().unwrap();
        let start = Instant::now();
        let digest = cache.digest("token");
        cache.settle(digest, &accepted("prometheus"), REFUSAL, start);
        cache.settle(digest, &Verdict::Refused, REFUSAL, start);
        assert!(matches!(cache.look_up(&digest, start), Known::Refused));
        assert!(matches!(cache.look_up(&digest, start + REFUSAL), Known::Unknown), "and the refusal is brief");
    }

    #[test]
    fn an_error_is_never_remembered_and_does_not_end_an_old_answer() {
        let mut cache = Cache::new().unwrap();
        let start = Instant::now();
        let digest = cache.digest("token");
        cache.settle(digest, &Verdict::Unavailable, REFUSAL, start);
        assert!(matches!(cache.look_up(&digest, start), Known::Unknown));
        cache.settle(digest, &accepted("prometheus"), REFUSAL, start);
        cache.settle(digest, &Verdict::Unavailable, REFUSAL, start);
        assert!(cache.knows_somebody(start));
    }

    #[test]
    fn a_flood_of_bad_tokens_neither_grows_the_cache_nor_pushes_good_ones_out() {
        let mut cache = Cache::new().unwrap();
        let start = Instant::now();
        let good = cache.digest("good");
        cache.settle(good, &accepted("prometheus"), REFUSAL, start);
        for number in 0..10_000 {
            let digest = cache.digest(&number.to_string());
            cache.settle(digest, &Verdict::Refused, REFUSAL, start);
        }
        assert_eq!(cache.refused.len(), REFUSED_MOST);
        assert!(user_of(&cache.look_up(&good, start)).is_some());
    }

    #[test]
    fn the_same_token_has_another_name_in_another_cache() {
        assert_ne!(Cache::new().unwrap().digest("token"), Cache::new().unwrap().digest("token"));
    }
}
