//! What one pod may send before it is that pod's error.

/// Bounds on one pod's body. A limit that is exceeded fails the pod, with the limit's name and value
/// in the error; the other pods of the response are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line, newline not counted. It bounds what a pod can make the codec hold: an unfinished line, in
    /// a buffer that grows by doubling, and a HELP text, of which there are two while a new one is compared with the
    /// old. So at most five times this much, and only if the pod wants to; `tests/memory.rs` measures it.
    pub line_bytes: u32,
    /// Longest body; 0 for no limit.
    pub body_bytes: u64,
    /// Most samples in a body, dropped ones included; 0 for no limit.
    pub samples: u64,
}

impl Limits {
    /// 256 KiB: VictoriaMetrics' bound too. The longest line of the kube-apiserver is under 1 KiB, so
    /// nothing real comes near it.
    pub const LINE_BYTES: u32 = 256 * 1024;

    /// Labels of one sample. Real samples have under twenty and Prometheus has no bound; past a
    /// thousand a line is an attack on whoever has to compare its label names with each other.
    pub const LABELS: usize = 1024;

    /// Bytes of a metric's name, unescaped. Real ones have under a hundred; some copies of the last few are
    /// kept for each pod, which a line of one long name would make expensive.
    pub const NAME_BYTES: usize = 4096;
}

impl Default for Limits {
    fn default() -> Self {
        Self { line_bytes: Self::LINE_BYTES, body_bytes: 0, samples: 0 }
    }
}
