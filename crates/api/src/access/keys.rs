//! Secrets of the interface: configured tokens, the key of this start, cookie values.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use http::HeaderMap;
use http::header::{AUTHORIZATION, COOKIE};
use subtle::ConstantTimeEq;

use spanscore_base::settings::Secret;

use super::code::UsedCodes;
use super::{now_s, random_secret};
use crate::settings::DashboardSettings;

/// Access right of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Reads.
    Read,
    /// Reads and writes.
    Write,
}

/// Secrets that grant access.
pub(crate) struct AccessKeys {
    token: Option<Secret>,
    read_token: Option<Secret>,
    /// Key of this start, for commands of the same user.
    key: Secret,
    used: UsedCodes,
    /// Cookie values for write and for read access.
    write_session: Secret,
    read_session: Secret,
    /// Name of the cookie.
    cookie: String,
}

impl AccessKeys {
    /// Creates the keys of one start; `instance` distinguishes collectors on one host.
    pub(crate) fn new(settings: &DashboardSettings, instance: &str) -> io::Result<Self> {
        Ok(Self {
            token: settings.token.clone(),
            read_token: settings.read_token.clone(),
            key: random_secret()?,
            used: UsedCodes::default(),
            write_session: random_secret()?,
            read_session: random_secret()?,
            cookie: cookie_name(instance),
        })
    }

    /// Returns the key of this start.
    pub(crate) fn key(&self) -> &Secret {
        &self.key
    }

    /// Returns the right granted by a token or the key.
    pub(crate) fn of_token(&self, text: &str) -> Option<Access> {
        let is = |secret: &Option<Secret>| secret.as_ref().is_some_and(|it| is_equal(text, it));
        if is(&self.token) || is_equal(text, &self.key) {
            return Some(Access::Write);
        }
        is(&self.read_token).then_some(Access::Read)
    }

    /// Redeems a one-time code.
    pub(crate) fn of_code(&self, code: &str) -> Option<Access> {
        self.used.redeem(&self.key, code, now_s()).then_some(Access::Write)
    }

    /// Returns the right of a logged-in browser.
    pub(crate) fn of_cookie(&self, headers: &HeaderMap) -> Option<Access> {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|it| it.to_str().ok());
        let cookies = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.split_once('='));
        let mut own = cookies.filter(|(name, _)| name.trim() == self.cookie);
        let sessions = [(&self.write_session, Access::Write), (&self.read_session, Access::Read)];
        own.find_map(|(_, value)| {
            let found = sessions.iter().find(|(session, _)| is_equal(value, session));
            found.map(|(_, access)| *access)
        })
    }

    /// Returns name and value of the cookie for a right.
    pub(crate) fn cookie(&self, access: Access) -> String {
        let session = match access {
            Access::Read => &self.read_session,
            Access::Write => &self.write_session,
        };
        format!("{}={}", self.cookie, session.reveal())
    }
}

/// Returns the bearer token of a request.
pub(crate) fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Names the cookie after host and instance. Cookies ignore ports, and forwarded ports of other
/// hosts are `localhost`, too. A stable name leaves no old cookies.
fn cookie_name(instance: &str) -> String {
    let mut hasher = DefaultHasher::new();
    rustix::system::uname().nodename().to_bytes().hash(&mut hasher);
    instance.hash(&mut hasher);
    format!("spanscore_{:016x}", hasher.finish())
}

fn is_equal(text: &str, secret: &Secret) -> bool {
    text.as_bytes().ct_eq(secret.reveal().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_two_instances_have_two_names() {
        assert_eq!(cookie_name("/a"), cookie_name("/a"));
        assert_ne!(cookie_name("/a"), cookie_name("/b"));
    }
}
