//! Time: how long a scrape may take, and how much of it one pod may use.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

/// The header in which Prometheus says when it will give up.
const TIMEOUT_HEADER: &str = "x-prometheus-scrape-timeout-seconds";

/// A tenth of the scraper's time, at most half a second, is kept for the way back.
const RESERVE_SHARE: u32 = 10;
const RESERVE_MOST: Duration = Duration::from_millis(500);

/// The time one scrape has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    end: Instant,
}

impl Budget {
    /// What the scraper's header says, less the reserve, and never more than `most`. A header that makes no sense is none.
    pub(crate) fn new(start: Instant, headers: &HeaderMap, most: Duration) -> Self {
        let asked = headers.get(TIMEOUT_HEADER).and_then(|value| parse_seconds(value.to_str().ok()?));
        let span =
            asked.map_or(most, |asked| asked.saturating_sub((asked / RESERVE_SHARE).min(RESERVE_MOST)).min(most));
        Self { end: start + span }
    }

    /// When everything that is not finished is given up.
    pub(crate) fn end(self) -> Instant {
        self.end
    }

    /// Whether half of the time is over already, before a pod was asked.
    pub(crate) fn is_half_over(self, start: Instant) -> bool {
        2 * start.elapsed() > self.end.saturating_duration_since(start)
    }

    /// When a pod has used half of what is then left: `used + (t - since) = (end - t) / 2`, solved for `t`.
    fn half_is_used(self, used: Duration, since: Instant) -> Instant {
        let left = self.end.saturating_duration_since(since);
        since + left.saturating_sub(2 * used) / 3
    }
}

/// How long one pod has been waited for. It runs only while the merge waits for the pod: one that is merely back-pressured
/// is not slow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PodClock {
    used: Duration,
    waiting_since: Option<Instant>,
}

impl PodClock {
    /// The merge waits for this pod from now on, if it did not already.
    pub(crate) fn start(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The pod has said something.
    pub(crate) fn stop(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.used += now.saturating_duration_since(since);
        }
    }

    /// Whether the merge waits for this pod.
    pub(crate) fn is_running(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// How long it was waited for, until it last said something.
    pub(crate) fn used(&self) -> Duration {
        self.used
    }

    /// When a pod that is being waited for has to be given up.
    pub(crate) fn gives_up_at(&self, budget: Budget) -> Option<Instant> {
        self.waiting_since.map(|since| budget.half_is_used(self.used, since))
    }
}

/// A positive, finite number of seconds, as Prometheus writes it: `10`, `9.5`.
fn parse_seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    // What no clock can add is longer than any component's timeout.
    (seconds > 0.0).then(|| Duration::try_from_secs_f64(seconds).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(10);

    fn budget_of(header: Option<&str>) -> Duration {
        let mut headers = HeaderMap::new();
        if let Some(header) = header {
            headers.insert(TIMEOUT_HEADER, header.parse().unwrap());
        }
        let start = Instant::now();
        Budget::new(start, &headers, MOST).end() - start
    }

    #[test]
    fn the_scrapers_timeout_less_a_reserve_is_the_budget_and_the_components_timeout_caps_it() {
        assert_eq!(budget_of(Some("8")), Duration::from_millis(7500));
        assert_eq!(budget_of(Some("0.5")), Duration::from_millis(450));
        assert_eq!(budget_of(Some("60")), MOST);
        assert_eq!(budget_of(None), MOST);
    }

    #[test]
    fn a_nonsense_header_is_ignored() {
        for nonsense in ["", "soon", "-1", "0", "NaN", "inf", "1e400", "1,5"] {
            assert_eq!(budget_of(Some(nonsense)), MOST, "{nonsense}");
        }
    }

    #[test]
    fn a_pod_may_use_half_of_what_is_left() {
        let start = Instant::now();
        let budget = Budget { end: start + Duration::from_secs(9) };
        let mut clock = PodClock::default();
        assert_eq!(clock.gives_up_at(budget), None, "nobody waits for it");
        clock.start(start);
        let third = start + Duration::from_secs(3);
        assert_eq!(clock.gives_up_at(budget), Some(third), "after 3 s, 6 s are left");
    }

    #[test]
    fn waiting_adds_up_over_drips_and_not_over_back_pressure() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let budget = Budget { end: at(9000) };
        let mut clock = PodClock::default();
        clock.start(at(0));
        clock.stop(at(1000));
        clock.start(at(1000));
        assert_eq!(clock.gives_up_at(budget), Some(at(3000)), "a byte in between gives no new patience");
        clock.stop(at(2000));
        // The scraper did not read for two seconds; the pod has used two of its own, five are left of the budget.
        clock.start(at(4000));
        assert_eq!(clock.gives_up_at(budget), Some(at(4333) + Duration::from_nanos(333_333)));
    }
}
