//! What a query has found, for whoever scrapes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;

use crate::discovery::Registration;

/// A pod to scrape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The pod's name; for an endpoint without a pod its address.
    pub pod: String,
    /// Where it is scraped.
    pub address: SocketAddr,
}

/// What is known of one query: nothing until its namespace was listed.
pub(crate) type Snapshot = ArcSwapOption<Vec<Target>>;

/// The targets of one component, always at hand: reading them takes no lock and makes no call.
///
/// They are kept up to date until the last clone is gone; then the query is forgotten.
#[derive(Clone, Debug)]
pub struct Targets(Origin);

#[derive(Clone, Debug)]
enum Origin {
    Fixed(Arc<Vec<Target>>),
    Watched(Arc<Registration>),
}

impl Targets {
    /// Targets that someone wrote down; they need no Kubernetes. Kept in order of the pods' names, as found ones are.
    pub fn fixed(mut targets: Vec<Target>) -> Self {
        targets.sort();
        Self(Origin::Fixed(Arc::new(targets)))
    }

    pub(crate) fn watched(registration: Registration) -> Self {
        Self(Origin::Watched(Arc::new(registration)))
    }

    /// The targets as of now, by the pods' names, each pod once; `None` as long as nobody could tell.
    pub fn load(&self) -> Option<Arc<Vec<Target>>> {
        match &self.0 {
            Origin::Fixed(targets) => Some(Arc::clone(targets)),
            Origin::Watched(registration) => registration.snapshot().load_full(),
        }
    }

    /// How old this knowledge may be: the time since the API server was last heard. `None` if it never was, and for fixed targets.
    pub fn age(&self) -> Option<Duration> {
        match &self.0 {
            Origin::Fixed(_) => None,
            Origin::Watched(registration) => {
                registration.snapshot().load().as_ref()?;
                registration.age()
            }
        }
    }
}
