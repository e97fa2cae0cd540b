//! A simulated Kubernetes API server: any resource, stored as JSON, with the semantics that clients rely on.
//!
//! It is made for tests: beside its HTTP side there is a handle that changes objects directly, disturbs the server and its
//! watches, and tells what was asked. Objects have no schemas, nothing is defaulted or validated but their metadata, and no
//! controller runs: no garbage collection, no Endpoints of Services, and what is in a Namespace outlives it.

mod apply;
mod check;
mod disturb;
mod documents;
mod fields;
mod http;
mod journal;
mod listen;
mod objects;
mod options;
mod patch;
mod path;
mod render;
mod resource;
mod review;
mod selector;
mod serve;
mod status;
mod storage;
mod text;
mod token;
mod watch;
mod write;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio_rustls::TlsAcceptor;

use disturb::Knobs;
use journal::Journal;
use listen::Door;
use resource::Registry;
use review::Tokens;
use selector::Selector;
use storage::{Key, Scope, Store};
use write::{Part, Preconditions, Write};

pub use journal::ApiRequest;
pub use objects::{endpoint_slice, pod};
pub use options::{ApiOptions, ApiTls, ApiUser};
pub use resource::Resource;
pub use review::{API_AUDIENCE, Identity, ReviewMode};
pub use status::Failure;

/// A running server; clones are the same server, and with the last of them it stops.
#[derive(Clone, Debug)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    door: tokio::sync::Mutex<Door>,
}

/// What the connections share.
#[derive(Debug)]
struct Shared {
    options: ApiOptions,
    registry: Mutex<Registry>,
    store: Mutex<Store>,
    tokens: Mutex<Tokens>,
    review_mode: tokio::sync::watch::Sender<ReviewMode>,
    knobs: Mutex<Knobs>,
    journal: Mutex<Journal>,
}

impl ApiServer {
    /// Starts a server.
    #[allow(clippy::unused_async, reason = "it needs a runtime around it, which an async function shows")]
    pub async fn start(options: ApiOptions) -> Self {
        let tls = listen::tls(&options);
        let (socket, address) =
            Door::bind(options.address).unwrap_or_else(|error| panic!("{}: cannot bind: {error}", options.address));
        let shared = Arc::new(Shared {
            registry: Mutex::default(),
            store: Mutex::new(Store::new(options.history)),
            tokens: Mutex::default(),
            review_mode: tokio::sync::watch::Sender::new(ReviewMode::Answer),
            knobs: Mutex::default(),
            journal: Mutex::default(),
            options,
        });
        let door = Door::open(socket, &shared, tls.as_ref())
            .unwrap_or_else(|error| panic!("{address}: cannot listen: {error}"));
        Self { inner: Arc::new(Inner { shared, address, tls, door: tokio::sync::Mutex::new(door) }) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Its address as a URL.
    pub fn url(&self) -> String {
        let scheme = if self.inner.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address())
    }

    /// A kubeconfig with the server, its authority and the credentials of the options.
    pub fn kubeconfig(&self) -> String {
        let options = &self.shared().options;
        let mut text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\n    namespace: default\n\
             clusters:\n- name: test\n  cluster:\n    server: {}\n",
            self.url()
        );
        let encoded = |pem: &str| text::base64(pem.as_bytes());
        let mut line = |line: std::fmt::Arguments| text.write_fmt(line).expect("a String takes everything");
        if let Some(tls) = &options.tls {
            line(format_args!("    certificate-authority-data: {}\n", encoded(&tls.authority)));
        }
        line(format_args!("users:\n- name: test\n  user:"));
        let token = || options.tokens.first().cloned().map(ApiUser::Token);
        match options.user.clone().or_else(token) {
            None => line(format_args!(" {{}}\n")),
            Some(ApiUser::Token(token)) => line(format_args!("\n    token: {token:?}\n")),
            Some(ApiUser::Certificate { certificate, key }) => {
                line(format_args!("\n    client-certificate-data: {}\n", encoded(&certificate)));
                line(format_args!("    client-key-data: {}\n", encoded(&key)));
            }
        }
        text
    }

    /// Adds a custom resource, as a `CustomResourceDefinition` does: with a status subresource and generations.
    pub fn register(&self, group: &str, version: &str, plural: &str, kind: &str, namespaced: bool) {
        self.register_resource(Resource {
            group: group.into(),
            version: version.into(),
            plural: plural.into(),
            kind: kind.into(),
            namespaced,
            status: true,
            generation: true,
            custom: true,
        });
    }

    /// Adds a resource, or puts it in the place of the one with the same name.
    pub fn register_resource(&self, resource: Resource) {
        self.shared().registry().register(resource);
    }

    /// Creates an object, or replaces the one with the same name whatever its resource version, status included. Watches see it
    /// as they see a write by HTTP.
    pub fn apply(&self, mut object: Value) -> Value {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let resource = self.resource(&text(&object["apiVersion"]), &text(&object["kind"]));
        let key = (text(&object["metadata"]["namespace"]), text(&object["metadata"]["name"]));
        assert!(
            resource.namespaced != key.0.is_empty(),
            "{}: the namespace is missing or too much: {object}",
            resource.kind
        );
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
            metadata.remove("uid");
        }
        let mut store = self.shared().store();
        let exists = store.get(&resource, &key).is_some();
        let mut write = write(&mut store, &resource);
        let written = if exists { write.update(&key, object) } else { write.create(&key.0, object) };
        let written =
            written.unwrap_or_else(|failure| panic!("{} {key:?} cannot be applied: {failure}", resource.kind));
        Value::clone(&written)
    }

    /// The object, if it is there. The namespace of what is in none is empty.
    pub fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource(api_version, kind);
        let object = self.shared().store().get(&resource, &(namespace.into(), name.into()));
        object.map(|object| Value::clone(&object))
    }

    /// Deletes an object as HTTP does: finalizers hold it. Says whether it was there.
    pub fn delete(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let resource = self.resource(api_version, kind);
        let key: Key = (namespace.into(), name.into());
        let mut store = self.shared().store();
        write(&mut store, &resource).delete(&key, &Preconditions::default()).is_ok()
    }

    /// All objects of a kind in a namespace, or in all of them.
    pub fn list(&self, api_version: &str, kind: &str, namespace: Option<&str>) -> Vec<Value> {
        let resource = self.resource(api_version, kind);
        let scope = Scope { resource, namespace: namespace.unwrap_or("").into(), selector: Selector::default() };
        self.shared().store().all(&scope).iter().map(|object| Value::clone(object)).collect()
    }

    /// The resource version of the newest write.
    pub fn resource_version(&self) -> u64 {
        self.shared().store().version()
    }

    fn resource(&self, api_version: &str, kind: &str) -> Arc<Resource> {
        let found = self.shared().registry().by_kind(api_version, kind);
        found.unwrap_or_else(|| panic!("no resource {kind} of {api_version}: see ApiServer::register"))
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        lock(&self.registry)
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        lock(&self.tokens)
    }

    fn knobs(&self) -> MutexGuard<'_, Knobs> {
        lock(&self.knobs)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        lock(&self.journal)
    }
}

/// A write by the simulation itself.
fn write<'a>(store: &'a mut Store, resource: &'a Resource) -> Write<'a> {
    Write { store, resource, manager: "loadtest", part: Part::Whole, dry_run: false }
}

/// A test that panics in one thread must not hide its message behind the panics of others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.door.get_mut().stop();
    }
}
