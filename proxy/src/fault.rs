//! What goes wrong, and whose fault it is: a pod's, or the scraper's (or ours, or the hosted API server's) in [`Refusal`].

use std::time::Duration;

use sluice_codec::PodError;
use thiserror::Error;

/// Why a pod's scrape failed. The pod is guilty, but for the last three.
#[derive(Debug, Error)]
pub(crate) enum PodFault {
    /// No TCP connection.
    #[error("connect: {0}")]
    Connect(std::io::Error),
    /// No TLS connection: a certificate that is not trusted, on either side.
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    /// Something that is not HTTP/1.1, or too large a head.
    #[error("HTTP: {0}")]
    Http(String),
    /// Answered, but not with 200.
    #[error("answered {0}")]
    Status(http::StatusCode),
    /// A content type that is no exposition text.
    #[error("content type {0:?} is neither text nor OpenMetrics text")]
    ContentType(String),
    /// Encoded, though we asked for identity.
    #[error("content encoding {0:?}, though identity was asked for")]
    ContentEncoding(String),
    /// The connection ended before the body did.
    #[error("the body was cut short: {0}")]
    Truncated(String),
    /// Used more than its share of the time.
    #[error("gave no answer in time: waited {0:?} for it")]
    Timeout(Duration),
    /// The body is no valid exposition, or over a limit.
    #[error("{0}")]
    Body(PodError),
    /// The component's certificates or keys cannot be used.
    #[error("the component's TLS files: {0}")]
    TlsFiles(String),
    /// The scraper left or the process ended before the pod was read to its end.
    #[error("the scraper left")]
    Cancelled,
}

impl PodFault {
    /// All that [`Self::reason`] can say, the codec's own included.
    pub(crate) const REASONS: [&'static str; 18] = [
        "connect",
        "tls",
        "http",
        "status",
        "content_type",
        "content_encoding",
        "truncated",
        "timeout",
        "tls_files",
        "cancelled",
        "line_limit",
        "body_limit",
        "sample_limit",
        "label_limit",
        "name_limit",
        "openmetrics",
        "syntax",
        "abandoned",
    ];

    /// A short constant word: the `outcome` of a metric.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Tls(_) => "tls",
            Self::Http(_) => "http",
            Self::Status(_) => "status",
            Self::ContentType(_) => "content_type",
            Self::ContentEncoding(_) => "content_encoding",
            Self::Truncated(_) => "truncated",
            Self::Timeout(_) => "timeout",
            Self::Body(error) => error.fault.reason(),
            Self::TlsFiles(_) => "tls_files",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Why a request gets no metrics. One function, [`crate::answer::refuse`], says what the scraper sees of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    /// The scraper: neither GET nor HEAD.
    #[error("only GET and HEAD are answered")]
    Method,
    /// The scraper: a path that cannot be one of ours.
    #[error("the path is /metrics/<component>")]
    Path,
    /// The scraper: no such component. Only said to those who are let in.
    #[error("there is no component {0:?}")]
    UnknownComponent(String),
    /// The scraper: neither a token nor a client certificate that could be looked at.
    #[error("a bearer token or a client certificate is needed")]
    NoCredentials,
    /// The scraper: the hosted API server does not know this token, or not for us.
    #[error("the token was not accepted")]
    BadToken,
    /// The scraper: known, and not on the list.
    #[error("this identity may not read these metrics")]
    NotAuthorized,
    /// The hosted API server: could not be asked, and nothing is remembered.
    #[error("the hosted API server could not be asked about the token")]
    ReviewUnavailable,
    /// The hosted API server: answered so late that the pods would be blamed for it.
    #[error("whose token it is was told too late to scrape in time")]
    Late,
    /// The scraper (or another one): more new tokens than may be asked about.
    #[error("too many tokens to review")]
    TooManyReviews,
    /// The scraper (or another one): as many scrapes as this tenant may have are under way.
    #[error("too many scrapes at once")]
    TooManyScrapes,
    /// The management cluster: its API server has not yet told who the pods are.
    #[error("the pods are not known yet")]
    NotSynced,
    /// The control plane: nobody to scrape.
    #[error("component {0:?} has no pods")]
    NoTargets(String),
    /// The pods: none of them answered, and `up` may not say so.
    #[error("none of the pods of {0:?} answered")]
    NoAnswer(String),
}
