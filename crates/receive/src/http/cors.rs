//! CORS: cross-origin resource sharing, for browser pages of other origins.
//!
//! Rules: the Fetch standard, "CORS protocol". A browser asks before it sends (the preflight,
//! without credentials), and shows the answer to a page only if it names the page's origin.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::Answer;

/// Headers that are always allowed, since OTLP needs them.
const OWN_HEADERS: [&str; 5] =
    ["content-type", "content-encoding", "x-requested-with", "accept", "user-agent"];

/// Web pages that may send from a browser (CORS).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CorsSettings {
    /// Origins of the pages, such as `https://app.example.com`. One `*` in an origin stands for any
    /// text; `*` alone allows every origin.
    pub allowed_origins: Vec<String>,
    /// Further request headers that pages may send, such as `authorization`. `*` allows all.
    pub allowed_headers: Vec<String>,
    /// Response headers that pages may read.
    pub exposed_headers: Vec<String>,
    /// Seconds for which a browser may cache the answer to a preflight request. 0 leaves the time
    /// to the browser. Default 0.
    pub max_age: u32,
}

/// Builder of answers for pages of other origins.
pub(crate) struct Cors {
    settings: CorsSettings,
    exposed: Option<HeaderValue>,
}

impl Cors {
    pub(crate) fn new(settings: CorsSettings) -> Self {
        let exposed = settings.exposed_headers.join(", ");
        let exposed = Some(exposed).filter(|names| !names.is_empty());
        Self { exposed: exposed.and_then(|names| names.try_into().ok()), settings }
    }

    /// Returns the origin of a request, if allowed.
    pub(crate) fn allowed(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        let is_allowed = self.settings.allowed_origins.iter().any(|pattern| matches(pattern, text));
        is_allowed.then(|| origin.clone())
    }

    /// Returns the answer to a preflight request; `None` for other requests.
    pub(crate) fn preflight<B>(&self, request: &Request<B>) -> Option<Response<Answer>> {
        let headers = request.headers();
        let asks = request.method() == Method::OPTIONS
            && headers.contains_key(ORIGIN)
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        if !asks {
            return None;
        }
        let mut response = Response::new(Answer::new(Bytes::new()));
        *response.status_mut() = StatusCode::NO_CONTENT;
        let answer = response.headers_mut();
        answer.insert(VARY, HeaderValue::from_static("origin, access-control-request-headers"));
        let wants_post = headers.get(ACCESS_CONTROL_REQUEST_METHOD).is_some_and(|it| it == "POST");
        if let Some(origin) = self.allowed(headers)
            && wants_post
            && self.takes_headers(headers)
        {
            self.show(origin, answer);
            answer.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST"));
            if let Some(asked) = headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
                answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
            }
            if self.settings.max_age > 0 {
                answer.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(self.settings.max_age));
            }
        }
        Some(response)
    }

    /// Allows the page of an origin to read an answer.
    pub(crate) fn show(&self, origin: HeaderValue, answer: &mut HeaderMap) {
        answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answer.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
        answer.entry(VARY).or_insert(HeaderValue::from_static("origin"));
        if let Some(exposed) = &self.exposed {
            answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed.clone());
        }
    }

    /// Returns true if all requested headers are allowed.
    fn takes_headers(&self, headers: &HeaderMap) -> bool {
        let asked = headers.get_all(ACCESS_CONTROL_REQUEST_HEADERS).iter();
        let mut asked = asked.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        asked.all(|name| {
            let mut known =
                OWN_HEADERS.into_iter().chain(self.settings.allowed_headers.iter().map(|it| &**it));
            let name = name.trim_ascii();
            known.any(|own| own == "*" || own.as_bytes().eq_ignore_ascii_case(name))
        })
    }
}

/// Returns true if an origin matches a pattern, in which one `*` stands for any text.
fn matches(pattern: &str, origin: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    let origin = origin.to_ascii_lowercase();
    match pattern.split_once('*') {
        None => pattern == origin,
        Some((start, end)) => {
            origin.len() >= start.len() + end.len()
                && origin.starts_with(start)
                && origin.ends_with(end)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cors() -> Cors {
        Cors::new(CorsSettings {
            allowed_origins: vec!["https://*.example.com".to_owned(), "http://a".to_owned()],
            allowed_headers: vec!["Authorization".to_owned()],
            ..CorsSettings::default()
        })
    }

    #[test]
    fn origins_are_matched_whole() {
        for (origin, is_allowed) in [
            ("https://app.example.com", true),
            ("HTTPS://App.Example.com", true),
            ("https://example.com", false),
            ("https://app.example.com.evil", false),
            ("http://a", true),
            ("http://a:8080", false),
            ("null", false),
        ] {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
            assert_eq!(cors().allowed(&headers).is_some(), is_allowed, "{origin}");
        }
    }

    #[test]
    fn a_browser_that_asks_is_told_what_it_may_send() {
        let ask = |origin: &str, method: &str, headers: &str| {
            let request = Request::options("/v1/traces")
                .header(ORIGIN, origin)
                .header(ACCESS_CONTROL_REQUEST_METHOD, method)
                .header(ACCESS_CONTROL_REQUEST_HEADERS, headers)
                .body(())
                .unwrap();
            let answer = cors().preflight(&request).unwrap();
            assert_eq!(answer.status(), StatusCode::NO_CONTENT);
            answer.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN)
        };
        assert!(ask("http://a", "POST", "content-type, AUTHORIZATION"));
        assert!(!ask("http://b", "POST", "content-type"));
        assert!(!ask("http://a", "DELETE", "content-type"));
        assert!(!ask("http://a", "POST", "x-other"));
        let plain = Request::options("/v1/traces").body(()).unwrap();
        assert!(cors().preflight(&plain).is_none(), "nobody asks");
    }
}
