//! How long things may take, and how long to wait before trying again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// How patient the watches are. The defaults are for production; tests have less time.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How long the API server is asked to keep a watch open, in whole seconds and at least one. Each renewal shows that it
    /// lives, so that in a quiet cluster the age of the targets stays below this and a moment.
    pub watch: Duration,
    /// A watch on which nothing came for so long is dead, however open it looks. Longer than `watch`, since until then a quiet
    /// cluster has nothing to say.
    pub silence: Duration,
    /// The longest that an answer to a request, and a page of a list, may take.
    pub answer: Duration,
    /// The pause after a first failure; it doubles with each further one. A watch that stayed open for so long ends the row.
    pub first_pause: Duration,
    /// The longest pause: how late an API server that came back is noticed at most.
    pub longest_pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            watch: Duration::from_mins(1),
            silence: Duration::from_secs(75),
            answer: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// Pauses that grow while things fail.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(timing: &Timing) -> Self {
        Self { first: timing.first_pause, longest: timing.longest_pause, next: timing.first_pause }
    }

    /// How long to wait now: between half of the pause and all of it, so that many proxies do not come back at once.
    pub(crate) fn pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause * 2;
        // A fresh hasher is the standard library's only source of chance.
        let chance = RandomState::new().build_hasher().finish() >> 32;
        pause.mul_f64(0.5 + 0.5 * chance as f64 / f64::from(u32::MAX))
    }

    /// It works again.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_over_after_success() {
        let timing =
            Timing { first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(5), ..Timing::default() };
        let mut backoff = Backoff::new(&timing);
        for expected in [1, 2, 4, 5, 5] {
            let expected = Duration::from_secs(expected);
            let pause = backoff.pause();
            assert!(pause >= expected / 2 && pause <= expected, "{pause:?} for {expected:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_secs(1));
    }
}
