//! Bearer tokens: asked about seldom, believed for a while, and never longer than they may be.

use std::time::Duration;

use serde_json::json;
use sluice_loadtest::api::{Identity, ReviewMode};
use sluice_loadtest::pod::Pod;
use sluice_loadtest::scraper::Scraper;

use crate::stage::{Sluice, Stage, TOKEN, eventually};

/// `Stage` with one component, tokens the only way in, and this in its `tokenReview` section.
async fn start(tuning: serde_json::Value) -> (Stage, Vec<Pod>, Sluice) {
    let mut stage = Stage::new().await;
    let pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["authentication"].as_object_mut().unwrap().remove("clientCertificate");
    let section = stage.config["authentication"]["tokenReview"].as_object_mut().unwrap();
    section.extend(tuning.as_object().unwrap().clone());
    let sluice = stage.sluice().await;
    (stage, pods, sluice)
}

/// The code that a scraper with this token gets.
async fn code(sluice: &Sluice, token: &str) -> u16 {
    let scraper = Scraper::new(sluice.stranger().with_bearer(token));
    scraper.scrape("/metrics/etcd").await.unwrap().status.as_u16()
}

#[tokio::test]
async fn a_good_token_is_asked_about_once() {
    let (stage, _pods, sluice) = start(json!({})).await;
    for _ in 0..20 {
        assert_eq!(code(&sluice, TOKEN).await, 200);
    }
    assert_eq!(stage.hosted.reviews_of(TOKEN), 1);
    assert!((sluice.metric("sluice_token_cache_total", &[("result", "hit")]).await - 19.0).abs() < 0.1);
    assert!((sluice.metric("sluice_tokenreviews_total", &[("result", "accepted")]).await - 1.0).abs() < 0.1);
}

#[tokio::test]
async fn an_identity_that_is_not_listed_is_forbidden() {
    let (stage, _pods, sluice) = start(json!({})).await;
    let other = Identity { audiences: vec!["sluice".into()], ..Identity::service_account("default", "other") };
    stage.hosted.add_token("other", other);
    assert_eq!(code(&sluice, "other").await, 403);
    assert_eq!(code(&sluice, "other").await, 403);
    assert_eq!(stage.hosted.reviews_of("other"), 1, "it is remembered whose it is");
}

#[tokio::test]
async fn a_token_for_somebody_else_is_no_token_for_us() {
    let (stage, _pods, sluice) = start(json!({})).await;
    let prometheus = Identity::service_account("openshift-monitoring", "prometheus-k8s");
    stage.hosted.add_token("api-audience", prometheus);
    assert_eq!(code(&sluice, "api-audience").await, 401);
}

#[tokio::test]
async fn a_bad_token_is_refused_without_asking_again_until_it_may_have_become_good() {
    let (stage, _pods, sluice) = start(json!({"refusalTTL": "1s"})).await;
    assert_eq!(code(&sluice, "late").await, 401);
    assert_eq!(code(&sluice, "late").await, 401);
    assert_eq!(stage.hosted.reviews_of("late"), 1);
    let prometheus = Identity::service_account("openshift-monitoring", "prometheus-k8s");
    stage.hosted.add_token("late", Identity { audiences: vec!["sluice".into()], ..prometheus });
    eventually("the token is good", || async { code(&sluice, "late").await == 200 }).await;
}

#[tokio::test]
async fn scrapes_that_come_at_once_with_one_token_are_one_question() {
    let (stage, _pods, sluice) = start(json!({})).await;
    stage.hosted.answer_reviews(ReviewMode::Hang);
    let scrapes = (0..10).map(|_| code(&sluice, TOKEN));
    let all = futures_util::future::join_all(scrapes);
    let release = async {
        stage.hosted.wait("the question was asked", || stage.hosted.reviews_of(TOKEN) == 1).await;
        let asked_or_waiting =
            || async { sluice.metric("sluice_token_cache_total", &[("result", "pending")]).await > 8.5 };
        eventually("the others wait for the same answer", asked_or_waiting).await;
        stage.hosted.answer_reviews(ReviewMode::Answer);
    };
    let (codes, ()) = tokio::join!(all, release);
    assert_eq!(codes, [200; 10]);
    assert_eq!(stage.hosted.reviews_of(TOKEN), 1);
}

#[tokio::test]
async fn who_left_while_the_question_was_asked_does_not_take_the_answer_along() {
    let (stage, _pods, sluice) = start(json!({})).await;
    stage.hosted.answer_reviews(ReviewMode::Hang);
    let scraper = Scraper::new(sluice.prometheus());
    tokio::select! {
        _ = scraper.scrape("/metrics/etcd") => panic!("answered without a review"),
        () = stage.hosted.wait("the question was asked", || stage.hosted.reviews_of(TOKEN) == 1) => {}
    }
    let waits = async {
        eventually("somebody else waits", || async {
            sluice.metric("sluice_token_cache_total", &[("result", "pending")]).await > 0.5
        })
        .await;
        stage.hosted.answer_reviews(ReviewMode::Answer);
    };
    let (code, ()) = tokio::join!(code(&sluice, TOKEN), waits);
    assert_eq!((code, stage.hosted.reviews_of(TOKEN)), (200, 1));
}

#[tokio::test]
async fn a_hosted_api_server_that_is_down_is_survived_by_who_is_remembered() {
    let (stage, _pods, sluice) = start(json!({"cacheTTL": "1h"})).await;
    assert_eq!(code(&sluice, TOKEN).await, 200);
    stage.hosted.stop().await;
    assert_eq!(code(&sluice, TOKEN).await, 200);
    assert_eq!(sluice.admin("/readyz").await.status, 200, "somebody is remembered");
    let scraper = Scraper::new(sluice.stranger().with_bearer("unseen"));
    let unseen = scraper.scrape("/metrics/etcd").await.unwrap();
    assert_eq!((unseen.status.as_u16(), unseen.header("retry-after")), (503, Some("5")));
    stage.hosted.start_again().await;
    eventually("it is asked again at once: errors are not remembered", || async {
        code(&sluice, "unseen").await == 401
    })
    .await;
}

#[tokio::test]
async fn with_nobody_remembered_a_hosted_api_server_that_is_down_makes_us_unready() {
    let (stage, _pods, sluice) = start(json!({})).await;
    assert_eq!(sluice.admin("/readyz").await.status, 200);
    stage.hosted.stop().await;
    let ready = sluice.admin("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains("the hosted API server does not answer"), "{}", ready.text());
    stage.hosted.start_again().await;
    eventually("ready again", || async { sluice.admin("/readyz").await.status == 200 }).await;
}

#[tokio::test]
async fn every_failure_of_a_review_is_unavailable_and_none_is_remembered() {
    let (stage, _pods, sluice) = start(json!({})).await;
    for mode in [ReviewMode::Fail, ReviewMode::Garble] {
        stage.hosted.answer_reviews(mode);
        assert_eq!(code(&sluice, TOKEN).await, 503, "{mode:?}");
    }
    stage.hosted.answer_reviews(ReviewMode::Answer);
    assert_eq!(code(&sluice, TOKEN).await, 200);
}

#[tokio::test]
async fn a_token_is_renewed_in_the_background_and_a_revoked_one_soon_refused() {
    let (stage, _pods, sluice) = start(json!({"cacheTTL": "2s"})).await;
    assert_eq!(code(&sluice, TOKEN).await, 200);
    // While it is scraped with, it is asked about again, and no scrape waits for that or fails.
    eventually("the token was reviewed again", || async {
        assert_eq!(code(&sluice, TOKEN).await, 200);
        stage.hosted.reviews_of(TOKEN) >= 3
    })
    .await;
    stage.hosted.remove_token(TOKEN);
    eventually("the token is refused", || async { code(&sluice, TOKEN).await == 401 }).await;
}

#[tokio::test]
async fn a_token_is_not_believed_past_its_own_end() {
    let (stage, _pods, sluice) = start(json!({"cacheTTL": "1h"})).await;
    let token = stage.hosted.issue_token("openshift-monitoring", "prometheus-k8s", &["sluice"], Duration::from_secs(2));
    assert_eq!(code(&sluice, &token).await, 200);
    // Believed for an hour, it would not be asked about for half of that.
    eventually("it is refused", || async { code(&sluice, &token).await == 401 }).await;
}

#[tokio::test]
async fn a_flood_of_random_tokens_does_not_become_one_on_the_hosted_api_server() {
    let (stage, _pods, sluice) = start(json!({})).await;
    assert_eq!(code(&sluice, TOKEN).await, 200);
    let tokens: Vec<_> = (0..100).map(|number| format!("random-{number}")).collect();
    let start = std::time::Instant::now();
    let codes = futures_util::future::join_all(tokens.iter().map(|token| code(&sluice, token))).await;
    let allowed = 10 + start.elapsed().as_secs() as usize + 1;
    assert!(stage.hosted.reviews() <= 1 + allowed, "{} reviews", stage.hosted.reviews());
    assert!(codes.iter().all(|code| [401, 429].contains(code)) && codes.contains(&429), "{codes:?}");
    assert_eq!(code(&sluice, TOKEN).await, 200, "whoever is known is not harmed");
}

#[tokio::test]
async fn a_kubeconfig_that_comes_late_or_changes_needs_no_restart() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let hosted = stage.dir.path().join("hosted");
    let good = std::fs::read(hosted.join("kubeconfig")).unwrap();
    std::fs::remove_file(hosted.join("kubeconfig")).unwrap();
    let sluice = stage.sluice().await;
    assert_eq!(code(&sluice, TOKEN).await, 503);
    sluice_loadtest::certificate::write_atomically(&hosted, "kubeconfig", &good);
    sluice.reload();
    eventually("tokens are reviewed", || async { code(&sluice, TOKEN).await == 200 }).await;
    sluice_loadtest::certificate::write_atomically(&hosted, "kubeconfig", b"users: [{token: secret-of-the-file");
    sluice.reload();
    let line = sluice.process.wait_for_line(|line| line.contains("not a kubeconfig")).await;
    assert!(!line.contains("secret-of-the-file"), "{line}");
    let scraper = Scraper::new(sluice.stranger().with_bearer("unseen"));
    assert_eq!(scraper.scrape("/metrics/etcd").await.unwrap().status, 401, "the last good way is still used");
}

#[tokio::test]
async fn a_review_that_comes_late_is_not_blamed_on_the_pods() {
    let (stage, _pods, sluice) = start(json!({})).await;
    stage.hosted.answer_reviews(ReviewMode::Hang);
    let options = sluice_loadtest::scraper::ScraperOptions { timeout: Duration::from_secs(4), ..sluice.prometheus() };
    let scraper = Scraper::new(options);
    let release = async {
        // More than half of the scraper's time.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        stage.hosted.answer_reviews(ReviewMode::Answer);
    };
    let (late, ()) = tokio::join!(scraper.scrape("/metrics/etcd"), release);
    assert_eq!(late.unwrap().status, 503);
    let now = sluice.scrape("etcd").await;
    assert_eq!(now.samples_named("metrics_aggregator_pod_scrape_errors_total")[0].value, "0");
}
