//! What is wrong with a configuration, and where.

use std::fmt;

use thiserror::Error;

/// A configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read. Its name is known to whoever asked for it, as with the errors below.
    #[error("{message}")]
    Unreadable {
        /// Why.
        message: String,
    },
    /// Not YAML, or not of the shape that is expected.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// Of the right shape, but it makes no sense: everything that does not.
    #[error("{}", list(.0))]
    Invalid(Vec<Problem>),
    /// It cannot be written as YAML.
    #[error("cannot be written: {message}")]
    Unwritable {
        /// Why.
        message: String,
    },
}

/// One thing that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, as the keys that lead there: `components.etcd.port`.
    pub path: String,
    /// What.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
