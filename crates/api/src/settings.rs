//! Settings of the listener of API and pages.

use schemars::JsonSchema;
use serde::Deserialize;

use spanscore_base::settings::tls::{ListenerTlsSettings, check_exposure};
use spanscore_base::settings::{Secret, SettingsError, Switch, optional_listen_address};

/// Default listen address.
pub const ENDPOINT: &str = "127.0.0.1:8890";
/// Shortest token.
const TOKEN_BYTES_MIN: usize = 16;

/// Query API of the store, and the dashboard pages that use it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DashboardSettings {
    /// Address and port to listen on. Default `127.0.0.1:8890`. If the default port is in use, the
    /// collector runs without the dashboard.
    #[serde(deserialize_with = "optional_listen_address")]
    #[schemars(extend("pattern" = ":[0-9]{1,5}$"))]
    pub endpoint: Option<String>,
    /// TLS of the port. Without this section the port uses plain text.
    pub tls: Option<ListenerTlsSettings>,
    /// Allows plain text on an address other than loopback. Default `false`.
    pub insecure: bool,
    /// Bearer token of programs, 16 bytes or more. Required on an address other than loopback.
    pub token: Option<Secret>,
    /// Bearer token of programs that only read, 16 bytes or more.
    pub read_token: Option<Secret>,
    /// Accepted host names of requests, in addition to `localhost`, IP addresses and the host of
    /// `endpoint`.
    pub allowed_hosts: Vec<String>,
    /// Path before all pages and API routes, such as `/spanscore` behind a proxy. Default: none.
    #[schemars(extend("pattern" = "^(/[A-Za-z0-9._~-]+)*/?$"))]
    pub base_path: String,
}

/// Section `dashboard` of a config.
pub type DashboardSection = Switch<DashboardSettings>;

impl DashboardSettings {
    /// Returns the address.
    pub fn endpoint(&self) -> &str {
        self.endpoint.as_deref().unwrap_or(ENDPOINT)
    }

    /// Returns the path prefix without a trailing slash.
    pub fn base_path(&self) -> String {
        self.base_path.trim_end_matches('/').to_owned()
    }

    /// Checks the settings except TLS.
    ///
    /// # Errors
    /// The first error, with its key.
    pub fn check(&self) -> Result<(), (&'static str, SettingsError)> {
        let is_reached = check_exposure(self.endpoint(), false, false).is_err();
        if is_reached && self.token.is_none() {
            let text = format!("`{}` is beyond the loopback address", self.endpoint());
            let error = SettingsError::new(format!("{text}, and has no token"));
            let help = "add `token: ${env:SPANSCORE_TOKEN}` with a secret of 16 bytes or more";
            return Err(("endpoint", error.with_help(help)));
        }
        for (key, token) in [("token", &self.token), ("read_token", &self.read_token)] {
            if token.as_ref().is_some_and(|it| it.reveal().len() < TOKEN_BYTES_MIN) {
                let error = SettingsError::new(format!("`{key}` is shorter than 16 bytes"));
                return Err((key, error.with_help("make one with `openssl rand -hex 32`")));
            }
        }
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "._~-/".contains(it);
        let path = &self.base_path;
        let is_path = path.is_empty() || path.starts_with('/') && !path.contains("//");
        if !is_path || !path.chars().all(is_plain) {
            let error = SettingsError::new(format!(
                "`{path}` does not start with `/`, or contains `//` or a character that paths lack"
            ));
            return Err(("base_path", error.with_help("write it as `/spanscore`")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_a_token_is_needed_and_none_is_short() {
        let check = |endpoint: &str, token: Option<usize>, base_path: &str, expected| {
            let settings = DashboardSettings {
                endpoint: Some(endpoint.to_owned()),
                token: token.map(|bytes| Secret("x".repeat(bytes))),
                base_path: base_path.to_owned(),
                ..DashboardSettings::default()
            };
            let found = settings.check().map_err(|(key, _)| key);
            assert_eq!(found.err(), expected, "{settings:?}");
        };
        check(ENDPOINT, None, "", None);
        check("[::1]:1", None, "/spanscore/x", None);
        check("0.0.0.0:8890", None, "", Some("endpoint"));
        check("scores:8890", None, "", Some("endpoint"));
        check("0.0.0.0:8890", Some(16), "/", None);
        check("0.0.0.0:8890", Some(15), "", Some("token"));
        check(ENDPOINT, Some(15), "", Some("token"));
        for path in ["spanscore", "//x", "/{a}", "/a b"] {
            check(ENDPOINT, None, path, Some("base_path"));
        }
    }
}
