//! The objects, every change to them in order, and those who watch.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::resource::Resource;
use super::selector::Selector;
use super::status::Failure;

/// Namespace and name: the order of lists.
pub(super) type Key = (String, String);

/// All objects of the server under one resource version, as in etcd.
#[derive(Debug)]
pub(super) struct Store {
    version: u64,
    /// The history is complete from here on: what is asked for an older version is expired.
    oldest: u64,
    objects: BTreeMap<String, BTreeMap<Key, Arc<Value>>>,
    history: VecDeque<Change>,
    history_limit: usize,
    watchers: BTreeMap<u64, Watcher>,
    next_watcher: u64,
    /// Whether watches are silent; under the same lock as their beginning, so that none slips through.
    pub(super) frozen: bool,
}

/// One write, by which states can be rolled forward and back.
#[derive(Clone, Debug)]
struct Change {
    version: u64,
    /// From [`collection`].
    collection: String,
    key: Key,
    before: Option<Arc<Value>>,
    /// The object as of this change; of a deleted one the last state with the version of its deletion.
    object: Arc<Value>,
    deleted: bool,
}

/// What a list or a watch covers.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) resource: Arc<Resource>,
    /// Empty for all.
    pub(super) namespace: String,
    pub(super) selector: Selector,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// With what is there now, as additions; `marked` with a bookmark at their end.
    Initial { marked: bool },
    /// With what comes after this version.
    After(u64),
    /// With what comes from now on.
    Now,
}

/// What a watch is to do next.
#[derive(Clone, Debug)]
pub(super) enum Signal {
    /// Send an event.
    Event(&'static str, Arc<Value>),
    /// Send a bookmark of this version; `initial` if it ends the initial events.
    Bookmark { version: u64, initial: bool },
    /// Send this error and end.
    Fail(Failure),
    /// End as if the time were over.
    End,
    /// Fall silent for ever.
    Freeze,
}

#[derive(Debug)]
struct Watcher {
    scope: Scope,
    /// From [`collection`], once for all changes it is compared with.
    collection: String,
    signals: mpsc::UnboundedSender<Signal>,
    connection: CancellationToken,
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) items: Vec<Arc<Value>>,
    pub(super) version: u64,
    /// Where the next page begins, if there is one, and how many objects are still to come.
    pub(super) next: Option<(String, usize)>,
}

impl Store {
    /// `history_limit`: the number of changes after which the oldest is forgotten.
    pub(super) fn new(history_limit: usize) -> Self {
        // 0 means "any version" in requests, so that no state may have it.
        let first = 1;
        Self {
            version: first,
            oldest: first,
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_limit,
            watchers: BTreeMap::new(),
            next_watcher: 0,
            frozen: false,
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn get(&self, resource: &Resource, key: &Key) -> Option<Arc<Value>> {
        self.objects.get(&collection(resource))?.get(key).cloned()
    }

    /// Everything in scope, now.
    pub(super) fn all(&self, scope: &Scope) -> Vec<Arc<Value>> {
        let objects = self.objects.get(&collection(&scope.resource));
        let objects = objects.into_iter().flatten().filter(|(key, object)| scope.covers(key, object));
        objects.map(|(_, object)| Arc::clone(object)).collect()
    }

    /// At most `limit` objects (0: all) after the object `after`, as they were at version `at`.
    pub(super) fn page(&self, scope: &Scope, at: u64, after: Option<&Key>, limit: usize) -> Result<Page, Failure> {
        if at < self.oldest {
            return Err(Failure::too_old(at, self.oldest));
        }
        let collection = collection(&scope.resource);
        let mut objects = self.objects.get(&collection).cloned().unwrap_or_default();
        let undone = self.history.iter().rev().take_while(|change| change.version > at);
        for change in undone.filter(|change| change.collection == collection) {
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        let rest =
            |(key, object): &(&Key, &Arc<Value>)| after.is_none_or(|after| *key > after) && scope.covers(key, object);
        let covered: Vec<_> = objects.iter().filter(rest).collect();
        let taken = if limit == 0 { covered.len() } else { limit.min(covered.len()) };
        let left = covered.len() - taken;
        let next = (left > 0).then(|| {
            let (namespace, name) = covered[taken - 1].0;
            (format!("{at}/{namespace}/{name}"), left)
        });
        let items = covered[..taken].iter().map(|(_, object)| Arc::clone(object)).collect();
        Ok(Page { items, version: at, next })
    }

    /// Stores an object under a new version.
    pub(super) fn put(&mut self, resource: &Resource, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let collection = collection(resource);
        let before = self.objects.entry(collection.clone()).or_default().insert(key.clone(), Arc::clone(&object));
        let deleted = false;
        self.record(Change { version: self.version, collection, key, before, object: Arc::clone(&object), deleted });
        object
    }

    /// Removes an object, whose last state is `object`.
    pub(super) fn remove(&mut self, resource: &Resource, key: Key, mut object: Value) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let collection = collection(resource);
        let before = self.objects.get_mut(&collection).and_then(|objects| objects.remove(&key));
        let deleted = true;
        self.record(Change { version: self.version, collection, key, before, object: Arc::clone(&object), deleted });
        object
    }

    fn record(&mut self, change: Change) {
        for watcher in self.watchers.values() {
            watcher.feed(&change);
        }
        self.history.push_back(change);
        while self.history.len() > self.history_limit {
            self.oldest = self.history.pop_front().map_or(self.oldest, |change| change.version);
        }
    }

    /// Forgets the history.
    pub(super) fn compact(&mut self) {
        self.history.clear();
        self.oldest = self.version;
    }

    /// Begins a watch: its number and what it is to do. No change is lost or told twice between the beginning and what
    /// follows.
    pub(super) fn watch(
        &mut self,
        scope: Scope,
        start: Start,
        connection: CancellationToken,
    ) -> Result<(u64, mpsc::UnboundedReceiver<Signal>), Failure> {
        let (signals, receiver) = mpsc::unbounded_channel();
        let watcher = Watcher { collection: collection(&scope.resource), scope, signals, connection };
        match start {
            Start::Now => {}
            Start::After(version) if version < self.oldest => return Err(Failure::too_old(version, self.oldest)),
            Start::After(version) => {
                for change in self.history.iter().filter(|change| change.version > version) {
                    watcher.feed(change);
                }
            }
            Start::Initial { marked } => {
                for object in self.all(&watcher.scope) {
                    watcher.send(Signal::Event("ADDED", object));
                }
                if marked {
                    watcher.send(Signal::Bookmark { version: self.version, initial: true });
                }
            }
        }
        let number = self.next_watcher;
        self.next_watcher += 1;
        self.watchers.insert(number, watcher);
        Ok((number, receiver))
    }

    /// Lets a watch send a bookmark once it has sent all that came before.
    pub(super) fn bookmark(&self, number: u64) {
        if let Some(watcher) = self.watchers.get(&number) {
            watcher.send(Signal::Bookmark { version: self.version, initial: false });
        }
    }

    pub(super) fn unwatch(&mut self, number: u64) {
        self.watchers.remove(&number);
    }

    /// Tells all watches the same.
    pub(super) fn signal_all(&self, signal: &Signal) {
        for watcher in self.watchers.values() {
            watcher.send(signal.clone());
        }
    }

    /// The connections on which there are watches.
    pub(super) fn watched_connections(&self) -> Vec<CancellationToken> {
        self.watchers.values().map(|watcher| watcher.connection.clone()).collect()
    }

    /// The number of watches by resource.
    pub(super) fn watches(&self) -> BTreeMap<String, usize> {
        let mut watches = BTreeMap::new();
        for watcher in self.watchers.values() {
            *watches.entry(watcher.scope.resource.plural.clone()).or_default() += 1;
        }
        watches
    }
}

impl Scope {
    fn covers(&self, key: &Key, object: &Value) -> bool {
        (self.namespace.is_empty() || self.namespace == key.0) && self.selector.matches(object)
    }
}

impl Watcher {
    /// An object that no longer matches is deleted to this watcher, one that matches for the first time is added.
    fn feed(&self, change: &Change) {
        if change.collection != self.collection {
            return;
        }
        let before = change.before.as_ref().filter(|before| self.scope.covers(&change.key, before));
        let after = Some(&change.object).filter(|after| !change.deleted && self.scope.covers(&change.key, after));
        match (before, after) {
            (None, None) => {}
            (None, Some(after)) => self.send(Signal::Event("ADDED", Arc::clone(after))),
            (Some(_), Some(after)) => self.send(Signal::Event("MODIFIED", Arc::clone(after))),
            (Some(_), None) if change.deleted => self.send(Signal::Event("DELETED", Arc::clone(&change.object))),
            (Some(before), None) => {
                let mut last = Value::clone(before);
                last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                self.send(Signal::Event("DELETED", Arc::new(last)));
            }
        }
    }

    fn send(&self, signal: Signal) {
        // The receiver is gone when the client has left and the watch is about to be removed.
        let _ = self.signals.send(signal);
    }
}

/// Versions of one kind are collections of their own.
fn collection(resource: &Resource) -> String {
    format!("{}/{}/{}", resource.group, resource.version, resource.plural)
}
