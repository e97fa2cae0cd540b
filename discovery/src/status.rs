//! How the watches are doing, for people, metrics and readiness.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{debug, info, warn};

use crate::query::Kind;

/// The state of both watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Of `EndpointSlices`, for components with a Service.
    pub slices: WatchStatus,
    /// Of Pods, for components with a selector.
    pub pods: WatchStatus,
}

impl Status {
    /// Whether all that is asked for has been listed once.
    pub fn synced(&self) -> bool {
        self.slices.synced && self.pods.synced
    }
}

/// The state of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchStatus {
    /// Whether anybody asks for it; when not, there is no connection.
    pub wanted: bool,
    /// Whether all namespaces that are asked for were listed once; so it is while none is.
    pub synced: bool,
    /// The time since the API server was last heard: any event, bookmark, page of a list or answer to a watch.
    pub age: Option<Duration>,
    /// Why the watch is down; `None` while it is up.
    pub error: Option<String>,
    /// Failures in a row; a watch that stays open ends it.
    pub failures: u64,
    /// Lists of a namespace that came through.
    pub lists: u64,
    /// Watches that were opened.
    pub watches: u64,
}

/// What a watch's task notes as it goes.
#[derive(Debug)]
pub(crate) struct Health {
    kind: Kind,
    start: Instant,
    /// Milliseconds from `start` to the last word of the API server, and one more; zero when there was none.
    last_contact: AtomicU64,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    error: Option<String>,
    failures: u64,
    /// A failure was logged, and its end was not yet.
    warned: bool,
    lists: u64,
    watches: u64,
}

impl Health {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, start: Instant::now(), last_contact: AtomicU64::new(0), notes: Mutex::default() }
    }

    /// The API server said something.
    pub(crate) fn heard(&self) {
        self.last_contact.store(self.start.elapsed().as_millis() as u64 + 1, Ordering::Relaxed);
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        let last = self.last_contact.load(Ordering::Relaxed).checked_sub(1)?;
        Some(self.start.elapsed().saturating_sub(Duration::from_millis(last)))
    }

    pub(crate) fn listed(&self) {
        self.notes().lists += 1;
    }

    pub(crate) fn opened(&self) {
        self.heard();
        let mut notes = self.notes();
        notes.watches += 1;
        notes.error = None;
    }

    /// A watch has been open for a while: all is well.
    pub(crate) fn settled(&self) {
        let mut notes = self.notes();
        notes.failures = 0;
        if std::mem::take(&mut notes.warned) {
            info!(watch = self.kind.name(), "the watch is up again");
        }
    }

    /// Said aloud once in a row of failures; the first after a success is nothing to speak of, since connections do end.
    pub(crate) fn failed(&self, error: String) {
        let never = self.age().is_none();
        let mut notes = self.notes();
        notes.failures += 1;
        if !notes.warned && (never || notes.failures > 1) {
            notes.warned = true;
            warn!(watch = self.kind.name(), error, "the watch is down; the last targets stay in force");
        } else {
            debug!(watch = self.kind.name(), error, failures = notes.failures, "the watch failed");
        }
        notes.error = Some(error);
    }

    pub(crate) fn status(&self, wanted: bool, synced: bool) -> WatchStatus {
        let notes = self.notes();
        WatchStatus {
            wanted,
            synced,
            age: self.age(),
            error: notes.error.clone(),
            failures: notes.failures,
            lists: notes.lists,
            watches: notes.watches,
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_outage_is_said_once_and_its_end_once() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let health = Health::new(Kind::Pods);
        let said = || String::from_utf8(std::mem::take(&mut *lines.0.lock().unwrap())).unwrap();

        // At start the first failure counts.
        health.failed("refused".into());
        let warning = said();
        assert!(warning.contains("WARN") && warning.contains("pods") && warning.contains("refused"), "{warning}");
        health.failed("refused".into());
        health.failed("refused".into());
        health.opened();
        assert_eq!(said(), "");
        health.settled();
        assert!(said().contains("INFO"));

        // Later a connection may end without a word, if the next one holds.
        health.failed("reset".into());
        health.opened();
        health.settled();
        assert_eq!(said(), "");
        health.failed("reset".into());
        health.failed("refused".into());
        health.failed("refused".into());
        assert_eq!(said().matches("WARN").count(), 1);
        assert_eq!(health.status(true, true).failures, 3);
    }
}
