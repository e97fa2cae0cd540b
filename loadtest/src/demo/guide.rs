//! What the reader is told: what runs here, and what can be tried with it. Every command works by copy and paste.

use std::net::SocketAddr;

use sluice_loadtest::cluster::HostedCluster;

use super::{Addresses, say};

/// The file for `sluice explain`, in the demo's directory.
pub(super) const CAPTURED: &str = "kube-controller-manager.prom";

pub(super) fn print_picture(cluster: &HostedCluster, address: SocketAddr) {
    let pods: usize = cluster.components().map(|component| cluster.pods_of(component).len()).sum();
    let components = cluster.components().count();
    let etcd: Vec<String> = cluster.pods_of("etcd").iter().map(|pod| place(cluster, pod)).collect();
    let [etcd_0, etcd_1, etcd_2] = [0, 1, 2].map(|number| etcd.get(number).cloned().unwrap_or_default());
    let (hosted, management) = (cluster.hosted().url(), cluster.management().url());
    say(format_args!(
        "
A Kubernetes cluster is run by its control plane: etcd, API servers, controllers. Here that is {components} components in
{pods} pods, all simulated on this machine (127.77.0.x), with metrics captured from real ones or made like them. Such pods
run far from the cluster they control, whose Prometheus wants their metrics all the same. It asks Sluice, which asks all
pods of a component at once and passes on their answers as one, line by line, with labels that say whose a line is:

    Prometheus                         sluice                                the pods of etcd
    (here: curl)  ---- TLS, token ---> {address:<20} ---- mTLS -+--> {etcd_0}
                  <--- metrics -------  the real program               +--> {etcd_1}
                                        |     |                        +--> {etcd_2}
                                        |     |
                                        |     +-- which pods are there? --> management API server  {management}
                                        +-------- whose token is this? ---> hosted API server      {hosted}
"
    ));
}

pub(super) fn print_what_to_try(cluster: &HostedCluster, addresses: Addresses) {
    let Addresses { scrapers, admin } = addresses;
    let host = cluster.hostname();
    let ask = "curl -s --cacert scraper/ca.crt";
    let token = "-H @scraper/authorization";
    say(
        "Try it in another terminal, each line by copy and paste. First go where the certificates and the token are:\n",
    );
    say(format_args!("    cd {}", cluster.dir().display()));
    let show = |what: &str, command: String| say(format_args!("\n  {what}\n    {command}"));

    show(
        "Three etcd pods in one answer, told apart by `pod` and `instance`:",
        format!("{ask} {token} https://{scrapers}/metrics/etcd | grep '^etcd_server_has_leader'"),
    );
    show(
        "Which pods of the kube-apiserver were read to the end (1) and which were not (0):",
        format!("{ask} {token} https://{scrapers}/metrics/kube-apiserver | grep '^up'"),
    );
    show(
        "Another component:",
        format!("{ask} {token} https://{scrapers}/metrics/cluster-version-operator | grep '^cluster_version{{'"),
    );
    show(
        "By the name in the certificate, as Prometheus does it; from afar it is what leads to this tenant:",
        format!("{ask} {token} --connect-to {host}:443:{scrapers} https://{host}/metrics/etcd | grep '^up'"),
    );
    show(
        "With a client certificate in place of the token:",
        format!("{ask} --cert scraper/tls.crt --key scraper/tls.key https://{scrapers}/metrics/etcd | grep '^up'"),
    );
    show(
        "With a token that is none (401):",
        format!("{ask} -w '%{{http_code}}\\n' -H 'Authorization: Bearer guessed' https://{scrapers}/metrics/etcd"),
    );
    show(
        "A component that does not exist (404):",
        format!("{ask} -w '%{{http_code}}\\n' {token} https://{scrapers}/metrics/nonesuch"),
    );
    show(
        "What becomes of each line of a pod, and which rule decides; here the summary (without `tail`, every line):",
        format!(
            "./sluice explain --config config.yaml --component kube-controller-manager --pod kube-controller-manager-0 < {CAPTURED} | tail -n 8"
        ),
    );
    show(
        "Whether the configuration is right (look at config.yaml, change it):",
        "./sluice check --config config.yaml".into(),
    );
    show(
        "Whether sluice is ready, what it knows of each pod, what it counts:",
        format!("curl -s http://{admin}/readyz"),
    );
    say(format_args!(
        "    curl -s http://{admin}/api/v1/targets | tr ',' '\\n' | grep -E '\"(pod|health)\"' | paste - -"
    ));
    say(format_args!(
        "    curl -s http://{admin}/metrics | grep -E '^(sluice_pod_scrapes|sluice_token|process_resident)'"
    ));
    show(
        "When the certificate ends that scrapers see (again after `rotate`, see below):",
        format!("{ask} -v -o /dev/null {token} https://{scrapers}/metrics/etcd 2>&1 | grep 'expire date'"),
    );
}

/// A pod's name and address.
pub(super) fn place(cluster: &HostedCluster, pod: &str) -> String {
    let address = cluster.pod(pod).map(|pod| pod.address().to_string()).unwrap_or_default();
    format!("{pod}  {address}")
}
