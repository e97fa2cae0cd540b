//! `/api/v1/targets`: what Prometheus' own says of its targets, said of pods.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use crate::component::{Component, PodHistory};
use crate::tenant::Tenant;

#[derive(Serialize)]
struct Answer<'a> {
    status: &'static str,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    active_targets: Vec<ActiveTarget<'a>>,
    dropped_targets: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ActiveTarget<'a> {
    discovered_labels: BTreeMap<&'static str, String>,
    labels: BTreeMap<&'a str, String>,
    scrape_pool: &'a str,
    scrape_url: String,
    global_url: String,
    last_error: String,
    last_scrape: String,
    last_scrape_duration: f64,
    health: &'static str,
    scrape_interval: &'static str,
    scrape_timeout: String,
    // What Prometheus has no room for.
    last_scrape_bytes: u64,
    last_scrape_samples: u64,
    scrape_errors_total: u64,
}

pub(crate) fn json(tenant: &Tenant) -> String {
    let active_targets = tenant.components.values().flat_map(|component| active(tenant, component)).collect();
    let answer = Answer { status: "success", data: Data { active_targets, dropped_targets: [] } };
    // Strings and numbers only: there is nothing that could not be written.
    serde_json::to_string(&answer).unwrap_or_default()
}

fn active<'a>(tenant: &'a Tenant, component: &'a Component) -> Vec<ActiveTarget<'a>> {
    let targets = component.targets.load().unwrap_or_default();
    let target = |target: &sluice_discovery::Target| {
        let history = component.history.of(&target.pod);
        let instance = target.address.to_string();
        let scrape_url = format!("{}://{instance}{}", component.scheme, component.upstream.uri);
        let ours = &component.labels;
        let mut labels: BTreeMap<&str, String> = [
            ("namespace", &ours.namespace),
            ("job", &ours.job),
            ("service", &ours.service),
            ("endpoint", &ours.endpoint),
            ("instance", &instance),
        ]
        .map(|(name, value)| (name, value.clone()))
        .into();
        labels.extend(component.pod_labels.iter().map(|label| (label.as_str(), target.pod.clone())));
        let discovered = [
            ("__address__", instance),
            ("__metrics_path__", component.upstream.uri.path().to_string()),
            ("__scheme__", component.scheme.to_string()),
            ("__sluice_tenant", tenant.name.to_string()),
            ("__sluice_component", component.name.to_string()),
        ];
        ActiveTarget {
            discovered_labels: discovered.into(),
            labels,
            scrape_pool: &component.name,
            global_url: scrape_url.clone(),
            scrape_url,
            last_error: history.as_ref().and_then(|last| last.fault.clone()).map(|fault| fault.1).unwrap_or_default(),
            last_scrape: rfc3339(history.as_ref().map_or(SystemTime::UNIX_EPOCH, |last| last.at)),
            last_scrape_duration: history.as_ref().map_or(Duration::ZERO, |last| last.duration).as_secs_f64(),
            health: health(history.as_ref()),
            // Whoever asks decides.
            scrape_interval: "0s",
            scrape_timeout: sluice_config::Span(component.timeout).to_string(),
            last_scrape_bytes: history.as_ref().map_or(0, |last| last.bytes),
            last_scrape_samples: history.as_ref().map_or(0, |last| last.samples),
            scrape_errors_total: history.as_ref().map_or(0, |last| last.errors),
        }
    };
    targets.iter().map(target).collect()
}

fn health(history: Option<&PodHistory>) -> &'static str {
    match history {
        None => "unknown",
        Some(PodHistory { fault: None, .. }) => "up",
        Some(_) => "down",
    }
}

/// `2026-11-16T03:04:05.678Z`; Go's zero time for what never was.
fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if since.is_zero() {
        return "0001-01-01T00:00:00Z".into();
    }
    let (days, seconds) = (since.as_secs() / 86400, since.as_secs() % 86400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// The Gregorian date of a day since 1970, after Howard Hinnant's `civil_from_days`: years begin in March, so that the leap day is
/// their last, and 400 of them have always the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_go_does() {
        let at =
            |seconds, millis| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis);
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH), "0001-01-01T00:00:00Z");
        assert_eq!(rfc3339(at(951_782_400, 7)), "2000-02-29T00:00:00.007Z");
        assert_eq!(rfc3339(at(1_794_800_645, 0)), "2026-11-16T03:44:05.000Z");
        assert_eq!(rfc3339(at(4_107_542_399, 999)), "2100-02-28T23:59:59.999Z");
        assert_eq!(rfc3339(at(4_107_542_400, 0)), "2100-03-01T00:00:00.000Z");
    }
}
