//! One kind's list and watch, over and over.
//!
//! `kube::runtime::watcher` does nearly this. It hides bookmarks, which are how we know that a quiet API server lives; it forgets where
//! it was with its client, which we replace when credentials may have changed; it asks at once again when watches end at once; and
//! it lists everything that it watches, where of all namespaces we want a few.
//!
//! Lists are of one namespace each. Across namespaces one watch begins at the first list's version; what later lists already
//! knew it tells again, in order, so that all comes out right. Nothing is taken from the watch while a list is under way, since
//! a list is never older than the events before it.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use kube::Client;
use kube::api::WatchEvent;
use tokio::time::{sleep, timeout};

use crate::api::{self, Error};
use crate::discovery::{Scope, Shared, Watch};
use crate::index::Object;
use crate::timing::Backoff;

/// Follows all objects of a kind that somebody asks for, for ever.
pub(crate) async fn follow<K: Object>(shared: Arc<Shared>) {
    let mut follower = Follower {
        shared: &shared,
        watch: shared.watch(K::KIND),
        position: Position::default(),
        backoff: Backoff::new(&shared.timing),
    };
    loop {
        match follower.connect::<K>().await {
            Ok(()) => follower.watch.asked.notified().await,
            Err(error) => follower.recover(&error).await,
        }
    }
}

struct Follower<'a> {
    shared: &'a Shared,
    watch: &'a Watch,
    position: Position,
    backoff: Backoff,
}

/// Where we are in the history of a kind. It outlives connections.
#[derive(Default)]
struct Position {
    /// A watch goes on from here; `None` before the first list.
    version: Option<String>,
    /// The namespaces that were listed since, so that what the watch says of them is the whole truth.
    listed: BTreeSet<String>,
}

enum End {
    /// The API server ends a watch when its time is over.
    Closed,
    /// The way to the API server may be another one now.
    Renewed,
    /// Nobody asks any more.
    Unwanted,
}

impl Follower<'_> {
    /// Lists and watches by a new client until something fails or nobody asks.
    async fn connect<K: Object>(&mut self) -> Result<(), Error> {
        if !self.is_wanted::<K>() {
            self.position = Position::default();
            return Ok(());
        }
        let mut generation = self.shared.generation();
        let mut client = self.shared.source.client(None).await?;
        loop {
            self.list::<K>(&client).await?;
            let Some(version) = self.position.version.clone() else { return Ok(()) };
            match self.watch::<K>(&client, &version, generation).await? {
                End::Closed => {}
                End::Renewed => {
                    generation = self.shared.generation();
                    match self.shared.source.client(None).await {
                        // It may be another API server, with a history of its own. What is known stays until it was listed.
                        Ok(renewed) => (client, self.position) = (renewed, Position::default()),
                        // The way that is open is better than none.
                        Err(error) => tracing::warn!(%error, "the way to the API server cannot be renewed"),
                    }
                }
                End::Unwanted => {
                    self.position = Position::default();
                    return Ok(());
                }
            }
        }
    }

    async fn recover(&mut self, error: &Error) {
        if error.ends_position() {
            self.position = Position::default();
        }
        if error.is_gone() {
            tracing::debug!(%error, "the watch has to start over");
        } else {
            self.watch.health.failed(error.to_string());
        }
        sleep(self.backoff.pause()).await;
    }

    fn is_wanted<K: Object>(&self) -> bool {
        self.shared.index().asked(K::KIND).any(|namespace| self.shared.reaches(namespace))
    }

    /// Lists the namespaces that somebody asks for and nobody listed.
    async fn list<K: Object>(&mut self, client: &Client) -> Result<(), Error> {
        while let Some(namespace) = self.unlisted::<K>() {
            let Some(mut table) = self.shared.index().blank::<K>(&namespace) else { continue };
            let mut next = String::new();
            let version = loop {
                let page = api::list::<K>(client, &self.shared.timing, &namespace, next).await?;
                self.watch.health.heard();
                for object in &page.items {
                    table.insert(object);
                }
                if page.metadata.next.is_empty() {
                    break page.metadata.resource_version;
                }
                next = page.metadata.next;
            };
            if version.is_empty() {
                return Err(Error::NoVersion);
            }
            self.shared.index().replace::<K>(&namespace, table);
            self.watch.health.listed();
            self.position.version.get_or_insert(version);
            self.position.listed.insert(namespace);
        }
        Ok(())
    }

    fn unlisted<K: Object>(&mut self) -> Option<String> {
        let index = self.shared.index();
        let asked: BTreeSet<&str> = index.asked(K::KIND).filter(|namespace| self.shared.reaches(namespace)).collect();
        let listed = &mut self.position.listed;
        listed.retain(|namespace| asked.contains(namespace.as_str()));
        let unlisted = |namespace: &&str| !listed.contains(*namespace) || index.lacks(K::KIND, namespace);
        asked.into_iter().find(unlisted).map(str::to_owned)
    }

    async fn watch<K: Object>(&mut self, client: &Client, version: &str, generation: u64) -> Result<End, Error> {
        let shared = self.shared;
        let namespace = match &shared.scope {
            Scope::Namespace(namespace) => Some(namespace.as_str()),
            Scope::AllNamespaces => None,
        };
        let mut events = pin!(api::watch::<K>(client, &shared.timing, namespace, version).await?);
        self.watch.health.opened();
        let mut settled = false;
        let mut settling = pin!(sleep(shared.timing.first_pause));
        loop {
            let event = tokio::select! {
                () = &mut settling, if !settled => {
                    settled = true;
                    self.backoff.reset();
                    self.watch.health.settled();
                    continue;
                }
                () = self.watch.asked.notified() => {
                    if !self.is_wanted::<K>() {
                        return Ok(End::Unwanted);
                    }
                    if shared.generation() != generation {
                        return Ok(End::Renewed);
                    }
                    self.list::<K>(client).await?;
                    continue;
                }
                event = timeout(shared.timing.silence, events.try_next()) => event.map_err(|_| Error::Silent)??,
            };
            match event {
                // One that ends at once would be asked for again at once, without end.
                None if !settled => return Err(Error::Closed),
                None => return Ok(End::Closed),
                Some(event) => self.take::<K>(event)?,
            }
        }
    }

    fn take<K: Object>(&mut self, event: WatchEvent<K>) -> Result<(), Error> {
        self.watch.health.heard();
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.shared.index().apply(&object);
                object.metadata().resource_version.clone()
            }
            WatchEvent::Deleted(object) => {
                self.shared.index().delete(&object);
                object.metadata().resource_version.clone()
            }
            WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
            WatchEvent::Error(status) => return Err(Error::refused(status.code, &status)),
        };
        if !version.is_empty() {
            self.position.version = Some(version);
        }
        Ok(())
    }
}
