//! Tokens: who they stand for, `TokenReview` and `TokenRequest`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::status::Failure;
use super::text;

/// The audience of the API server itself: meant when a review or a token names none.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc";

/// Whom a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name of the user.
    pub username: String,
    /// Empty if there is none.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Whom the token may be shown to.
    pub audiences: Vec<String>,
    /// When it stops to be valid; never if none is given.
    pub expires: Option<SystemTime>,
}

impl Identity {
    /// A service account, for the API server's own audience, without an end.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self {
            username: format!("system:serviceaccount:{namespace}:{name}"),
            uid: text::uid(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            audiences: vec![API_AUDIENCE.into()],
            expires: None,
        }
    }
}

/// How token reviews are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewMode {
    /// As they should be.
    #[default]
    Answer,
    /// With 500.
    Fail,
    /// Not, until the mode is another one; then all that wait are answered in that mode.
    Hang,
    /// With 201 and JSON that is cut off.
    Garble,
}

/// The tokens known, and what was asked about them.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    known: BTreeMap<String, Known>,
    reviews: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Known {
    identity: Identity,
    /// The service account by which it was issued: its namespace and name. With it goes the token.
    issued_for: Option<(String, String)>,
}

/// What a token turned out to be.
pub(super) enum Verdict {
    Valid {
        identity: Identity,
        /// Those of the audiences asked for that the token is for.
        audiences: Vec<String>,
        /// The service account, of this uid, that must still be there.
        bound_to: Option<(String, String)>,
    },
    Invalid(String),
}

impl Tokens {
    pub(super) fn add(&mut self, token: &str, identity: Identity) {
        self.known.insert(token.into(), Known { identity, issued_for: None });
    }

    pub(super) fn remove(&mut self, token: &str) {
        self.known.remove(token);
    }

    /// Issues a token for a service account: shaped as a JSON web token, signed with noise.
    pub(super) fn issue(&mut self, account: &Account, audiences: &[String], lifetime: Duration) -> String {
        let now = SystemTime::now();
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut identity = Identity::service_account(account.namespace, account.name);
        identity.uid = account.uid.into();
        identity.audiences = audiences.to_vec();
        identity.expires = Some(now + lifetime);
        let header = json!({"alg": "RS256", "kid": "sluice-loadtest"});
        let claims = json!({
            "aud": audiences, "exp": seconds(now + lifetime), "iat": seconds(now), "iss": API_AUDIENCE, "jti": text::uid(),
            "kubernetes.io": {
                "namespace": account.namespace,
                "serviceaccount": {"name": account.name, "uid": account.uid},
            },
            "nbf": seconds(now), "sub": identity.username,
        });
        // 256 bytes, the length of an RSA signature.
        let noise: Vec<u8> = (0..32).flat_map(|_| text::random().to_be_bytes()).collect();
        let part = |json: &Value| text::base64_url(json.to_string().as_bytes());
        let token = format!("{}.{}.{}", part(&header), part(&claims), text::base64_url(&noise));
        let issued_for = Some((account.namespace.to_owned(), account.name.to_owned()));
        self.known.insert(token.clone(), Known { identity, issued_for });
        token
    }

    /// What a token is to somebody who is one of `audiences`.
    pub(super) fn verdict(&self, token: &str, audiences: &[String]) -> Verdict {
        let Some(known) = self.known.get(token) else {
            return Verdict::Invalid("invalid bearer token".into());
        };
        let identity = &known.identity;
        if identity.expires.is_some_and(|expires| expires <= SystemTime::now()) {
            return Verdict::Invalid("[invalid bearer token, service account token has expired]".into());
        }
        let common: Vec<String> = audiences.iter().filter(|a| identity.audiences.contains(a)).cloned().collect();
        if common.is_empty() {
            let message = format!(
                "[invalid bearer token, token audiences {:?} is invalid for the target audiences {audiences:?}]",
                identity.audiences
            );
            return Verdict::Invalid(message);
        }
        Verdict::Valid { identity: identity.clone(), audiences: common, bound_to: known.issued_for.clone() }
    }

    pub(super) fn count(&mut self, token: &str) {
        *self.reviews.entry(token.into()).or_default() += 1;
    }

    pub(super) fn reviews(&self) -> usize {
        self.reviews.values().sum()
    }

    pub(super) fn reviews_of(&self, token: &str) -> usize {
        self.reviews.get(token).copied().unwrap_or(0)
    }
}

/// A service account that a token is issued for.
pub(super) struct Account<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

/// What a `TokenReview` asks.
pub(super) struct Question {
    pub(super) token: String,
    /// Those of the spec, or else the API server's own.
    pub(super) audiences: Vec<String>,
}

impl Question {
    pub(super) fn of(review: &Value) -> Result<Self, Failure> {
        let token = review["spec"]["token"].as_str().unwrap_or("");
        if token.is_empty() {
            return Err(Failure::bad_request("token is required for TokenReview in authentication"));
        }
        let asked = strings(&review["spec"]["audiences"]);
        let audiences = if asked.is_empty() { vec![API_AUDIENCE.into()] } else { asked };
        Ok(Self { token: token.into(), audiences })
    }
}

/// The `TokenReview` with its answer. As in Go's JSON, `authenticated` is left out when false, and `user` is never.
pub(super) fn answer(review: &Value, verdict: &Verdict) -> Value {
    let status = match verdict {
        Verdict::Valid { identity, audiences, .. } => {
            let mut user = Map::new();
            user.insert("username".into(), json!(identity.username));
            if !identity.uid.is_empty() {
                user.insert("uid".into(), json!(identity.uid));
            }
            if !identity.groups.is_empty() {
                user.insert("groups".into(), json!(identity.groups));
            }
            json!({"authenticated": true, "user": user, "audiences": audiences})
        }
        Verdict::Invalid(error) => json!({"user": {}, "error": error}),
    };
    json!({"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
        "spec": review["spec"], "status": status})
}

/// The `TokenRequest` with its token.
pub(super) fn granted(account: &Account, audiences: &[String], lifetime: Duration, token: &str) -> Value {
    let expires = text::time(SystemTime::now() + lifetime);
    json!({
        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": account.name, "namespace": account.namespace, "creationTimestamp": text::now()},
        "spec": {"audiences": audiences, "expirationSeconds": lifetime.as_secs(), "boundObjectRef": null},
        "status": {"token": token, "expirationTimestamp": expires},
    })
}

/// The audiences and the lifetime that a `TokenRequest` asks for.
pub(super) fn requested(request: &Value) -> Result<(Vec<String>, Duration), Failure> {
    let asked = strings(&request["spec"]["audiences"]);
    let audiences = if asked.is_empty() { vec![API_AUDIENCE.into()] } else { asked };
    let seconds = request["spec"]["expirationSeconds"].as_u64().unwrap_or(3600);
    if seconds < 600 {
        let message = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: \
            may not specify a duration less than 10 minutes";
        return Err(Failure::new(422, "Invalid", message));
    }
    Ok((audiences, Duration::from_secs(seconds)))
}

fn strings(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
