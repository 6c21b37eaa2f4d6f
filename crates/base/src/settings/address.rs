//! Server addresses, and texts that contain them, shown without secrets.
//!
//! The user before `@` and the query after `?` or `#` are secret, since both may hold keys.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

/// Replacement of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Separator between the scheme of an address and the rest.
const SCHEME_END: &str = "://";

/// Address of a server. Errors, logs and debug output never show its user, password or query.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// Returns the address with its secrets, for connecting.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns its user and password as written.
    pub fn user(&self) -> Option<&str> {
        user_of(&self.0)
    }

    /// Returns the address without surrounding spaces and trailing slashes.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        Self(self.0.trim().trim_end_matches('/').to_owned())
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = split_scheme(&self.0);
        let rest = &rest[user_end(rest, !scheme.is_empty())..];
        f.write_str(scheme)?;
        if rest.starts_with('@') {
            f.write_str(REDACTED)?;
        }
        match rest.find(['?', '#']) {
            Some(at) => write!(f, "{}{REDACTED}", &rest[..=at]),
            None => f.write_str(rest),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

impl Serialize for Address {
    /// Serialises the redacted form, since schemas show defaults.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// Returns the user and password of an address as written.
pub fn user_of(address: &str) -> Option<&str> {
    let (scheme, rest) = split_scheme(address);
    let user = &rest[..user_end(rest, !scheme.is_empty())];
    (!user.is_empty()).then_some(user)
}

/// Splits an address into its scheme with `://`, empty if it has none, and the rest.
fn split_scheme(address: &str) -> (&str, &str) {
    let end = address.find(SCHEME_END).map_or(0, |at| at + SCHEME_END.len());
    address.split_at(end)
}

/// Returns the end of the user in the part after a scheme: the last `@`. An `@` in a path ends no
/// user if the part before the path is only a host; without a scheme a path cannot be recognised.
fn user_end(rest: &str, has_scheme: bool) -> usize {
    let Some(last) = rest.rfind('@') else { return 0 };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if has_scheme && is_host(authority) { 0 } else { last }
}

/// Returns true if an authority is only a host, with an optional port.
fn is_host(authority: &str) -> bool {
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    let port = authority[end..].split_once(':').map_or("", |(_, port)| port);
    !authority.contains('@') && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns a text with users, passwords and queries of its addresses redacted.
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains(['@', '?', '#']) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')) {
        push_word(&mut shown, word);
    }
    Cow::Owned(shown)
}

/// Appends a word, which may hold an address.
fn push_word(shown: &mut String, word: &str) {
    let is_end = |c: char| c.is_whitespace() || "\"'`,;)]}".contains(c);
    let (word, end) = word.split_at(word.trim_end_matches(is_end).len());
    let start = match word.find(SCHEME_END) {
        Some(at) => at + SCHEME_END.len(),
        None => word.len() - word.trim_start_matches(['`', '(', '[', '{', '<']).len(),
    };
    let (before, rest) = word.split_at(start);
    let has_scheme = before.ends_with(SCHEME_END);
    let user = &rest[..user_end(rest, has_scheme)];
    shown.push_str(before);
    // `user@host` may be an e-mail address; a colon before the `@` marks a password.
    let is_secret = !user.is_empty() && (has_scheme || user.contains(':'));
    if is_secret {
        shown.push_str(REDACTED);
    }
    let rest = if is_secret { &rest[user.len()..] } else { rest };
    match query_start(rest, has_scheme) {
        Some(at) => shown.extend([&rest[..at], REDACTED]),
        None => shown.push_str(rest),
    }
    shown.push_str(end);
}

/// Returns the start of a query; without a scheme only one with a name and a value counts.
fn query_start(rest: &str, has_scheme: bool) -> Option<usize> {
    if has_scheme {
        return rest.find(['?', '#']).map(|at| at + 1).filter(|at| *at < rest.len());
    }
    let at = rest.find('?')? + 1;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let value = rest[at..].trim_start_matches(is_name);
    (value.len() < rest.len() - at && value.starts_with('=')).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_neither_its_user_nor_its_query() {
        for (text, shown) in [
            ("http://h:4318/base", "http://h:4318/base"),
            ("http://user:pass@h:1/x", "http://[REDACTED]@h:1/x"),
            ("http://user:p@ss@h:1/x", "http://[REDACTED]@h:1/x"),
            ("http://user:p/ss?w#rd@h:1/x", "http://[REDACTED]@h:1/x"),
            ("http//user:pass@h:1", "[REDACTED]@h:1"),
            ("user:pass@h:1", "[REDACTED]@h:1"),
            ("token@h:1", "[REDACTED]@h:1"),
            ("https://h/@scope", "https://h/@scope"),
            ("https://[::1]:1/@scope", "https://[::1]:1/@scope"),
            ("https://u:p@[::1]:1", "https://[REDACTED]@[::1]:1"),
            ("https://h/x?api_key=abc", "https://h/x?[REDACTED]"),
            ("h:1/x?api_key=a@b", "[REDACTED]@b"),
            ("https://h#abc", "https://h#[REDACTED]"),
        ] {
            let address = Address::from(text);
            assert_eq!(address.to_string(), shown);
            assert_eq!(format!("{address:?}"), format!("{shown:?}"));
            assert_eq!(address.reveal(), text);
        }
    }

    #[test]
    fn a_text_shows_its_addresses_without_what_is_secret_of_them() {
        for (text, shown) in [
            ("at https://u@h and http://h/@b", "at https://[REDACTED]@h and http://h/@b"),
            ("endpoint `http://u:p@ss@h` is", "endpoint `http://[REDACTED]@h` is"),
            ("endpoint `h/?key=p` is", "endpoint `h/?[REDACTED]` is"),
            ("{endpoint: 'http://h/x?k=p', y: 2}", "{endpoint: 'http://h/x?[REDACTED]', y: 2}"),
            ("  endpoint: bob:pass@h:4317", "  endpoint: [REDACTED]@h:4317"),
            ("(write `http//bob:pass@h`)", "(write `[REDACTED]@h`)"),
            ("[http://u:p@h, http://v:q@i]", "[http://[REDACTED]@h, http://[REDACTED]@i]"),
            ("user@example.org asks? a = b", "user@example.org asks? a = b"),
            ("see http://h/a? (?i)x=1", "see http://h/a? (?i)x=1"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }

    #[test]
    fn users_are_found_as_they_are_written() {
        assert_eq!(user_of("http://bob:p@ss@h"), Some("bob:p@ss"));
        assert_eq!(user_of("http://h/@x"), None);
        assert_eq!(user_of(""), None);
    }
}
