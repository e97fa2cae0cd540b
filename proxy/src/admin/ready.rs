//! Whether a scrape would be answered.

use crate::slot::Slot;

/// What stands in the way; empty when ready. A component's own trouble does not: the others are wanted.
pub(crate) async fn obstacles(slot: &Slot, draining: bool) -> Vec<String> {
    let mut obstacles = Vec::new();
    if draining {
        obstacles.push("told to stop".to_string());
    }
    let tenant = slot.tenant();
    if let Some(watched) = &tenant.discovery {
        let status = watched.discovery.status();
        if !status.synced() {
            let error = [status.slices.error, status.pods.error].into_iter().flatten().next();
            let why = error.map(|error| format!(": {error}")).unwrap_or_default();
            obstacles.push(format!("the pods are not known yet{why}"));
        }
    }
    // With client certificates there is another way in.
    if tenant.authenticator.certificates.is_none()
        && let Some(tokens) = &tenant.authenticator.tokens
        && !tokens.reviewer.is_ready().await
    {
        obstacles.push("the hosted API server does not answer and no identity is remembered".into());
    }
    obstacles
}
