//! A bound on how often the hosted API server is asked about tokens nobody has seen before.

use std::time::Duration;

use tokio::time::Instant;

/// Ten at once: two Prometheus replicas whose tokens were just renewed, with room for people.
const BURST: f64 = 10.0;

/// A bucket that fills at a steady rate; each question takes one drop.
#[derive(Debug)]
pub(crate) struct Bucket {
    per_second: f64,
    drops: f64,
    filled: Instant,
}

impl Bucket {
    pub(crate) fn new(per_second: u32, now: Instant) -> Self {
        Self { per_second: per_second.into(), drops: BURST, filled: now }
    }

    pub(crate) fn set_rate(&mut self, per_second: u32) {
        self.per_second = per_second.into();
    }

    /// Whether one more may be asked.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed: Duration = now.saturating_duration_since(self.filled);
        self.drops = (self.drops + passed.as_secs_f64() * self.per_second).min(BURST);
        self.filled = now;
        if self.drops < 1.0 {
            return false;
        }
        self.drops -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_steady_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(2, start);
        assert_eq!((0..100).filter(|_| bucket.take(start)).count(), 10);
        let later = start + Duration::from_secs(3);
        assert_eq!((0..100).filter(|_| bucket.take(later)).count(), 6);
        let much_later = start + Duration::from_hours(1);
        assert_eq!((0..100).filter(|_| bucket.take(much_later)).count(), 10, "no more than the burst is saved up");
    }
}
