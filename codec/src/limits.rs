//! What one pod may send before it is that pod's error.

/// Bounds on one pod's body. A limit that is exceeded fails the pod, with the limit's name and value
/// in the error; the other pods of the response are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, newline not counted. It bounds what a pod can make the codec hold: one
    /// unfinished line and one HELP text, each at most this long.
    pub line_bytes: u32,
    /// Longest body; 0 for no limit.
    pub body_bytes: u64,
    /// Most samples in a body, dropped ones included; 0 for no limit.
    pub samples: u64,
}

impl Limits {
    /// 256 KiB: VictoriaMetrics' bound too. The longest line of the kube-apiserver is under 1 KiB, so
    /// nothing real comes near it, and a hundred hostile pods still hold less than 64 MiB.
    pub const LINE_BYTES: u32 = 256 * 1024;

    /// Labels of one sample. Real samples have under twenty and Prometheus has no bound; past a
    /// thousand a line is an attack on whoever has to compare its label names with each other.
    pub const LABELS: usize = 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: Self::LINE_BYTES, body_bytes: 0, samples: 0 }
    }
}
