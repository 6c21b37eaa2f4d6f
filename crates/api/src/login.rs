//! Login of browsers: a form for the token, which leaves a cookie that no script can read.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};

use crate::counters::RequestRefusal;
use crate::question::pairs;
use crate::state::Api;

/// Longest body of a login.
pub(crate) const LOGIN_BYTES_MAX: usize = 4 << 10;

/// Shows the form.
pub(crate) async fn form(State(api): State<Arc<Api>>) -> Response {
    if !api.guard.has_token() {
        return home(&api).into_response();
    }
    page(StatusCode::OK, "The token is <code>dashboard.token</code> of the config.")
}

/// Takes the token.
pub(crate) async fn login(State(api): State<Arc<Api>>, body: Bytes) -> Response {
    let fields = pairs(&String::from_utf8_lossy(&body));
    let token = fields.iter().find(|(name, _)| name == "token");
    if !token.is_some_and(|(_, token)| api.guard.is_token(token.trim())) {
        api.counters.add(RequestRefusal::Token);
        return page(StatusCode::UNAUTHORIZED, "This is not the token.");
    }
    let mut response = home(&api).into_response();
    if let Ok(cookie) = HeaderValue::try_from(api.guard.set_cookie(&api.base_path)) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn home(api: &Api) -> Redirect {
    Redirect::to(&format!("{}/", api.base_path))
}

/// Writes the page; `line` is a constant of ours.
fn page(status: StatusCode, line: &'static str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>spanscore: login</title>\
         <main><h1>Login</h1><p>{line}</p><form method=\"post\" action=\"login\"><label>Token \
         <input name=\"token\" type=\"password\" autocomplete=\"current-password\" required \
         autofocus></label> <button>Log in</button></form></main></html>"
    );
    (status, Html(html)).into_response()
}
