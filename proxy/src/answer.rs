//! What the scraper sees when it gets no metrics: the one place where a refusal becomes an HTTP answer.

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use crate::fault::Refusal;
use crate::reply::Reply;

/// When something temporary may be better. Shorter than a scrape interval, so that it never costs a second scrape.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("5");

/// The answer to a request that is refused.
pub(crate) fn refuse(refusal: &Refusal) -> Response<Reply> {
    let status = status(refusal);
    let mut response = Response::new(Reply::text(format!("{refusal}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    match status {
        StatusCode::UNAUTHORIZED => {
            let challenge = match refusal {
                Refusal::BadToken => HeaderValue::from_static("Bearer realm=\"sluice\", error=\"invalid_token\""),
                _ => HeaderValue::from_static("Bearer realm=\"sluice\""),
            };
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(http::header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, RETRY_SECONDS);
        }
        _ => {}
    }
    response
}

fn status(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Path => StatusCode::BAD_REQUEST,
        Refusal::NoCredentials | Refusal::BadToken => StatusCode::UNAUTHORIZED,
        Refusal::NotAuthorized => StatusCode::FORBIDDEN,
        Refusal::UnknownComponent(_) => StatusCode::NOT_FOUND,
        Refusal::Method => StatusCode::METHOD_NOT_ALLOWED,
        Refusal::TooManyReviews | Refusal::TooManyScrapes => StatusCode::TOO_MANY_REQUESTS,
        Refusal::NoTargets(_) | Refusal::NoAnswer(_) => StatusCode::BAD_GATEWAY,
        Refusal::ReviewUnavailable | Refusal::Late | Refusal::NotSynced => StatusCode::SERVICE_UNAVAILABLE,
    }
}
