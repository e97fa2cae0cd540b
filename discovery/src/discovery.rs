//! The handle: queries come in, their targets go out, and the tasks behind live as long as anybody holds either.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::warn;

use crate::index::Index;
use crate::object::{EndpointSlice, Pod};
use crate::query::{Kind, Query};
use crate::source::Source;
use crate::status::{Health, Status, WatchStatus};
use crate::targets::{Snapshot, Targets};
use crate::timing::Timing;
use crate::watch::follow;

/// Which namespaces are watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One, with rights in that one; a query of another never has an answer.
    Namespace(String),
    /// Those that queries name, by one watch across all of them. Only what is asked for is listed and kept.
    AllNamespaces,
}

/// Keeps the targets of queries warm. Cheap to clone.
///
/// Its tasks end when the last handle and the last [`Targets`] it gave are gone.
#[derive(Clone, Debug)]
pub struct Discovery(Arc<Tasks>);

/// What the tasks and the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) source: Source,
    pub(crate) scope: Scope,
    pub(crate) timing: Timing,
    slices: Watch,
    pods: Watch,
    index: Mutex<Index>,
    /// How often the way to the API server was said to have changed.
    generation: AtomicU64,
}

/// The two ends of one watch.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The set of queries has changed.
    pub(crate) asked: Notify,
    pub(crate) health: Health,
}

#[derive(Debug)]
struct Tasks {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

/// A query that somebody asked; forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    query: Query,
    snapshot: Arc<Snapshot>,
    tasks: Arc<Tasks>,
}

impl Discovery {
    /// Starts with nothing to watch: the first query opens the first connection. Must be called on a Tokio runtime.
    ///
    /// Nothing can fail here. A kubeconfig that cannot be read or an API server that is down is tried again and again, and
    /// [`status`](Self::status) tells.
    pub fn start(source: Source, scope: Scope) -> Self {
        Self::start_with(source, scope, Timing::default())
    }

    /// [`start`](Self::start) with other times than the default ones.
    pub fn start_with(source: Source, scope: Scope, timing: Timing) -> Self {
        let watch = |kind| Watch { asked: Notify::new(), health: Health::new(kind) };
        let (slices, pods) = (watch(Kind::Slices), watch(Kind::Pods));
        let shared = Arc::new(Shared {
            source,
            scope,
            timing,
            slices,
            pods,
            index: Mutex::default(),
            generation: AtomicU64::new(0),
        });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow::<EndpointSlice>(Arc::clone(&shared))));
        tokio::spawn(stop.clone().run_until_cancelled_owned(follow::<Pod>(Arc::clone(&shared))));
        Self(Arc::new(Tasks { shared, _stop: stop.drop_guard() }))
    }

    /// The targets of a query, kept warm from now on. They are unknown until they were listed, or at once if what is already
    /// watched can tell. Equal queries share a snapshot; a query is forgotten with its last [`Targets`].
    pub fn targets(&self, query: Query) -> Targets {
        let shared = &self.0.shared;
        if !shared.reaches(&query.namespace) {
            warn!(namespace = query.namespace, "a query of a namespace that cannot be watched has no answer");
        }
        let snapshot = shared.index().watch(&query);
        shared.watch(query.kind()).asked.notify_one();
        Targets::watched(Registration { query, snapshot, tasks: Arc::clone(&self.0) })
    }

    /// What the source says has changed: the watches begin anew by it, while the last targets stay in force. A source that cannot be
    /// used leaves them as they are.
    pub fn reconnect(&self) {
        let shared = &self.0.shared;
        shared.generation.fetch_add(1, Ordering::Relaxed);
        shared.slices.asked.notify_one();
        shared.pods.asked.notify_one();
    }

    /// How the watches are doing.
    pub fn status(&self) -> Status {
        Status { slices: self.0.shared.status(Kind::Slices), pods: self.0.shared.status(Kind::Pods) }
    }
}

impl Shared {
    pub(crate) fn watch(&self, kind: Kind) -> &Watch {
        match kind {
            Kind::Slices => &self.slices,
            Kind::Pods => &self.pods,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Held for moments only, never across a wait.
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reaches(&self, namespace: &str) -> bool {
        match &self.scope {
            Scope::Namespace(ours) => ours == namespace,
            // One that cannot be asked for would hold up all others.
            Scope::AllNamespaces => is_namespace(namespace),
        }
    }

    fn status(&self, kind: Kind) -> WatchStatus {
        let index = self.index();
        let wanted = index.asked(kind).next().is_some();
        let synced = !index.asked(kind).any(|namespace| index.lacks(kind, namespace));
        drop(index);
        self.watch(kind).health.status(wanted, synced)
    }
}

/// Whether a namespace can have this name, as DNS labels are written.
fn is_namespace(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_part)
}

impl Registration {
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub(crate) fn age(&self) -> Option<Duration> {
        self.tasks.shared.watch(self.query.kind()).health.age()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.tasks.shared.index().forget(&self.query);
        self.tasks.shared.watch(self.query.kind()).asked.notify_one();
    }
}
