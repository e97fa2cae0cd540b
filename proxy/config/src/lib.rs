//! The configuration of one tenant: its types, how they are read, and what makes sense.
//!
//! The operator writes what these types say and the proxy reads it, so that what the one writes is by construction
//! what the other reads. Reading is strict: an unknown key is an error that names line and column, and whatever does not make sense
//! is named all at once, each by its path.
//!
//! ```
//! let error = sluice_config::parse("components: {etcd: {prot: metrics}}").unwrap_err();
//! assert!(error.to_string().starts_with("line 1, column 21: components.etcd: unknown field `prot`"), "{error}");
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic"))]

mod check;
mod component;
mod error;
mod tenant;
mod unit;

use std::path::Path;
use std::{fmt, fs, io};

pub use component::{
    Component, ComponentLimits, IdentityLabels, LabelSelector, MatchExpression, Operator, Port, RelabelAction,
    Relabeling, Scheme, Target, TlsConfig,
};
pub use error::{ConfigError, Problem};
pub use tenant::{Authentication, ClientCertificate, Discovery, Serving, Tenant, TenantLimits, TokenReview};
pub use unit::{ByteSize, Span};

/// Reads and checks a configuration. Paths in it are left as they are.
///
/// The one place that knows which YAML parser is in use.
pub fn parse(text: &str) -> Result<Tenant, ConfigError> {
    let tenant: Tenant = serde_yaml::from_str(text).map_err(|error| {
        let location = error.location();
        let message = error.to_string();
        // The parser appends the place to its message; ours begins with it.
        let message = message.split(" at line ").next().unwrap_or_default().to_string();
        ConfigError::Syntax {
            line: location.as_ref().map_or(1, serde_yaml::Location::line),
            column: location.as_ref().map_or(1, serde_yaml::Location::column),
            message,
        }
    })?;
    let problems = check::check(&tenant);
    if problems.is_empty() { Ok(tenant) } else { Err(ConfigError::Invalid(problems)) }
}

/// Reads and checks the configuration in a file; relative paths in it are meant from where the file is.
pub fn load(path: &Path) -> Result<Tenant, ConfigError> {
    read(path, fs::read(path))
}

/// [`load`], for a caller that has read the file: what was compared with before must be what is parsed.
pub fn read(path: &Path, content: Result<Vec<u8>, io::Error>) -> Result<Tenant, ConfigError> {
    let unreadable = |error: &dyn fmt::Display| ConfigError::Unreadable { message: error.to_string() };
    let text = String::from_utf8(content.map_err(|error| unreadable(&error))?).map_err(|error| unreadable(&error))?;
    let mut tenant = parse(&text)?;
    tenant.resolve_paths(path.parent().unwrap_or(Path::new("")));
    Ok(tenant)
}

/// The configuration as YAML, for writing it. What has its default is left out.
pub fn to_yaml(tenant: &Tenant) -> Result<String, ConfigError> {
    serde_yaml::to_string(tenant).map_err(|error| ConfigError::Unwritable { message: error.to_string() })
}
