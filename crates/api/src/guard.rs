//! Checks of a client: `Host`, `Origin`, token or cookie, right.
//!
//! A page of another site can make a browser send requests here. It cannot forge this host's name
//! (so DNS rebinding is refused), nor hide its origin.

use std::io;
use std::net::IpAddr;

use axum::extract::Request;
use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode};

use crate::access::{Access, AccessKeys, bearer_of};
use crate::problem::ApiProblem;
use crate::settings::DashboardSettings;

/// Rules of one listener.
pub(crate) struct Guard {
    /// Names of this host, in lower case.
    hosts: Vec<String>,
    pub(crate) keys: AccessKeys,
    is_secure: bool,
}

impl Guard {
    pub(crate) fn new(settings: &DashboardSettings, instance: &str) -> io::Result<Self> {
        let own = settings.endpoint().rsplit_once(':').map(|(host, _)| host.to_owned());
        let hosts = settings.allowed_hosts.iter().cloned().chain(own).chain(["localhost".into()]);
        Ok(Self {
            hosts: hosts.map(|host| host.to_ascii_lowercase()).collect(),
            keys: AccessKeys::new(settings, instance)?,
            is_secure: settings.tls.is_some(),
        })
    }

    /// Checks a request.
    pub(crate) fn check(&self, request: &Request, is_api: bool) -> Result<(), ApiProblem> {
        let headers = request.headers();
        let host = self.host(request)?;
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        let asked = AskedFrom { is_api, is_read, bearer: bearer_of(headers) };
        asked.check_origin(headers, &host)?;
        if !is_api {
            return Ok(());
        }
        let access = match asked.bearer {
            Some(token) => self.keys.of_token(token),
            None => self.keys.of_cookie(headers),
        };
        match access {
            None => {
                let text = "send `Authorization: Bearer TOKEN`; a browser logs in by the link \
                            that `spanscore open` prints";
                Err(ApiProblem::new(StatusCode::UNAUTHORIZED, "unauthorised", text))
            }
            Some(Access::Read) if !is_read => {
                let text = "this token only reads: use `dashboard.token`";
                Err(ApiProblem::new(StatusCode::FORBIDDEN, "read_only", text))
            }
            Some(_) => Ok(()),
        }
    }

    /// Returns true if the listener has TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Returns the cookie of a logged-in browser.
    pub(crate) fn set_cookie(&self, access: Access, base_path: &str) -> String {
        let pair = self.keys.cookie(access);
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{pair}; Path={base_path}/; HttpOnly; SameSite=Strict{secure}")
    }

    /// Returns the host and port named by a request, if they are ours.
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

    /// Returns true for a name of this host, or an address: a rebound name stays a name in `Host`.
    fn is_ours(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok() || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(host))
    }
}

/// Returns the host of a `Host`, without the port.
fn host_of(authority: &str) -> Option<String> {
    let authority: Authority = authority.parse().ok()?;
    let has_user = authority.as_str().contains('@');
    (!has_user && !authority.host().is_empty()).then(|| authority.host().to_owned())
}

/// Request properties that reveal its origin.
struct AskedFrom<'a> {
    is_api: bool,
    is_read: bool,
    /// Token of a program. No page of another site can make a browser send it.
    bearer: Option<&'a str>,
}

impl AskedFrom<'_> {
    /// Checks that the request is not cross-site: a writing browser must state its origin, a
    /// program need not. A browser may follow a link to a page, and nothing else.
    fn check_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiProblem> {
        let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or_default());
        let is_own = match text(ORIGIN.as_str()) {
            Some(origin) => {
                let own = origin.split_once("://").map(|(_, own)| own.to_ascii_lowercase());
                own.is_some_and(|own| own == host)
            }
            None => self.is_read || self.bearer.is_some(),
        };
        let is_link = !self.is_api && self.is_read && text("sec-fetch-mode") == Some("navigate");
        let is_near = match text("sec-fetch-site") {
            None | Some("same-origin" | "none") => true,
            Some(_) => is_link,
        };
        if is_own && is_near {
            return Ok(());
        }
        let text = "the request comes from a page of another site, or does not tell its origin";
        Err(ApiProblem::new(StatusCode::FORBIDDEN, "foreign_origin", text))
    }
}
