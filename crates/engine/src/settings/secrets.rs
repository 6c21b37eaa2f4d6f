//! Masking of secrets of a config in all output.
//!
//! A secret is identified by its key. Its value is masked in errors and their source lines, and
//! omitted where the config is printed. So are the user, the password and the query of an address.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use spanscore_base::settings::{Node, NodeKind, REDACTED, nearest, user_of, without_secrets};
use spanscore_base::value::Value;

/// Words that mark a key as secret, anywhere in it.
const SECRET_WORDS: [&str; 7] =
    ["token", "password", "secret", "api_key", "apikey", "authorization", "credential"];
/// Keys whose values are all secret, whatever their names.
const SECRET_MAPS: [&str; 1] = ["headers"];
/// Complete keys of secrets: a private key, and common wrong names for one.
const SECRET_KEYS: [&str; 5] = ["key_pem", "pass", "bearer", "passwd", "pwd"];
/// Keys that name a secret, or contain some, except inside of [`KEY_HOLDERS`].
const PLAIN_KEYS: [&str; 2] = ["key", "env"];
/// Sections in which `key` identifies something, or names belong to arguments.
const KEY_HOLDERS: [&str; 4] = ["sessions", "expect", "dialects", "criteria"];
/// Keys whose values are addresses.
const ADDRESS_KEYS: [&str; 2] = ["endpoint", "base_url"];
/// Shortest value searched for in other texts: a shorter one would be found anywhere.
const SECRET_BYTES_MIN: usize = 4;

/// Secrecy of the value of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Secrecy {
    /// The value may be shown.
    Shown,
    /// The value is secret if it is a text, unlike `max_tokens: 100`.
    Secret,
}

/// Secrecy of a place in a config, from the keys above it.
#[derive(Clone, Copy, Default)]
pub struct Above {
    /// True if one of them marks a secret.
    pub is_secret: bool,
    /// True if [`PLAIN_KEYS`] mark no secret there.
    holds_keys: bool,
}

impl Above {
    /// Returns the state below one more key.
    pub fn below(self, key: &str) -> Self {
        self.with(key, secrecy(key) == Secrecy::Secret)
    }

    /// Returns the state below one more key of a config with possible errors.
    fn below_mistyped(self, key: &str) -> Self {
        self.with(key, resembles_secret(key))
    }

    fn with(self, key: &str, is_secret: bool) -> Self {
        let is_plain = PLAIN_KEYS.iter().any(|word| key.eq_ignore_ascii_case(word));
        let is_key = is_plain && !self.holds_keys;
        Self {
            is_secret: self.is_secret || is_secret || is_key,
            holds_keys: self.holds_keys || KEY_HOLDERS.contains(&key),
        }
    }
}

/// Returns the secrecy of a key's value at any place.
fn secrecy(key: &str) -> Secrecy {
    let words = key.to_lowercase().replace('-', "_");
    let is_secret = SECRET_WORDS.iter().any(|word| words.contains(word))
        || SECRET_KEYS.contains(&words.as_str())
        || SECRET_MAPS.contains(&words.as_str());
    if is_secret { Secrecy::Secret } else { Secrecy::Shown }
}

/// Returns true if a key marks a secret, or probably was meant to: an error shows a mistyped key
/// with its value.
fn resembles_secret(key: &str) -> bool {
    let words = key.to_lowercase();
    let known = SECRET_WORDS.iter().chain(&SECRET_MAPS).chain(&SECRET_KEYS).copied();
    // Any short word resembles a short one, so only longer ones count.
    let mut meant = known.filter(|word| word.len() > 4);
    secrecy(key) == Secrecy::Secret || nearest(&words, &mut meant).is_some()
}

/// Returns the secret texts of a config.
pub(super) fn secrets_of(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    collect(node, Above::default(), &mut found);
    // The longest first, since one may contain another.
    found.sort_by_key(|secret| usize::MAX - secret.len());
    found.dedup();
    found
}

fn collect(node: &Node, above: Above, found: &mut Vec<String>) {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().for_each(|(key, value)| {
            if ADDRESS_KEYS.contains(&key.text.as_str()) {
                found.extend(user_of_address(value));
            }
            collect(value, above.below_mistyped(&key.text), found);
        }),
        NodeKind::List(items) => items.iter().for_each(|item| collect(item, above, found)),
        NodeKind::Scalar(Value::String(text))
            if above.is_secret && text.len() >= SECRET_BYTES_MIN =>
        {
            found.push(text.to_string());
        }
        _ => {}
    }
}

/// Returns user and password of an address. It is known completely here, so they may contain
/// spaces.
fn user_of_address(node: &Node) -> Option<String> {
    let NodeKind::Scalar(Value::String(text)) = &node.kind else { return None };
    user_of(text).filter(|user| user.len() >= SECRET_BYTES_MIN).map(str::to_owned)
}

/// Masks secrets in a text, and the secret parts of addresses.
pub(super) fn masked(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        // A source has a multi-line text line by line, indented.
        for line in secret.lines().map(str::trim).filter(|line| line.len() >= SECRET_BYTES_MIN) {
            if text.contains(line) {
                text = text.replace(line, REDACTED);
            }
        }
    }
    without_secrets(&text).into_owned()
}

/// Masks a line of an unreadable source: values after keys of secrets are omitted.
pub(super) fn masked_line(line: &str) -> Cow<'_, str> {
    static PAIR: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"([A-Za-z0-9_-]+)(["']?\s*:\s*)(["']?[^\s,}\]#].*)"#).ok());
    let Some(pair) = PAIR.as_ref() else { return Cow::Borrowed(REDACTED) };
    let mut at = 0;
    while let Some(found) = pair.captures_at(line, at) {
        let (Some(key), Some(value)) = (found.get(1), found.get(3)) else { break };
        // `${env:NAME}` refers to a value without containing it.
        let is_reference = line[..key.start()].ends_with("${");
        if !is_reference && Above::default().below_mistyped(key.as_str()).is_secret {
            let before = without_secrets(&line[..value.start()]);
            return Cow::Owned(format!("{before}{REDACTED}"));
        }
        at = value.start();
    }
    without_secrets(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_a_secret_key_is_left_out_of_a_line() {
        for (line, shown) in [
            ("  bearer_token: abc def", "  bearer_token: [REDACTED]"),
            ("{timeout: 1s, \"api-key\": x, y: 2}", "{timeout: 1s, \"api-key\": [REDACTED]"),
            ("headers: {x-key: abc}", "headers: [REDACTED]"),
            ("a: {env: {A: abc}}", "a: {env: [REDACTED]"),
            ("{key: abc, pass: x}", "{key: [REDACTED]"),
            ("{endpoint: http://u:p@h, pwd: x}", "{endpoint: http://[REDACTED]@h, pwd: [REDACTED]"),
            ("endpoint: ${env:HOST}", "endpoint: ${env:HOST}"),
            ("timeout: 1s # token", "timeout: 1s # token"),
            ("token:", "token:"),
        ] {
            assert_eq!(masked_line(line), shown);
        }
    }

    #[test]
    fn a_key_is_a_secret_unless_something_is_known_by_it() {
        let is_secret = |keys: &[&str]| {
            keys.iter().fold(Above::default(), |above, key| above.below(key)).is_secret
        };
        for keys in [&["judges", "a", "key"][..], &["Bearer"], &["env", "HOME"], &["a", "pass"]] {
            assert!(is_secret(keys), "{keys:?}");
        }
        for keys in [&["sessions", "key"][..], &["dialects", "x", "key"], &["criteria", "env"]] {
            assert!(!is_secret(keys), "{keys:?}");
        }
        assert!(!is_secret(&["passes"]) && !is_secret(&["end"]) && !is_secret(&["keys"]));
    }
}
