//! Classification of keys by their words: `apiKey`, `X-Api-Key` and `API_KEY` name a secret,
//! `max_tokens`, `password_policy` and `secretId` do not.
//!
//! The last word decides, as in English: a `password_policy` is a policy. Final qualifiers (`new`,
//! `base64`, `prod`) are skipped. The word lists are data below.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match};

use super::words::{
    COMPOUND_KEYS, DOUBTFUL_WORDS, ENDINGS, HARMLESS_HEADS, HARMLESS_KEYS, HARMLESS_TOKENS,
    NO_SECRETS, PASSES, PLURAL_TOKENS, PREDICATES, SECRET_WORDS, TAILS,
};
use crate::validate::Validator;

/// Longest key, bytes; a longer one is a text.
const KEY_BYTES_MAX: usize = 96;
/// Length of a text below which it is no secret, bytes.
const TEXT_BYTES_MIN: usize = 3;
/// Length below which a text under a doubtful key is no secret, bytes.
const DOUBTFUL_BYTES_MIN: usize = 6;
/// Length above which a text under a doubtful key is no secret, bytes.
const DOUBTFUL_BYTES_MAX: usize = 512;
/// Schemes of an `Authorization` header.
const SCHEMES: [&str; 6] = ["bearer ", "basic ", "token ", "apikey ", "digest ", "negotiate "];

/// Search for words of secret keys, each of which has one: faster than splitting keys.
static SIGNS: LazyLock<KeySigns> = LazyLock::new(|| {
    let mut builder = AhoCorasick::builder();
    let builder = builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::DFA));
    let words = ENDINGS.iter().chain(&SECRET_WORDS).chain(&DOUBTFUL_WORDS);
    KeySigns(builder.build(words).ok())
});

/// Word search, whose first words are suffixes; without an automaton, every key is a candidate.
struct KeySigns(Option<AhoCorasick>);

impl KeySigns {
    fn is_match(&self, text: &str) -> bool {
        let text = text.as_bytes();
        let is_word = |found: Match| {
            let is_end = found.pattern().as_usize() < ENDINGS.len();
            may_end(text, found.end()) && (is_end || may_begin(text, found.start()))
        };
        self.0.as_ref().is_none_or(|search| search.find_overlapping_iter(text).any(is_word))
    }
}

/// Returns true if a word may end here, apart from a plural `s`: the text may be JSON.
fn may_end(text: &[u8], at: usize) -> bool {
    let is_plural = text.get(at).is_some_and(|byte| byte.eq_ignore_ascii_case(&b's'));
    !continues(text, at) || is_plural && !continues(text, at + 1)
}

/// Returns true if a word may begin here, also after a JSON escape.
fn may_begin(text: &[u8], at: usize) -> bool {
    !continues(text, at) || at > 1 && text[at - 2] == b'\\'
}

/// Returns true if the byte at an offset continues the word before it, as [`words`] splits them.
fn continues(text: &[u8], at: usize) -> bool {
    let is_letter = |at: usize| text.get(at).is_some_and(u8::is_ascii_alphabetic);
    let is_small = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
    let before = at.wrapping_sub(1);
    is_letter(at) && is_letter(before) && (is_small(at) || !is_small(before) && !is_small(at + 1))
}

/// Returns true if a text may contain a key that is not plain: it has a sign of assignment or of a
/// list, and a word of such keys, or JSON's numeric character escapes.
pub(super) fn may_stand_in(text: &str) -> bool {
    let bytes = text.as_bytes();
    let begins = |first: u8, both: &[u8]| {
        memchr::memchr_iter(first, bytes).any(|at| bytes[at..].starts_with(both))
    };
    let is_assigned = || {
        memchr::memchr3(b':', b'=', b'>', bytes).is_some()
            || memchr::memchr(b'[', bytes).is_some()
            || begins(b'-', b"--")
    };
    begins(b'\\', br"\u") || is_assigned() && SIGNS.is_match(text)
}

/// Class of a key by its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnderKey {
    /// No secrets, or no key.
    Plain,
    /// Secrets if they look random: of a `key`, a `signature`.
    Drawn,
    /// Secrets if they look like a password or random: of a key with a word for secrets in it.
    Likely,
    /// Secrets if they are one longer word: of a `token`.
    Word,
    /// Secrets if they are texts: of an `access_token`, since numbers count tokens.
    Text,
    /// Secrets.
    Secret,
}

impl UnderKey {
    /// No key.
    pub const NONE: Self = Self::Plain;

    /// Classifies a key.
    pub fn of(key: &str) -> Self {
        if key.len() > KEY_BYTES_MAX || key.len() < TEXT_BYTES_MIN {
            return Self::Plain;
        }
        if !SIGNS.is_match(key) {
            return Self::Plain;
        }
        let words = words(key);
        let mut words = words.iter().map(String::as_str).collect::<Vec<_>>();
        if words.len() > 1 && words.first().is_some_and(|first| PREDICATES.contains(first)) {
            return Self::Plain;
        }
        while words.len() > 1 && words.last().is_some_and(|last| TAILS.contains(last)) {
            words.pop();
        }
        match words.split_last() {
            Some((head, before)) => Self::of_head(head, before),
            None => Self::Plain,
        }
    }

    /// Classifies by the last word and its predecessors.
    fn of_head(head: &str, before: &[&str]) -> Self {
        let last = before.last().copied().unwrap_or_default();
        if is_secret_word(head) {
            return Self::Secret;
        }
        match head {
            "key" | "keys" if COMPOUND_KEYS.contains(&last) => Self::Secret,
            "key" | "keys" if HARMLESS_KEYS.contains(&last) => Self::Plain,
            "token" if before.is_empty() => Self::Word,
            "token" if HARMLESS_TOKENS.contains(&last) => Self::Plain,
            "token" => Self::Text,
            "tokens" if PLURAL_TOKENS.contains(&last) => Self::Text,
            "pass" if PASSES.contains(&last) => Self::Secret,
            "pass" if before.is_empty() => Self::Word,
            "string" | "str" if last == "connection" || last == "conn" => Self::Secret,
            "key" | "keys" | "auth" | "sid" | "session" | "signature" | "sig" => Self::Drawn,
            _ if HARMLESS_HEADS.contains(&head) => Self::Plain,
            _ if before.iter().any(|word| is_secret_word(word)) => Self::Likely,
            _ if before
                .windows(2)
                .any(|pair| pair[1] == "key" && COMPOUND_KEYS.contains(&pair[0])) =>
            {
                Self::Likely
            }
            _ => Self::Plain,
        }
    }

    /// Returns the class of values in a map or list under this key: numbers there may be counts.
    pub(super) fn below(self) -> Self {
        match self {
            Self::Secret | Self::Text => Self::Text,
            _ => Self::Plain,
        }
    }

    /// Returns true if all texts under the key are secrets.
    pub(super) fn is_certain(self) -> bool {
        matches!(self, Self::Secret | Self::Text)
    }

    /// Returns true if a text under the key is a secret.
    pub(super) fn holds(self, text: &str) -> bool {
        let text = if self == Self::Plain { return false } else { text.trim() };
        let is_doubtful = (DOUBTFUL_BYTES_MIN..=DOUBTFUL_BYTES_MAX).contains(&text.len());
        let could_be = match self {
            Self::Plain => false,
            Self::Drawn => is_doubtful && (is_drawn(text) || scheme(text).is_some()),
            Self::Likely => is_doubtful && looks_secret(text),
            Self::Word => {
                is_doubtful && (!text.contains(char::is_whitespace) || scheme(text).is_some())
            }
            Self::Text | Self::Secret => text.len() >= TEXT_BYTES_MIN,
        };
        could_be && !says_nothing(text)
    }

    /// Returns true if a number under the key is a secret.
    pub(super) fn holds_number(self, number: &str) -> bool {
        self == Self::Secret && number.len() >= TEXT_BYTES_MIN
    }
}

/// Returns true if a single word names a secret.
fn is_secret_word(word: &str) -> bool {
    let is = |word: &str| {
        SECRET_WORDS.contains(&word) || ENDINGS.iter().any(|ending| word.ends_with(ending))
    };
    is(word) || word.strip_suffix('s').is_some_and(is)
}

/// Returns true if a text looks like a secret under any key, unlike a plain word.
pub(super) fn looks_secret(text: &str) -> bool {
    Validator::StrongPassword.accepts(text) || is_drawn(text) || scheme(text).is_some()
}

/// Returns true if a text after the name of a password in prose is one.
pub(super) fn looks_password(text: &str) -> bool {
    Validator::Password.accepts(text) || looks_secret(text)
}

/// Returns true if a one-word text looks random; a path does not.
fn is_drawn(text: &str) -> bool {
    let is_word = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+=".contains(&b));
    is_word && Validator::Drawn.accepts(text)
}

/// Returns the length of the scheme at the start of a text: `Bearer `.
pub(super) fn scheme(text: &str) -> Option<usize> {
    let begins =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme));
    SCHEMES.iter().find(|scheme| begins(scheme)).map(|scheme| scheme.len())
}

/// Returns true if a text only stands for a secret: a placeholder, a type, a mask.
fn says_nothing(text: &str) -> bool {
    let is_name = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    };
    let inner = |open: &str, close: &str| text.strip_prefix(open)?.strip_suffix(close);
    let is_variable = inner("${", "}").or_else(|| inner("{{", "}}")).is_some_and(|name| {
        name.trim().bytes().all(|b| b.is_ascii_alphanumeric() || b" _.:-".contains(&b))
    });
    let is_marked = inner("[", "]").is_some_and(is_placeholder_word)
        || inner("<", ">").is_some_and(|name| is_name(&name.to_ascii_uppercase()));
    is_variable
        || is_marked
        || text.bytes().all(|b| b"*.x".contains(&b))
        || NO_SECRETS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Returns true for the word in a placeholder: `SECRET_1`, `REDACTED`.
fn is_placeholder_word(word: &str) -> bool {
    let (name, number) = word.rsplit_once('_').unwrap_or((word, "0"));
    let is_number =
        !number.is_empty() && number.len() < 8 && number.bytes().all(|b| b.is_ascii_digit());
    let is_known = ["SECRET", "REDACTED", "WITHHELD", "MASKED", "HIDDEN"].contains(&name);
    let is_kind = word.contains('_') && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    is_number && (is_known || is_kind)
}

/// Returns true for a harmless key that accompanies secrets: `user`.
pub(super) fn is_harmless(key: &str) -> bool {
    const NEIGHBOURS: [&str; 10] = [
        "user", "username", "login", "email", "host", "hostname", "port", "database", "db", "role",
    ];
    words(key)
        .last()
        .is_some_and(|head| NEIGHBOURS.contains(&&**head) || HARMLESS_HEADS.contains(&&**head))
}

/// Splits a key into lower-case words: at signs, at digits, and at changes of case.
fn words(key: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let chars: Vec<char> = key.chars().collect();
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| chars[before]);
        let begins = before.is_some_and(|before| {
            let next_is_lower = chars.get(at + 1).is_some_and(|next| next.is_lowercase());
            c.is_uppercase() && (before.is_lowercase() || (before.is_uppercase() && next_is_lower))
        });
        if (begins || !c.is_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(class: UnderKey, keys: &[&str]) {
        for key in keys {
            assert_eq!(UnderKey::of(key), class, "{key}");
        }
    }

    #[test]
    fn texts_with_words_of_keys_and_signs_are_read() {
        for text in ["a pin: 1", r#"{"a":"\npin=1"}"#, "myPin=1", "PINS: x", "--dbpassword x"] {
            assert!(may_stand_in(text), "{text}");
        }
        for text in ["shipping: 1", "monkey=1", "author: x", "a pin 1", "spinner[0]", "keyed: 1"] {
            assert!(!may_stand_in(text), "{text}");
        }
    }

    #[test]
    fn last_word_of_a_key_decides() {
        let secret = [
            "password", "dbPassword", "DB_PASSWORD_1", "X-API-Key", "apiKey", "APIKey", "apikey",
            "client_secret", "ClientSecretValue", "aws.secret-access-key", "Authorization",
            "Set-Cookie", "connectionString", "passwords", "private_key_pem", "smtp_pass",
        ];
        check(UnderKey::Secret, &secret);
        check(UnderKey::Text, &["access_token", "refreshToken", "slack_token", "api_tokens"]);
        check(UnderKey::Word, &["token", "pass"]);
        check(UnderKey::Drawn, &["key", "openai_key", "signature"]);
        check(UnderKey::Likely, &["PASSWORD_ADMIN", "API_KEY_OPENAI"]);
        let plain = [
            "max_tokens", "token_count", "tokens", "prompt_tokens", "next_page_token",
            "password_policy", "passwordResetUrl", "secret_id", "access_key_id", "token_type",
            "secretary", "primary_key", "author", "is_password", "credential_type", "bypass",
        ];
        check(UnderKey::Plain, &plain);
    }
}
