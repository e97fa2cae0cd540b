//! What pods serve: bodies captured from real components, and generated ones for components that were not at hand.

mod plausible;

use std::io::Read;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::read::GzDecoder;

pub use plausible::plausible;

macro_rules! captured {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> Bytes {
            static BODY: LazyLock<Bytes> = LazyLock::new(|| unzip(include_bytes!(concat!("../corpus/", $file))));
            BODY.clone()
        }
    )*};
}

captured! {
    /// etcd 3.4: 1,246 samples, families sorted.
    etcd = "etcd.prom.gz";
    /// kube-apiserver 1.37: 53,269 samples in 8.2 MB, families sorted.
    kube_apiserver = "kube-apiserver.prom.gz";
    /// kube-controller-manager 1.37: 3,725 samples, families sorted.
    kube_controller_manager = "kube-controller-manager.prom.gz";
    /// kube-scheduler 1.37: 1,716 samples, families sorted.
    kube_scheduler = "kube-scheduler.prom.gz";
    /// haproxy: 319 samples, families **not** sorted.
    haproxy = "haproxy.prom.gz";
    /// Prometheus 2.42: 274 samples, families sorted.
    prometheus = "prometheus.prom.gz";
}

/// The body of a component by its name in a path: the captured one if there is one, else [`plausible()`] with as many
/// samples as such an operator has.
pub fn of(component: &str) -> Bytes {
    /// What the operators of a small cluster show: enough for every family, not enough to matter.
    const SAMPLES: usize = 600;
    match component {
        "etcd" => etcd(),
        "kube-apiserver" => kube_apiserver(),
        "kube-controller-manager" => kube_controller_manager(),
        "kube-scheduler" => kube_scheduler(),
        "haproxy" => haproxy(),
        "prometheus" => prometheus(),
        other => plausible(other, SAMPLES),
    }
}

/// A valid body like kube-apiserver's of any size: its families in their order, each series as often as is needed,
/// told apart by a label `copy`. It ends with the line that reaches the size, if need be within a histogram.
pub fn repeated(bytes_wanted: usize) -> Bytes {
    let original = kube_apiserver();
    let copies = bytes_wanted.div_ceil(original.len());
    let mut body = Vec::with_capacity(bytes_wanted + 1024);
    'families: for family in families(&original) {
        let is_comment = |line: &&[u8]| line.starts_with(b"#");
        for line in family.split_inclusive(|&b| b == b'\n').filter(is_comment) {
            body.extend_from_slice(line);
        }
        for copy in 0..copies {
            for line in family.split_inclusive(|&b| b == b'\n').filter(|line| !is_comment(line)) {
                if body.len() >= bytes_wanted {
                    break 'families;
                }
                push_with_label(&mut body, line, copy);
            }
        }
    }
    body.into()
}

/// How many lines of a body are samples: neither empty nor comments.
pub fn sample_lines(body: &[u8]) -> usize {
    body.split(|&b| b == b'\n').filter(|line| !matches!(line.first(), None | Some(b'#' | b'\r'))).count()
}

/// The families of a body, each from its HELP line to the next.
fn families(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut starts: Vec<usize> = body.starts_with(b"# HELP ").then_some(0).into_iter().collect();
    starts.extend(body.windows(8).enumerate().filter(|(_, window)| *window == b"\n# HELP ").map(|(at, _)| at + 1));
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([body.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| &body[start..end])
}

/// The sample line with `copy="N"` as its first label; the captured bodies have no brace in a metric's name.
fn push_with_label(body: &mut Vec<u8>, line: &[u8], copy: usize) {
    let name_end = line.iter().position(|b| b"{ ".contains(b)).expect("a sample line has a value");
    body.extend_from_slice(&line[..name_end]);
    body.extend_from_slice(format!("{{copy=\"{copy}\"").as_bytes());
    if line[name_end] == b'{' {
        body.push(b',');
        body.extend_from_slice(&line[name_end + 1..]);
    } else {
        body.push(b'}');
        body.extend_from_slice(&line[name_end..]);
    }
}

fn unzip(zipped: &[u8]) -> Bytes {
    let mut body = Vec::new();
    GzDecoder::new(zipped).read_to_end(&mut body).expect("the corpus unzips");
    body.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scraper::parse;

    #[test]
    fn the_captured_bodies_have_as_many_samples_as_their_documentation_says() {
        let counted = [
            (etcd(), 1246),
            (kube_apiserver(), 53_269),
            (kube_controller_manager(), 3725),
            (kube_scheduler(), 1716),
            (haproxy(), 319),
            (prometheus(), 274),
        ];
        for (body, samples) in counted {
            assert_eq!(sample_lines(&body), samples);
            assert_eq!(parse(&body).expect("a valid body").len(), samples);
        }
    }

    #[test]
    fn a_repeated_body_is_valid_and_as_large_as_wanted() {
        for wanted in [1, 10_000, 1 << 20, 20 << 20] {
            let body = repeated(wanted);
            assert!(body.len() >= wanted, "{} for {wanted}", body.len());
            assert!(body.len() < wanted + 4096, "{} for {wanted}", body.len());
            let samples = parse(&body).expect("a valid body");
            let mut series: Vec<_> = samples.iter().map(|sample| (&sample.name, &sample.labels)).collect();
            let all = series.len();
            series.sort();
            series.dedup();
            assert_eq!(series.len(), all, "no series stands twice");
        }
    }
}
