//! Client certificates: the other way in.

use serde_json::json;
use sluice_loadtest::certificate::{Authority, Issued, write_atomically};
use sluice_loadtest::scraper::{ScrapeError, Scraper};

use crate::stage::{PROMETHEUS, Sluice, Stage, TOKEN, eventually};

async fn code(sluice: &Sluice, client: &Issued) -> Result<u16, ScrapeError> {
    let scraper = Scraper::new(sluice.stranger().with_client(client));
    scraper.scrape("/metrics/etcd").await.map(|scraped| scraped.status.as_u16())
}

#[tokio::test]
async fn a_listed_name_is_let_in_as_common_name_or_alternative_name() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["authentication"]["clientCertificate"]["authorized"] =
        json!([PROMETHEUS, "prometheus.monitoring.svc", "spiffe://guest/ns/monitoring/sa/prometheus"]);
    let sluice = stage.sluice().await;
    let ca = &stage.client_ca;
    assert_eq!(code(&sluice, &ca.client(PROMETHEUS, &[])).await.unwrap(), 200);
    assert_eq!(code(&sluice, &ca.client("someone", &["prometheus.monitoring.svc"])).await.unwrap(), 200);
    let spiffe = ca.client("someone", &["spiffe://guest/ns/monitoring/sa/prometheus"]);
    assert_eq!(code(&sluice, &spiffe).await.unwrap(), 200);
    let other = ca.client("system:node:worker-0", &["worker-0"]);
    assert_eq!(code(&sluice, &other).await.unwrap(), 401, "counts as no certificate");
    let both = Scraper::new(sluice.stranger().with_client(&other).with_bearer(TOKEN));
    assert_eq!(both.scrape("/metrics/etcd").await.unwrap().status, 200, "the token decides");
}

#[tokio::test]
async fn an_untrusted_certificate_ends_the_handshake_with_an_alert() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let stranger = Authority::new("client-ca").client(PROMETHEUS, &[]);
    for client in [stranger, stage.client_ca.expired_client(PROMETHEUS), stage.client_ca.server(&["metrics"])] {
        let refused = code(&sluice, &client).await;
        assert!(matches!(refused, Err(ScrapeError::Tls(_))), "{refused:?}");
    }
    assert_eq!(sluice.scrape("etcd").await.status, 200);
}

#[tokio::test]
async fn without_token_review_certificates_are_the_only_way() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    stage.config["authentication"].as_object_mut().unwrap().remove("tokenReview");
    let sluice = stage.sluice().await;
    let token = Scraper::new(sluice.prometheus()).scrape("/metrics/etcd").await.unwrap();
    assert_eq!(token.status, 401);
    assert_eq!(code(&sluice, &stage.client_ca.client(PROMETHEUS, &[])).await.unwrap(), 200);
    assert_eq!(sluice.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_new_client_ca_is_in_force_for_open_connections_and_resumed_sessions_too() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let old = Scraper::new(sluice.stranger().with_client(&stage.client_ca.client(PROMETHEUS, &[])));
    assert_eq!(old.scrape("/metrics/etcd").await.unwrap().status, 200);
    let new_ca = Authority::new("new-client-ca");
    let directory = stage.dir.path().join("client-ca");
    // Both for a while, as rotations go: nobody is refused.
    let both = stage.client_ca.cert_pem() + &new_ca.cert_pem();
    write_atomically(&directory, "ca.crt", both.as_bytes());
    sluice.reload();
    let new = Scraper::new(sluice.stranger().with_client(&new_ca.client(PROMETHEUS, &[])));
    eventually("the new one is let in", || async {
        assert_eq!(old.scrape("/metrics/etcd").await.unwrap().status, 200, "on its old connection");
        new.scrape("/metrics/etcd").await.is_ok_and(|scraped| scraped.status == 200)
    })
    .await;
    write_atomically(&directory, "ca.crt", new_ca.cert_pem().as_bytes());
    sluice.reload();
    eventually("the old one is not", || async { old.scrape("/metrics/etcd").await.unwrap().status == 401 }).await;
    assert_eq!(old.connections(), 1, "on the very connection that was good before");
    old.forget_connections();
    let resumed = old.scrape("/metrics/etcd").await;
    assert!(matches!(resumed, Err(ScrapeError::Tls(_))), "{resumed:?}");
    assert_eq!(new.scrape("/metrics/etcd").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_new_client_ca_is_in_force_though_the_serving_certificate_that_came_with_it_cannot_be_used() {
    let mut stage = Stage::new().await;
    let _pods = stage.plain_component("etcd", &["a 1\n"]);
    let sluice = stage.sluice().await;
    let client = stage.client_ca.client(PROMETHEUS, &[]);
    assert_eq!(code(&sluice, &client).await.unwrap(), 200);
    let new_ca = Authority::new("new-client-ca");
    write_atomically(&stage.dir.path().join("serving"), "tls.crt", b"nonsense");
    write_atomically(&stage.dir.path().join("client-ca"), "ca.crt", new_ca.cert_pem().as_bytes());
    sluice.reload();
    sluice.process.wait_for_line(|line| line.contains("last good state")).await;
    // The handshake is still the old one's, but whom it let pass is looked at again.
    eventually("whom the old CA vouches for is not let in", || async { code(&sluice, &client).await.unwrap() == 401 })
        .await;
}
