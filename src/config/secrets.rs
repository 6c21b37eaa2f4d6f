//! What of a config is never shown: values of secrets, wherever they come up.
//!
//! A secret is known by its key. Its value is masked in mistakes and in the source line that is
//! shown with one, and left out where the config is printed. So is what stands before the `@` of an
//! address.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::settings::{Node, NodeKind, nearest};
use crate::value::Value;

/// Stands for a secret.
pub const REDACTED: &str = "[REDACTED]";

/// Words that mark a key as that of a secret, wherever they stand in it.
const SECRET_WORDS: [&str; 7] =
    ["token", "password", "secret", "api_key", "apikey", "authorization", "credential"];
/// Keys whose values all are secrets, whatever their names.
const SECRET_MAPS: [&str; 1] = ["headers"];
/// Keys that hold a private key.
const SECRET_KEYS: [&str; 1] = ["key_pem"];
/// Values shorter than this are not looked for in other texts: they would be found anywhere.
const SECRET_BYTES_MIN: usize = 4;

/// What the value of a key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Secrecy {
    /// It may be shown.
    Shown,
    /// It is a secret if it is a text: `max_tokens: 100` is none.
    Secret,
}

/// Whether the value of a key is secret.
pub(super) fn secrecy(key: &str) -> Secrecy {
    let words = key.to_lowercase().replace('-', "_");
    let is_secret = SECRET_WORDS.iter().any(|word| words.contains(word))
        || SECRET_KEYS.contains(&words.as_str())
        || SECRET_MAPS.contains(&words.as_str());
    if is_secret { Secrecy::Secret } else { Secrecy::Shown }
}

/// Whether a key is that of a secret, or was meant to be: a mistyped one is shown as a mistake, and
/// its value beside it.
fn resembles_secret(key: &str) -> bool {
    let words = key.to_lowercase();
    let mut meant = SECRET_WORDS.iter().chain(&SECRET_MAPS).chain(&SECRET_KEYS).copied();
    secrecy(key) == Secrecy::Secret || nearest(&words, &mut meant).is_some()
}

/// The secret texts of a config.
pub(super) fn secrets_of(node: &Node) -> Vec<String> {
    let mut found = Vec::new();
    collect(node, false, &mut found);
    // The longest first: one may hold another.
    found.sort_by_key(|secret| usize::MAX - secret.len());
    found.dedup();
    found
}

fn collect(node: &Node, is_secret: bool, found: &mut Vec<String>) {
    match &node.kind {
        NodeKind::Map(entries) => entries.iter().for_each(|(key, value)| {
            collect(value, is_secret || resembles_secret(&key.text), found);
        }),
        NodeKind::List(items) => items.iter().for_each(|item| collect(item, is_secret, found)),
        NodeKind::Scalar(Value::String(text)) if is_secret && text.len() >= SECRET_BYTES_MIN => {
            found.push(text.to_string());
        }
        _ => {}
    }
}

/// A text without those secrets, and without what stands before the `@` of an address.
pub(super) fn masked(text: &str, secrets: &[String]) -> String {
    let mut text = without_user(text).into_owned();
    for secret in secrets {
        // A text of several lines stands in a source line by line.
        for line in secret.lines().map(str::trim).filter(|line| line.len() >= SECRET_BYTES_MIN) {
            if text.contains(line) {
                text = text.replace(line, REDACTED);
            }
        }
    }
    text
}

/// A line of a source whose settings are not known, since it cannot be read: what stands behind a
/// key that names a secret is left out.
pub(super) fn masked_line(line: &str) -> Cow<'_, str> {
    static PAIR: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"([A-Za-z0-9_-]+)(["']?\s*:\s*)(["']?[^\s,}\]#].*)"#).ok());
    let Some(pair) = PAIR.as_ref() else { return Cow::Borrowed(REDACTED) };
    let mut at = 0;
    while let Some(found) = pair.captures_at(line, at) {
        let (Some(key), Some(value)) = (found.get(1), found.get(3)) else { break };
        if resembles_secret(key.as_str()) {
            return Cow::Owned(format!("{}{REDACTED}", &line[..value.start()]));
        }
        at = value.start();
    }
    without_user(line)
}

/// A text whose addresses have no user and no password.
pub(super) fn without_user(text: &str) -> Cow<'_, str> {
    static USER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'@]+@"#).ok());
    match USER.as_ref() {
        Some(user) if text.contains("://") => user.replace_all(text, format!("${{1}}{REDACTED}@")),
        Some(_) => Cow::Borrowed(text),
        None => Cow::Borrowed(REDACTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_addresses_are_left_out() {
        for (text, shown) in [
            ("http://user:pass@h:1/x", "http://[REDACTED]@h:1/x"),
            ("at https://u@h and http://h/@b", "at https://[REDACTED]@h and http://h/@b"),
            ("user@example.org", "user@example.org"),
        ] {
            assert_eq!(without_user(text), shown);
        }
    }

    #[test]
    fn what_stands_behind_a_secret_key_is_left_out_of_a_line() {
        for (line, shown) in [
            ("  bearer_token: abc def", "  bearer_token: [REDACTED]"),
            ("{timeout: 1s, \"api-key\": x, y: 2}", "{timeout: 1s, \"api-key\": [REDACTED]"),
            ("headers: {x-key: abc}", "headers: [REDACTED]"),
            ("timeout: 1s # token", "timeout: 1s # token"),
            ("token:", "token:"),
        ] {
            assert_eq!(masked_line(line), shown);
        }
    }
}
