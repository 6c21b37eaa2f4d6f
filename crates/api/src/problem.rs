//! Problem documents (RFC 9457): errors with the wrong parameter and a remedy.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use spanscore_base::settings::{meant_or_known, nearest};
use spanscore_store::query::StoreQueryError;

use crate::counters::RequestRefusal;

/// Error of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiProblem {
    pub(crate) status: StatusCode,
    /// Name of the kind, the end of its URN.
    pub(crate) kind: &'static str,
    pub(crate) detail: String,
    parameter: Option<String>,
    nearest: Option<String>,
}

/// Problem document.
#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: String,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<&'a str>,
}

impl ApiProblem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, detail: impl Into<String>) -> Self {
        Self { status, kind, detail: detail.into(), parameter: None, nearest: None }
    }

    /// Returns the problem of an invalid value.
    pub(crate) fn value(parameter: &str, detail: impl Into<String>) -> Self {
        let parameter = Some(parameter.to_owned());
        Self { parameter, ..Self::new(StatusCode::BAD_REQUEST, "bad_value", detail) }
    }

    /// Returns the problem of a value outside of a set.
    pub(crate) fn word(parameter: &str, word: &str, words: &[&'static str]) -> Self {
        let nearest = nearest(word, words.iter().copied()).map(str::to_owned);
        let help = meant_or_known(word, words);
        let detail = format!("`{parameter}` cannot be `{word}`: {help}");
        Self { nearest, ..Self::value(parameter, detail) }
    }

    /// Returns the problem of an unknown parameter.
    pub(crate) fn parameter(word: &str, known: &[&'static str]) -> Self {
        let mut problem = Self::word(word, word, known);
        problem.kind = "unknown_parameter";
        let help = meant_or_known(word, known);
        problem.detail = format!("there is no parameter `{word}` here: {help}");
        problem
    }

    /// Returns the problem of a missing item.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// Returns the reason for counters.
    pub(crate) fn refusal(&self) -> Option<RequestRefusal> {
        match self.kind {
            "foreign_host" => Some(RequestRefusal::Host),
            "foreign_origin" => Some(RequestRefusal::Origin),
            "unauthorised" => Some(RequestRefusal::Token),
            "read_only" => Some(RequestRefusal::ReadOnly),
            "too_busy" => Some(RequestRefusal::Busy),
            "too_long" => Some(RequestRefusal::TooLong),
            "too_large" => Some(RequestRefusal::TooLarge),
            "too_slow" => Some(RequestRefusal::TooSlow),
            "bytes_full" => Some(RequestRefusal::BytesFull),
            _ => None,
        }
    }
}

impl From<StoreQueryError> for ApiProblem {
    fn from(error: StoreQueryError) -> Self {
        let detail = error.to_string();
        match error {
            StoreQueryError::TooLong => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "too_long", detail)
            }
            StoreQueryError::NoTrace { .. } => Self::not_found(detail),
            StoreQueryError::Ambiguous { .. } => {
                Self::new(StatusCode::CONFLICT, "ambiguous", detail)
            }
            StoreQueryError::TraceId { .. } | StoreQueryError::TraceStart { .. } => {
                Self::value("trace_id", detail)
            }
            StoreQueryError::Text { .. } => Self::value("text", detail),
            StoreQueryError::Field { .. } => Self::value("group_by", detail),
            StoreQueryError::Word { field, word, words } => Self::word(field, &word, words),
            StoreQueryError::Time(_) => Self::value("from", detail),
            StoreQueryError::Open(_) | StoreQueryError::Sqlite(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
            }
        }
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let document = Document {
            r#type: format!("urn:spanscore:problem:{}", self.kind),
            title: self.kind.replace('_', " "),
            status: self.status.as_u16(),
            detail: &self.detail,
            parameter: self.parameter.as_deref(),
            nearest: self.nearest.as_deref(),
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
