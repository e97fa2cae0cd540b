//! `sluice check`: everything that is wrong with a configuration and the files it names.

use std::path::Path;

use sluice_config::{Component, Tenant, TlsConfig};

use crate::authenticate::ClientTrust;
use crate::kubeconfig;
use crate::pem::{self, File};

/// Reads the configuration and all files as `serve` would, and connects to nobody. What `serve` would go on without, as far as
/// it can, is an error here.
pub(crate) fn run(path: &Path) -> Result<(), String> {
    let tenant = sluice_config::load(path).map_err(|error| prefixed(path, &error.to_string()))?;
    let problems = problems(&tenant);
    if problems.is_empty() {
        println!("{}: ok, {} components", path.display(), tenant.components.len());
        Ok(())
    } else {
        Err(prefixed(path, &problems.join("\n")))
    }
}

/// All of them, each with the key it belongs to.
fn problems(tenant: &Tenant) -> Vec<String> {
    let mut problems = Vec::new();
    let mut note = |key: &str, result: Result<(), String>| {
        problems.extend(result.err().map(|problem| format!("{key}: {problem}")));
    };
    let serving = &tenant.serving;
    let (certificate, key) = (File::read(&serving.cert_file), File::read(&serving.key_file));
    note("serving", pem::server_config(&certificate, &key, None).map(drop));
    if let Some(section) = &tenant.authentication.client_certificate {
        let trust = File::read(&section.ca_file).roots().and_then(|roots| ClientTrust::new(roots, 0));
        note("authentication.clientCertificate.caFile", trust.map(drop));
    }
    if let Some(section) = &tenant.authentication.token_review {
        note("authentication.tokenReview.kubeconfig", kubeconfig::check(&section.kubeconfig));
    }
    if let Some(file) = tenant.discovery.as_ref().and_then(|section| section.kubeconfig.as_ref()) {
        note("discovery.kubeconfig", kubeconfig::check(file));
    }
    for (name, component) in &tenant.components {
        note(&format!("components.{name}"), check_component(component));
    }
    problems
}

fn check_component(component: &Component) -> Result<(), String> {
    crate::tenant::uri(component)?;
    let Some(tls) = &component.tls_config else { return Ok(()) };
    let TlsConfig { ca_file, cert_file, key_file, server_name } = tls;
    crate::tenant::server_name(server_name.as_deref())?;
    let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(File::read);
    let (certificate, key) = (read(cert_file), read(key_file));
    // The configuration's own check asks for the CA.
    let Some(ca) = read(ca_file) else { return Ok(()) };
    pem::client_config(&ca, certificate.as_ref().zip(key.as_ref())).map(drop)
}

/// Each line with the file's name before it, as compilers do.
fn prefixed(path: &Path, lines: &str) -> String {
    lines.lines().map(|line| format!("{}: {line}", path.display())).collect::<Vec<_>>().join("\nsluice: ")
}
