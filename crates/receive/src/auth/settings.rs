//! Authentication settings: accepted clients and their rate limits.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use smart_default::SmartDefault;

use super::tokens;
use spanscore_base::settings::{HumanDuration, Secret};

/// Limit on clients, since each has its own metric series.
const CLIENTS_MAX: usize = 1_000;
/// Longest name of a client, bytes.
const NAME_BYTES_MAX: usize = 100;

/// Accepted clients. With this section, requests of all others are refused.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct AuthSettings {
    /// Clients, by a name of your choice. Metrics show the name.
    pub clients: BTreeMap<String, KnownClientSettings>,
    /// Rate limits of each client without its own `limits`.
    pub limits: SenderLimits,
    /// Writes the name of the client to the resource attribute `spanscore.client`, in place of the
    /// sender's value. Default `false`.
    pub tag_resources: bool,
    /// Interval between reloads of token files. `0` reloads them only together with the config.
    /// Default `10s`.
    #[default(HumanDuration::from_secs(10))]
    pub reload_interval: HumanDuration,
}

/// Accepted client. A bearer token or a client certificate identifies it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KnownClientSettings {
    /// Bearer token. Take it from the environment: `${env:TEAM_A_TOKEN}`.
    pub token: Option<Secret>,
    /// File with bearer tokens, one per line. An old and a new token are both valid during a
    /// rotation.
    pub file: Option<String>,
    /// Expiry of the tokens: a date such as `2027-01-31`, which starts at midnight UTC, or a time
    /// such as `2027-01-31T12:00:00Z`.
    #[serde(deserialize_with = "moment")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<Timestamp>,
    /// Host name or URI in the client certificate, such as `team-a.example` or
    /// `spiffe://example/team-a`. Requires `tls.client_ca_file` of the protocol.
    pub certificate: Option<String>,
    /// Group of the client. Clients of a group share traces and sessions with equal ids; clients of
    /// different groups never do. Default: the name of the client.
    pub group: Option<String>,
    /// Rate limits of this client.
    pub limits: Option<SenderLimits>,
}

/// Rate limits of a client. Requests beyond them are refused with a retry delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SenderLimits {
    /// Limit on requests per second, 1 or more. Default: unlimited.
    #[schemars(range(min = 1))]
    pub requests_per_second: Option<u32>,
    /// Limit on body bytes per second, as received, so compressed or not. Default: unlimited.
    #[schemars(range(min = 1))]
    pub bytes_per_second: Option<u64>,
}

impl AuthSettings {
    /// Checks the section.
    ///
    /// # Errors
    /// The first error, with its keys from this section, and its remedy.
    pub fn check(&self, has_client_ca: bool) -> Result<(), (Vec<&str>, String)> {
        let wrong = |keys: &[&'static str], text: &str| Err((keys.to_vec(), text.to_owned()));
        if self.clients.is_empty() {
            return wrong(&[], "`auth` without `clients` lets nobody in; name at least one");
        }
        if self.clients.len() > CLIENTS_MAX {
            return wrong(&["clients"], &format!("more than {CLIENTS_MAX} clients"));
        }
        self.limits.check().map_err(|text| (vec!["limits"], text))?;
        for (name, client) in &self.clients {
            let at = |text: &str| (vec!["clients", name.as_str()], text.to_owned());
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(char::is_control) {
                return Err(at(&format!("a client's name has 1 to {NAME_BYTES_MAX} bytes")));
            }
            client.check(has_client_ca).map_err(|text| at(&text))?;
        }
        Ok(())
    }
}

impl KnownClientSettings {
    /// Reads the file of tokens, if there is one.
    ///
    /// # Errors
    /// The unusable file and the reason.
    pub fn check_file(&self) -> Result<(), String> {
        tokens::read(self).map(drop)
    }

    fn check(&self, has_client_ca: bool) -> Result<(), String> {
        if self.token.is_some() && self.file.is_some() {
            return Err("`token` and `file` name the same thing twice; leave out one".to_owned());
        }
        if self.token.is_none() && self.file.is_none() && self.certificate.is_none() {
            return Err("a client needs a `token`, a `file` with it, or a `certificate`".to_owned());
        }
        if self.token.as_ref().is_some_and(|token| !is_token(token.reveal().trim())) {
            return Err(
                "the token is empty, or has a character that headers may not contain".to_owned()
            );
        }
        if self.certificate.is_some() && !has_client_ca {
            let help = "name the authority in `tls.client_ca_file` of the protocol";
            return Err(format!(
                "a `certificate`, but no port requires client certificates; {help}"
            ));
        }
        let is_name = |name: &String| (1..=NAME_BYTES_MAX).contains(&name.len());
        if !self.group.as_ref().is_none_or(is_name) {
            return Err(format!("the name of a `group` has 1 to {NAME_BYTES_MAX} bytes"));
        }
        self.limits.map_or(Ok(()), |limits| limits.check())
    }
}

impl SenderLimits {
    fn check(self) -> Result<(), String> {
        if self.requests_per_second == Some(0) || self.bytes_per_second == Some(0) {
            return Err("a limit must be above zero; leave it out for none".to_owned());
        }
        Ok(())
    }
}

/// Returns true if a text is valid in a header after `Bearer`.
pub(super) fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let date = || text.parse::<jiff::civil::Date>().ok();
    let start = |date: jiff::civil::Date| date.to_zoned(jiff::tz::TimeZone::UTC).ok();
    let found = text.parse::<Timestamp>().ok();
    let found = found.or_else(|| date().and_then(start).map(|zoned| zoned.timestamp()));
    found.map(Some).ok_or_else(|| {
        D::Error::custom(format!("{text:?} is no date; write 2027-01-31 or 2027-01-31T12:00:00Z"))
    })
}
