//! Asking the hosted API server whose token it is, as seldom as possible.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwap, ArcSwapOption};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::bearer;
use super::cache::{Cache, Digest, Known, Verdict};
use super::rate::Bucket;
use crate::fault::Refusal;
use crate::metrics::TenantMetrics;

/// A scrape has ten seconds; an API server that needs more than half of them to look at a token is not there.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);

/// What decides about tokens besides the API server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewerOptions {
    /// A token must be for one of them; none means the API server's own.
    pub(crate) audiences: Vec<String>,
    pub(crate) cache_ttl: Duration,
    pub(crate) refusal_ttl: Duration,
    pub(crate) reviews_per_second: u32,
}

/// Knows whose a token is, from the cache or from the hosted API server.
pub(crate) struct Reviewer {
    options: ArcSwap<ReviewerOptions>,
    /// None while the kubeconfig could never be used.
    client: ArcSwapOption<Connected>,
    state: Mutex<State>,
    metrics: TenantMetrics,
}

/// A way to the API server.
struct Connected {
    client: Client,
    /// Of the kubeconfig it was made of.
    print: u64,
}

struct State {
    cache: Cache,
    bucket: Bucket,
    /// How the last question went; unknown before the first.
    reachable: Option<bool>,
}

impl Reviewer {
    /// `None` if the system has no randomness for the cache's key.
    pub(crate) fn new(options: ReviewerOptions, metrics: TenantMetrics) -> Option<Self> {
        let bucket = Bucket::new(options.reviews_per_second, Instant::now());
        let state = State { cache: Cache::new()?, bucket, reachable: None };
        let options = ArcSwap::from_pointee(options);
        Some(Self { options, client: ArcSwapOption::empty(), state: Mutex::new(state), metrics })
    }

    pub(crate) fn options(&self) -> Arc<ReviewerOptions> {
        self.options.load_full()
    }

    /// Other times and rates. With other audiences what is remembered would be wrong: that needs a new reviewer.
    pub(crate) fn tune(&self, options: ReviewerOptions) {
        self.state().bucket.set_rate(options.reviews_per_second);
        self.options.store(Arc::new(options));
    }

    /// Whether the client is the one of the kubeconfig with this fingerprint.
    pub(crate) fn has_client(&self, print: u64) -> bool {
        self.client.load().as_ref().is_some_and(|connected| connected.print == print)
    }

    /// The way to the API server has changed; what it said before still holds.
    pub(crate) fn set_client(&self, client: Client, print: u64) {
        self.client.store(Some(Arc::new(Connected { client, print })));
    }

    /// Whose token this is.
    pub(crate) async fn user_of(self: &Arc<Self>, token: &str) -> Result<Arc<str>, Refusal> {
        match self.find(token)? {
            Found::User(user) => Ok(user),
            Found::Asking(mut verdict) => match verdict.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(Verdict::Accepted(user, _))) => Ok(Arc::clone(user)),
                Ok(Some(Verdict::Refused)) => Err(Refusal::BadToken),
                _ => Err(Refusal::ReviewUnavailable),
            },
        }
    }

    /// Whether a scraper with a good token would be let in: somebody is remembered, or the API server answers.
    pub(crate) async fn is_ready(&self) -> bool {
        if self.state().cache.knows_somebody(Instant::now()) {
            return true;
        }
        let Some(connected) = self.client.load_full() else { return false };
        // Any answer will do, and no right is needed to get one.
        let Ok(request) = http::Request::get("/version").body(Vec::new()) else { return false };
        let answer = tokio::time::timeout(REVIEW_TIMEOUT, connected.client.request_text(request)).await;
        matches!(answer, Ok(Ok(_) | Err(kube::Error::Api(_))))
    }

    fn find(self: &Arc<Self>, token: &str) -> Result<Found, Refusal> {
        let now = Instant::now();
        let mut state = self.state();
        let digest = state.cache.digest(token);
        match state.cache.look_up(&digest, now) {
            Known::Accepted { user, renew } => {
                drop(state);
                self.metrics.looked_up("hit");
                if renew {
                    self.ask(digest, token, Asked::Again);
                }
                Ok(Found::User(user))
            }
            Known::Refused => {
                self.metrics.looked_up("refused");
                Err(Refusal::BadToken)
            }
            Known::Pending(verdict) => {
                self.metrics.looked_up("pending");
                Ok(Found::Asking(verdict))
            }
            Known::Unknown => {
                self.metrics.looked_up("miss");
                if !state.bucket.take(now) {
                    return Err(Refusal::TooManyReviews);
                }
                // Under the same lock as the look-up, so that one token is asked about once. A task of its own: the scraper
                // that asked first may leave, and others wait for the same answer.
                let verdict = self.ask(digest, token, Asked::First);
                state.cache.begin(digest, verdict.clone());
                Ok(Found::Asking(verdict))
            }
        }
    }

    fn ask(self: &Arc<Self>, digest: Digest, token: &str, asked: Asked) -> watch::Receiver<Option<Verdict>> {
        let (sender, receiver) = watch::channel(None);
        let (reviewer, token) = (Arc::clone(self), token.to_string());
        tokio::spawn(async move {
            let verdict = reviewer.review(token).await;
            let mut state = reviewer.state();
            if asked == Asked::First {
                state.cache.end(&digest);
            }
            state.cache.settle(digest, &verdict, reviewer.options().refusal_ttl, Instant::now());
            drop(state);
            // Nobody may be waiting any more.
            let _ = sender.send(Some(verdict));
        });
        receiver
    }

    async fn review(&self, token: String) -> Verdict {
        let life = bearer::remaining_life(&token, SystemTime::now()).unwrap_or(Duration::MAX);
        let options = self.options();
        let answer = match self.client.load_full() {
            Some(connected) => create_review(&connected.client, token, &options.audiences).await,
            None => Err("the kubeconfig cannot be used".into()),
        };
        let verdict = answer.map(|status| judge(status, &options.audiences));
        self.note(verdict.as_ref().err());
        match verdict {
            Ok(Some(user)) => {
                self.metrics.reviewed("accepted");
                Verdict::Accepted(user, options.cache_ttl.min(life))
            }
            Ok(None) => {
                self.metrics.reviewed("refused");
                Verdict::Refused
            }
            Err(_) => {
                self.metrics.reviewed("error");
                Verdict::Unavailable
            }
        }
    }

    /// Says once that the API server is gone, and once that it is back.
    fn note(&self, error: Option<&String>) {
        let was_reachable = self.state().reachable.replace(error.is_none());
        match (was_reachable, error) {
            (None | Some(true), Some(error)) => {
                warn!(tenant = self.metrics.tenant(), error, "the hosted API server does not review tokens");
            }
            (Some(false), None) => info!(tenant = self.metrics.tenant(), "the hosted API server reviews tokens again"),
            _ => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it was held ends the process, in release; in tests the state is as good as before.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a token is asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Nobody knows it; whoever looks it up meanwhile waits for this answer.
    First,
    /// It is known, and nobody waits.
    Again,
}

enum Found {
    User(Arc<str>),
    Asking(watch::Receiver<Option<Verdict>>),
}

async fn create_review(client: &Client, token: String, audiences: &[String]) -> Result<TokenReviewStatus, String> {
    let audiences = (!audiences.is_empty()).then(|| audiences.to_vec());
    let spec = TokenReviewSpec { token: Some(token), audiences };
    let review = TokenReview { spec, ..TokenReview::default() };
    let api: Api<TokenReview> = Api::all(client.clone());
    let params = PostParams::default();
    let answer = tokio::time::timeout(REVIEW_TIMEOUT, api.create(&params, &review)).await;
    let answer = answer.map_err(|_| format!("no answer within {REVIEW_TIMEOUT:?}"))?;
    let answer = answer.map_err(|error| describe(&error))?;
    answer.status.ok_or_else(|| "the answer has no status".into())
}

/// The user, if the token is good and for us. An API server that does not know audiences names none; then the token may be
/// meant for anybody, and is not for us.
fn judge(status: TokenReviewStatus, audiences: &[String]) -> Option<Arc<str>> {
    let is_for_us = audiences.is_empty()
        || status.audiences.is_some_and(|named| named.iter().any(|audience| audiences.contains(audience)));
    let user = status.user.and_then(|user| user.username).filter(|user| !user.is_empty());
    user.filter(|_| status.authenticated == Some(true) && is_for_us).map(Arc::from)
}

/// An error without what was sent or received: an answer may quote the question, and that has the token in it.
fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("answered {} {}", status.code, status.reason),
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => "the answer is no TokenReview".into(),
        kube::Error::HyperError(error) => error.to_string(),
        kube::Error::Service(error) => error.to_string(),
        kube::Error::Auth(_) => "the kubeconfig's credentials cannot be used".into(),
        _ => "the question could not be sent".into(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    fn status(authenticated: bool, user: &str, audiences: Option<&[&str]>) -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(authenticated),
            user: Some(UserInfo { username: Some(user.into()), ..UserInfo::default() }),
            audiences: audiences.map(|audiences| audiences.iter().map(ToString::to_string).collect()),
            error: None,
        }
    }

    #[test]
    fn a_token_must_be_for_one_of_our_audiences() {
        let ours = ["sluice".to_string()];
        assert_eq!(judge(status(true, "p", Some(&["sluice"])), &ours).as_deref(), Some("p"));
        assert_eq!(judge(status(true, "p", Some(&["other"])), &ours), None);
        assert_eq!(judge(status(true, "p", None), &ours), None, "an API server that does not know audiences");
        assert_eq!(judge(status(true, "p", None), &[]).as_deref(), Some("p"));
    }

    #[test]
    fn no_user_and_no_authentication_is_a_refusal() {
        assert_eq!(judge(status(false, "p", None), &[]), None);
        assert_eq!(judge(status(true, "", None), &[]), None);
        assert_eq!(judge(TokenReviewStatus::default(), &[]), None);
    }
}
