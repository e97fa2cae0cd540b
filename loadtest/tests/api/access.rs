//! Who is let in, TLS, and a server that fails or is gone.

use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use sluice_loadtest::api::{API_AUDIENCE, ApiOptions, ApiServer, ApiTls, ApiUser, Identity};
use sluice_loadtest::certificate::Authority;

use crate::{config_map, config_maps, refused, server};

fn tls(authority: &Authority) -> ApiTls {
    let issued = authority.server(&["127.0.0.1"]);
    ApiTls { certificate: issued.cert_pem, key: issued.key_pem, authority: authority.cert_pem() }
}

/// A client by the kubeconfig, whose credentials are another token or none.
async fn client_with(api: &ApiServer, token: Option<&str>) -> Client {
    let mut kubeconfig = Kubeconfig::from_yaml(&api.kubeconfig()).unwrap();
    let user = kubeconfig.auth_infos[0].auth_info.as_mut().unwrap();
    user.token = token.map(|token| token.to_owned().into());
    user.client_certificate_data = None;
    user.client_key_data = None;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn list(client: Client) -> Result<usize, kube::Error> {
    let maps = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::all(client);
    maps.list(&ListParams::default()).await.map(|list| list.items.len())
}

#[tokio::test]
async fn only_the_right_token_is_let_in() {
    let authority = Authority::new("api");
    let options = ApiOptions { tls: Some(tls(&authority)), tokens: vec!["right".into()], ..ApiOptions::default() };
    let api = ApiServer::start(options).await;
    assert!(api.url().starts_with("https://127.0.0.1:"));
    config_maps(&api).await.list(&ListParams::default()).await.expect("the kubeconfig has the token");
    assert_eq!(api.requests()[0].bearer.as_deref(), Some("right"));
    assert_eq!(refused(list(client_with(&api, Some("wrong")).await).await), (401, "Unauthorized".into()));
    assert_eq!(refused(list(client_with(&api, None).await).await), (403, "Forbidden".into()));
    api.add_token("issued", Identity::service_account("n", "a"));
    list(client_with(&api, Some("issued")).await).await.expect("a token for the API server is one");
    let elsewhere = Identity { audiences: vec!["sluice".into()], ..Identity::service_account("n", "a") };
    assert!(!elsewhere.audiences.contains(&API_AUDIENCE.to_owned()));
    api.add_token("elsewhere", elsewhere);
    assert_eq!(refused(list(client_with(&api, Some("elsewhere")).await).await).0, 401);
}

#[tokio::test]
async fn a_client_certificate_is_let_in() {
    let authority = Authority::new("api");
    let clients = Authority::new("clients");
    let issued = clients.client("system:sluice", &[]);
    let options = ApiOptions {
        tls: Some(tls(&authority)),
        client_authority: Some(clients.cert_pem()),
        user: Some(ApiUser::Certificate { certificate: issued.cert_pem, key: issued.key_pem }),
        ..ApiOptions::default()
    };
    let api = ApiServer::start(options).await;
    config_maps(&api).await.list(&ListParams::default()).await.unwrap();
    assert!(api.requests()[0].certificate);
    assert_eq!(refused(list(client_with(&api, None).await).await), (403, "Forbidden".into()));
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted() {
    let issued = Authority::new("api").server(&["127.0.0.1"]);
    let other = Authority::new("other").cert_pem();
    let tls = Some(ApiTls { certificate: issued.cert_pem, key: issued.key_pem, authority: other });
    let api = ApiServer::start(ApiOptions { tls, ..ApiOptions::default() }).await;
    assert!(config_maps(&api).await.list(&ListParams::default()).await.is_err());
    assert!(api.requests().is_empty());
}

#[tokio::test]
async fn verbs_can_be_forbidden_and_every_request_failed() {
    let api = server().await;
    let maps = config_maps(&api).await;
    api.forbid("list", "configmaps");
    assert_eq!(refused(maps.list(&ListParams::default()).await), (403, "Forbidden".into()));
    assert!(maps.get_opt("a").await.unwrap().is_none(), "other verbs are not");
    api.allow_all();
    for code in [429, 500, 503] {
        api.fail_with(Some(code));
        assert_eq!(refused(maps.list(&ListParams::default()).await).0, code);
    }
    api.fail_with(None);
    maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(api.count("list", "configmaps"), 5);
    let last = api.requests().pop().unwrap();
    assert_eq!((last.method.as_str(), last.path.as_str()), ("GET", "/api/v1/namespaces/n/configmaps"));
}

#[tokio::test]
async fn a_stopped_server_refuses_and_comes_back_with_all_it_had() {
    let api = server().await;
    api.apply(config_map("a", &json!({})));
    let maps = config_maps(&api).await;
    maps.get("a").await.unwrap();
    for _ in 0..2 {
        api.stop().await;
        let refused = tokio::net::TcpStream::connect(api.address()).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(maps.get("a").await.is_err());
        api.start_again().await;
        maps.get("a").await.unwrap();
    }
}
