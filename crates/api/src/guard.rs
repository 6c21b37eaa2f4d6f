//! Checks of who asks: `Host`, `Origin`, token.
//!
//! A page of another site can make a browser ask this listener. It cannot make it name this host
//! (so a name that leads here by a trick of DNS is refused), nor hide where it comes from.

use std::io;
use std::net::IpAddr;

use axum::extract::Request;
use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};
use subtle::ConstantTimeEq;

use spanscore_base::settings::Secret;

use crate::problem::ApiProblem;
use crate::settings::DashboardSettings;

/// Bytes of the secret in a cookie.
const SESSION_BYTES: usize = 32;

/// Rules of one listener.
pub(crate) struct Guard {
    /// Names of this host, in small letters.
    hosts: Vec<String>,
    token: Option<Secret>,
    /// Secret of the browsers that have shown the token.
    session: Secret,
    cookie: String,
    is_secure: bool,
}

impl Guard {
    pub(crate) fn new(settings: &DashboardSettings, port: u16) -> io::Result<Self> {
        let mut session = [0; SESSION_BYTES];
        getrandom::fill(&mut session).map_err(io::Error::other)?;
        let session = session.iter().map(|byte| format!("{byte:02x}")).collect();
        let own = settings.endpoint().rsplit_once(':').map(|(host, _)| host.to_owned());
        let hosts = settings.allowed_hosts.iter().cloned().chain(own).chain(["localhost".into()]);
        Ok(Self {
            hosts: hosts.map(|host| host.to_ascii_lowercase()).collect(),
            token: settings.token.clone(),
            session: Secret(session),
            // Cookies do not tell the ports of a host apart: two collectors have two names.
            cookie: format!("spanscore_{port}"),
            is_secure: settings.tls.is_some(),
        })
    }

    /// Checks a request.
    pub(crate) fn check(&self, request: &Request, is_api: bool) -> Result<(), ApiProblem> {
        let headers = request.headers();
        let host = self.host(request)?;
        check_origin(headers, &host, request.method(), is_api)?;
        if is_api && !self.is_known(headers) {
            let text = "send `Authorization: Bearer TOKEN` with the `dashboard.token` of the \
                        config; a browser shows it once at `login`";
            return Err(ApiProblem::new(StatusCode::UNAUTHORIZED, "unauthorised", text));
        }
        Ok(())
    }

    /// Returns the host and port that a request names, if they are ours.
    fn host(&self, request: &Request) -> Result<String, ApiProblem> {
        let named = request.headers().get_all(HOST).iter().map(|it| it.to_str().ok());
        let named: Vec<Option<&str>> =
            named.chain(request.uri().authority().map(|it| Some(it.as_str()))).collect();
        let are_ours =
            named.iter().all(|it| it.and_then(host_of).is_some_and(|host| self.is_ours(&host)));
        match named.first() {
            Some(Some(host)) if are_ours => Ok(host.to_ascii_lowercase()),
            _ => {
                let text = "the `Host` of the request is not one of this listener: add its name to \
                            `dashboard.allowed_hosts`";
                Err(ApiProblem::new(StatusCode::MISDIRECTED_REQUEST, "foreign_host", text))
            }
        }
    }

    /// Returns true for a name of this host. No name can be made to stand for an address.
    fn is_ours(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
    }

    /// Returns true if a request shows the token, or the cookie for it, or none is needed.
    fn is_known(&self, headers: &HeaderMap) -> bool {
        let Some(_) = &self.token else { return true };
        let bearer = headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        let bearer = bearer.and_then(|it| it.split_once(' '));
        let bearer = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if bearer.is_some_and(|(_, token)| self.is_token(token.trim())) {
            return true;
        }
        let cookies = headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
        let mut cookies = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.split_once('='));
        cookies.any(|(name, value)| name.trim() == self.cookie && is_equal(value, &self.session))
    }

    /// Returns true for the token.
    pub(crate) fn is_token(&self, text: &str) -> bool {
        self.token.as_ref().is_some_and(|token| is_equal(text, token))
    }

    /// Returns true if a token is needed.
    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Returns the cookie of a browser that has shown the token.
    pub(crate) fn set_cookie(&self, base_path: &str) -> String {
        let Self { cookie, session, .. } = self;
        let session = session.reveal();
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{cookie}={session}; Path={base_path}/; HttpOnly; SameSite=Strict{secure}")
    }
}

fn is_equal(text: &str, secret: &Secret) -> bool {
    text.as_bytes().ct_eq(secret.reveal().as_bytes()).into()
}

/// Returns the host of a `Host`, without the port.
fn host_of(authority: &str) -> Option<String> {
    let authority: Authority = authority.parse().ok()?;
    let has_user = authority.as_str().contains('@');
    (!has_user && !authority.host().is_empty()).then(|| authority.host().to_owned())
}

/// Checks that no other site asks. A browser may follow a link to a page, and nothing else.
fn check_origin(
    headers: &HeaderMap,
    host: &str,
    method: &Method,
    is_api: bool,
) -> Result<(), ApiProblem> {
    let foreign = || {
        let text = "the request comes from a page of another site";
        Err(ApiProblem::new(StatusCode::FORBIDDEN, "foreign_origin", text))
    };
    let is_read = method == Method::GET || method == Method::HEAD;
    match headers.get(ORIGIN).map(|it| it.to_str().unwrap_or_default()) {
        Some(origin) => {
            let own = origin.split_once("://").map(|(_, own)| own.to_ascii_lowercase());
            if own.is_none_or(|own| own != host) {
                return foreign();
            }
        }
        None if !is_read => return foreign(),
        None => {}
    }
    let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or_default());
    let is_link = !is_api && is_read && text("sec-fetch-mode") == Some("navigate");
    match text("sec-fetch-site") {
        None | Some("same-origin" | "none") => Ok(()),
        Some(_) if is_link => Ok(()),
        Some(_) => foreign(),
    }
}
