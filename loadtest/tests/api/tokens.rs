//! `TokenReview` and `TokenRequest`.

use std::time::{Duration, SystemTime};

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serde_json::{Value, json};
use sluice_loadtest::api::{API_AUDIENCE, ApiServer, Identity, ReviewMode};

use crate::{client, refused, server, soon};

async fn review(client: &Client, token: &str, audiences: &[&str]) -> Result<TokenReviewStatus, Error> {
    let audiences = (!audiences.is_empty()).then(|| audiences.iter().map(|&audience| audience.to_owned()).collect());
    let spec = TokenReviewSpec { token: Some(token.into()), audiences };
    let review = TokenReview { spec, ..TokenReview::default() };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    reviews.create(&PostParams::default(), &review).await.map(|review| review.status.unwrap())
}

fn prometheus(audiences: &[&str], expires: Option<SystemTime>) -> Identity {
    let audiences = audiences.iter().map(|&audience| audience.to_owned()).collect();
    Identity { audiences, expires, ..Identity::service_account("monitoring", "prometheus") }
}

#[tokio::test]
async fn a_known_token_has_its_user_and_the_audiences_in_common() {
    let api = server().await;
    let client = client(&api).await;
    api.add_token("t", prometheus(&["sluice", "other", API_AUDIENCE], None));
    let status = review(&client, "t", &["x", "sluice"]).await.unwrap();
    assert_eq!(status.authenticated, Some(true));
    assert_eq!(status.audiences.unwrap(), ["sluice"]);
    let user = status.user.unwrap();
    assert_eq!(user.username.unwrap(), "system:serviceaccount:monitoring:prometheus");
    assert!(user.groups.unwrap().contains(&"system:serviceaccounts:monitoring".to_owned()));
    assert_eq!(review(&client, "t", &[]).await.unwrap().audiences.unwrap(), [API_AUDIENCE]);
    assert_eq!((api.reviews(), api.reviews_of("t"), api.reviews_of("u")), (2, 2, 0));
    assert_eq!(api.count("create", "tokenreviews"), 2);
}

#[tokio::test]
async fn any_other_token_is_an_error_of_the_token() {
    let api = server().await;
    let client = client(&api).await;
    api.add_token("old", prometheus(&["sluice"], Some(SystemTime::now() - Duration::from_secs(1))));
    api.add_token("elsewhere", prometheus(&["other"], None));
    api.add_token("revoked", prometheus(&["sluice"], None));
    api.remove_token("revoked");
    for token in ["unknown", "old", "elsewhere", "revoked"] {
        let status = review(&client, token, &["sluice"]).await.unwrap();
        assert!(!status.authenticated.unwrap_or(false), "{token}");
        assert!(status.error.is_some_and(|error| !error.is_empty()) && status.audiences.is_none(), "{token}");
    }
    let none = review(&client, "elsewhere", &[]).await.unwrap();
    assert_eq!(none.authenticated, None, "without audiences the API server's own is meant");
    assert_eq!(refused(review(&client, "", &[]).await).0, 400);
}

#[tokio::test]
async fn reviews_fail_garble_and_hang_on_demand() {
    let api = server().await;
    let client = client(&api).await;
    api.add_token("t", prometheus(&["sluice"], None));
    api.answer_reviews(ReviewMode::Fail);
    assert_eq!(refused(review(&client, "t", &["sluice"]).await), (500, "InternalError".into()));
    api.answer_reviews(ReviewMode::Garble);
    let garbled = review(&client, "t", &["sluice"]).await;
    assert!(matches!(garbled, Err(Error::SerdeError(_))), "{garbled:?}");
    api.answer_reviews(ReviewMode::Hang);
    let hanging = tokio::spawn(async move { review(&client, "t", &["sluice"]).await });
    api.wait("the third review", || api.reviews_of("t") == 3).await;
    assert!(!hanging.is_finished());
    api.answer_reviews(ReviewMode::Answer);
    let status = soon("the review that hung", hanging).await.unwrap().unwrap();
    assert_eq!(status.authenticated, Some(true));
}

async fn request(api: &ApiServer, spec: Value) -> Result<Value, Error> {
    let path = "/api/v1/namespaces/n/serviceaccounts/scraper/token";
    let body = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": spec});
    client(api).await.request(http::Request::post(path).body(body.to_string().into_bytes()).unwrap()).await
}

#[tokio::test]
async fn a_service_accounts_token_is_good_while_the_account_is() {
    let api = server().await;
    let spec = json!({"audiences": ["sluice"], "expirationSeconds": 600});
    assert_eq!(refused(request(&api, spec.clone()).await), (404, "NotFound".into()));
    api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": "n"}}));
    let granted = request(&api, spec.clone()).await.unwrap();
    let token = granted["status"]["token"].as_str().unwrap();
    assert_eq!(token.split('.').count(), 3);
    assert!(granted["status"]["expirationTimestamp"].is_string());
    let client = client(&api).await;
    let status = review(&client, token, &["sluice"]).await.unwrap();
    assert_eq!(status.user.unwrap().username.unwrap(), "system:serviceaccount:n:scraper");
    assert_eq!(refused(request(&api, json!({"expirationSeconds": 10})).await).0, 422);

    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "n");
    accounts.delete("scraper", &kube::api::DeleteParams::default()).await.unwrap();
    assert_eq!(review(&client, token, &["sluice"]).await.unwrap().authenticated, None);
    api.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "scraper", "namespace": "n"}}));
    assert_eq!(review(&client, token, &["sluice"]).await.unwrap().authenticated, None, "another account of that name");
    let short = api.issue_token("n", "scraper", &["sluice"], Duration::ZERO);
    assert_eq!(review(&client, &short, &["sluice"]).await.unwrap().authenticated, None, "expired");
}
