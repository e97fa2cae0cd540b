//! Metrics that are looked up when they are asked for.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::process::Process;
use crate::slot::Slot;

/// Adds them to the registry.
pub(crate) fn register(registry: &mut Registry, slot: Arc<Slot>) {
    registry.register_collector(Box::new(TenantCollector(slot)));
    registry.register_collector(Box::new(ProcessCollector));
}

struct TenantCollector(Arc<Slot>);

impl fmt::Debug for TenantCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TenantCollector")
    }
}

impl Collector for TenantCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let tenant = self.0.tenant();
        let reload = self.0.last_reload();
        let name = &*tenant.name;

        let mut targets = gauge(&mut encoder, "sluice_targets", "Pods of a component", None)?;
        for component in tenant.components.values() {
            if let Some(found) = component.targets.load() {
                let labels = [("tenant", name), ("component", &*component.name)];
                ConstGauge::new(i64::try_from(found.len()).unwrap_or(i64::MAX))
                    .encode(targets.encode_family(&labels)?)?;
            }
        }
        let help = "Time since the management cluster's API server was last heard";
        let mut age = gauge(&mut encoder, "sluice_discovery_last_event", help, Some(&Unit::Seconds))?;
        if let Some(watched) = &tenant.discovery {
            let status = watched.discovery.status();
            for (watch, status) in [("endpointslices", status.slices), ("pods", status.pods)] {
                if let Some(seconds) = status.age.filter(|_| status.wanted) {
                    let labels = [("tenant", name), ("watch", watch)];
                    ConstGauge::new(seconds.as_secs_f64()).encode(age.encode_family(&labels)?)?;
                }
            }
        }
        let help = "1 if all of the configuration and its files is in force, 0 if something could not be used";
        let mut reloaded = gauge(&mut encoder, "sluice_config_last_reload_successful", help, None)?;
        let good = i64::from(reload.troubles.is_empty());
        ConstGauge::new(good).encode(reloaded.encode_family(&[("tenant", name)])?)?;
        let help = "When the configuration or one of its files had changed for the last time, in Unix time";
        let mut changed = gauge(&mut encoder, "sluice_config_last_change_timestamp", help, Some(&Unit::Seconds))?;
        let at = reload.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        ConstGauge::new(at).encode(changed.encode_family(&[("tenant", name)])?)?;
        let help = "When a certificate in a file ends, in Unix time";
        let mut expiry = gauge(&mut encoder, "sluice_certificate_expiry", help, Some(&Unit::Seconds))?;
        for certificate in &tenant.expiries {
            let file = certificate.file.display().to_string();
            ConstGauge::new(certificate.at).encode(expiry.encode_family(&[("tenant", name), ("file", &file)])?)?;
        }
        Ok(())
    }
}

#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Process { resident_bytes, virtual_bytes, cpu_seconds, threads, start_seconds, open_fds, max_fds } =
            Process::read();
        let whole = [
            ("process_resident_memory", "Resident memory", Some(Unit::Bytes), resident_bytes),
            ("process_virtual_memory", "Virtual memory", Some(Unit::Bytes), virtual_bytes),
            ("process_open_fds", "Open file descriptors", None, open_fds),
            ("process_max_fds", "Most file descriptors there may be", None, max_fds),
            ("process_threads", "Threads", None, threads),
        ];
        for (name, help, unit, value) in whole {
            if let Some(value) = value {
                let gauge = gauge(&mut encoder, name, help, unit.as_ref())?;
                ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(gauge)?;
            }
        }
        if let Some(start) = start_seconds {
            let gauge = gauge(&mut encoder, "process_start_time", "When the process began", Some(&Unit::Seconds))?;
            ConstGauge::new(start).encode(gauge)?;
        }
        if let Some(seconds) = cpu_seconds {
            let help = "User and system time";
            let counter = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
            ConstCounter::new(seconds).encode(counter)?;
        }
        Ok(())
    }
}

fn gauge<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
    unit: Option<&'a Unit>,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    encoder.encode_descriptor(name, help, unit, MetricType::Gauge)
}
