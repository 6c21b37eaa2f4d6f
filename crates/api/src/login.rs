//! Browser login by a one-time code or the token, in exchange for a cookie hidden from scripts.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};

use crate::body::ApiBody;
use crate::counters::RequestRefusal;
use crate::problem::ApiProblem;
use crate::question::pairs;
use crate::state::Api;

/// Longest body of a login.
pub(crate) const LOGIN_BYTES_MAX: usize = 4 << 10;

/// Shows the form.
pub(crate) async fn form() -> Response {
    page(
        StatusCode::OK,
        "<code>spanscore open</code> prints a link that logs this browser in. Or show \
         <code>dashboard.token</code> of the config here.",
    )
}

/// Accepts a token, or the one-time code of a link.
pub(crate) async fn login(
    State(api): State<Arc<Api>>,
    body: Result<ApiBody<LOGIN_BYTES_MAX>, ApiProblem>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(problem) => return api.refuse(problem),
    };
    let fields = pairs(&String::from_utf8_lossy(body.as_ref()));
    let field = |name: &str| fields.iter().find(|(it, _)| it == name).map(|(_, it)| it.trim());
    let keys = &api.guard.keys;
    let (access, refusal) = match field("code") {
        Some(code) => (keys.of_code(code), RequestRefusal::Code),
        None => (field("token").and_then(|it| keys.of_token(it)), RequestRefusal::Token),
    };
    let Some(access) = access else {
        api.counters.add(refusal);
        let text = "This is no token, or its link was used or is older than ten minutes: \
                    <code>spanscore open</code> prints another.";
        return page(StatusCode::UNAUTHORIZED, text);
    };
    let mut response = Redirect::to(&format!("{}/", api.base_path)).into_response();
    if let Ok(cookie) = HeaderValue::try_from(api.guard.set_cookie(access, &api.base_path)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// Writes the page; `line` is a trusted constant.
fn page(status: StatusCode, line: &'static str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>spanscore: login</title>\
         <main><h1>Login</h1><p>{line}</p><form method=\"post\" action=\"login\"><label>Token \
         <input name=\"token\" type=\"password\" autocomplete=\"current-password\" required \
         autofocus></label> <button>Log in</button></form></main></html>"
    );
    (status, Html(html)).into_response()
}
