//! Who asks: before anything is said about components, one of the tenant's ways in must admit the request.

mod bearer;
mod cache;
mod certificate;
mod rate;
mod review;

use std::sync::Arc;

use http::HeaderMap;

pub(crate) use certificate::{ClientTrust, PeerCertificate};
pub(crate) use review::{Reviewer, ReviewerOptions};

use crate::fault::Refusal;

/// A tenant's ways in.
pub(crate) struct Authenticator {
    pub(crate) tokens: Option<Tokens>,
    pub(crate) certificates: Option<Certificates>,
}

/// Bearer tokens.
pub(crate) struct Tokens {
    pub(crate) reviewer: Arc<Reviewer>,
    /// User names; never empty.
    pub(crate) authorized: Vec<String>,
}

/// Client certificates.
pub(crate) struct Certificates {
    pub(crate) trust: Arc<ClientTrust>,
    /// Common or alternative names; never empty.
    pub(crate) authorized: Vec<String>,
}

impl Authenticator {
    /// Lets the request pass, or says why not. A certificate is looked at first, since that costs nothing.
    pub(crate) async fn admit(&self, headers: &HeaderMap, peer: Option<&PeerCertificate>) -> Result<(), Refusal> {
        if let (Some(certificates), Some(peer)) = (&self.certificates, peer)
            && certificates.trust.admits(peer, &certificates.authorized)
        {
            return Ok(());
        }
        // A certificate whose identity is not listed counts as none: the token decides.
        let Some(tokens) = &self.tokens else { return Err(Refusal::NoCredentials) };
        let token = bearer::token(headers)?.ok_or(Refusal::NoCredentials)?;
        let user = tokens.reviewer.user_of(token).await?;
        if tokens.authorized.iter().any(|name| **name == *user) { Ok(()) } else { Err(Refusal::NotAuthorized) }
    }
}
