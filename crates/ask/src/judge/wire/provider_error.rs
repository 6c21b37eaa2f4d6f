//! Error in a provider's body, within objects, lists, and JSON texts passed on by gateways.

use std::time::Duration;

use serde_json::Value;

use super::error_words::{CONTENT, KEY, KEY_WORDS, NO_ACCESS, NO_MODEL};
use super::wait;
use spanscore_net::client;

/// Keys on the path to an error, and those with its text. No others, since validators quote the
/// request.
const LEADING: [&str; 8] =
    ["error", "errors", "details", "metadata", "innererror", "reasons", "param", "base_resp"];
const MESSAGES: [&str; 10] = [
    "message", "Message", "detail", "loc", "msg", "raw", "title", "description", "error_msg",
    "status_msg",
];
const CODES: [&str; 9] = [
    "type", "code", "status", "error_code", "error_type", "http_code", "reason", "key",
    "finish_reason",
];
/// Places of the request in messages of validators, in lower case: behind them stands its content.
const QUOTING: [&str; 8] = [
    "messages[", "messages.", "contents[", "input[", "input_value", "'input':", "'content':",
    "\"content\":",
];
/// Depth of an error that is read, and its parts at most.
const DEPTH_MAX: usize = 12;
const PARTS_MAX: usize = 64;

/// Error of a provider, for searches by phrase.
#[derive(Default)]
pub(super) struct ProviderError {
    /// Messages and codes in lower case. Empty for a body without an error, since proxies' pages
    /// mention keys.
    pub(super) text: String,
    /// Codes alone, and the messages without what they quote, both in lower case.
    codes: String,
    own: String,
    /// Request in lower case: a validator may quote it.
    asked: String,
    /// Status that the body tells, with its depth: that of an answer whose own is success.
    status: Option<(usize, u16)>,
    /// Wait requested by the body.
    pub(super) after: Option<Duration>,
    /// Value of `param`: the name of the refused parameter.
    parameter: String,
    messages: Vec<String>,
    /// True if the error lists moderation reasons.
    has_reasons: bool,
    parts: usize,
}

impl ProviderError {
    /// Reads an error with the body that it stands in; `asked` is the request.
    pub(super) fn new(body: &Value, raw: &[u8], asked: &str) -> Self {
        let mut told = Self { asked: asked.to_lowercase(), ..Self::default() };
        told.read("error", body, 0);
        told.after = told.after.or_else(|| wait::in_words(&told.text));
        if told.messages.is_empty() {
            told.messages.push(of_page(&String::from_utf8_lossy(raw)));
        }
        told
    }

    /// Reads the value of a key; a value that is not a text is searched for such keys.
    fn read(&mut self, key: &str, value: &Value, depth: usize) {
        self.parts += 1;
        if depth > DEPTH_MAX || self.parts > PARTS_MAX {
            return;
        }
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    self.read_entry(key, value, depth + 1);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.read(key, value, depth + 1)),
            Value::String(text) => match embedded(text) {
                Some(inner) => self.read(key, &inner, depth + 1),
                None => self.tell(key, text, depth),
            },
            Value::Number(number) => self.tell(key, &number.to_string(), depth),
            Value::Bool(_) | Value::Null => {}
        }
    }

    fn read_entry(&mut self, key: &str, value: &Value, depth: usize) {
        match (key, value.as_str()) {
            ("param", Some(name)) if name != "None" => self.parameter = name.to_owned(),
            ("param", Some(_)) => {}
            ("retryDelay", Some(delay)) => self.after = wait::duration(delay).or(self.after),
            _ if [&LEADING[..], &MESSAGES, &CODES].iter().any(|keys| keys.contains(&key)) => {
                self.read(key, value, depth);
            }
            _ => {}
        }
    }

    fn tell(&mut self, key: &str, text: &str, depth: usize) {
        self.has_reasons |= key == "reasons";
        let text_lower = text.to_lowercase();
        if CODES.contains(&key) {
            self.codes.push_str(&text_lower);
            self.codes.push(' ');
            let status = text.parse().ok().filter(|status| (400..600).contains(status));
            if let Some(status) = status.filter(|_| self.status.is_none_or(|(at, _)| depth < at)) {
                self.status = Some((depth, status));
            }
        } else if !self.messages.iter().any(|known| known == text) {
            self.own.push_str(&unquoted(&text_lower));
            self.own.push(' ');
            self.messages.push(text.to_owned());
        }
        self.text.push_str(&text_lower);
        self.text.push(' ');
    }

    /// Returns true if the body has an error.
    pub(super) fn is_told(&self) -> bool {
        !self.text.is_empty()
    }

    /// Returns the status in the body.
    pub(super) fn status(&self) -> Option<u16> {
        self.status.map(|(_, status)| status)
    }

    /// Returns true if the content of the request is refused, not its form.
    pub(super) fn is_of_content(&self, status: u16) -> bool {
        matches!(status, 400 | 403 | 422 | 424 | 446 | 451)
            && (self.has_reasons || self.is_about(&CONTENT))
    }

    /// Returns true if the key is refused, or lacks permission.
    pub(super) fn is_of_key(&self, status: u16) -> bool {
        match status {
            401 => true,
            403 if self.is_of_model(status) => false,
            403 => self.is_about(&NO_ACCESS) || KEY_WORDS.iter().any(|word| self.has_word(word)),
            400 => self.says(status, &KEY),
            _ => false,
        }
    }

    /// Returns true if the model does not exist at this address.
    pub(super) fn is_of_model(&self, status: u16) -> bool {
        let is_told = matches!(status, 400 | 403 | 404 | 410) && self.says(status, &NO_MODEL);
        let is_all_told = || self.text.trim_end_matches(['.', ' ']).ends_with("invalid model");
        is_told
            || (status == 400 && is_all_told())
            || (status == 404 && ["model", "models"].iter().any(|word| self.has_word(word)))
    }

    /// Returns true if the error contains one of these phrases.
    pub(super) fn is_about(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.text.contains(word))
    }

    /// Returns true if the error itself says one of these words. Where it may be one of the
    /// request's form, what it quotes says nothing, nor does a word of the request in a message.
    pub(super) fn says(&self, status: u16, words: &[&str]) -> bool {
        if !matches!(status, 400 | 413 | 422) {
            return self.is_about(words);
        }
        let is_message = |word: &str| self.own.contains(word) && !self.asked.contains(word);
        words.iter().any(|word| self.codes.contains(word) || is_message(word))
    }

    /// Returns true if the error names a parameter, as a whole word.
    pub(super) fn names(&self, parameter: &str) -> bool {
        if !self.parameter.is_empty() {
            return self.parameter.split(['.', '[']).any(|part| part == parameter);
        }
        self.has_word(parameter)
    }

    fn has_word(&self, word: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        self.text.match_indices(word).any(|(at, _)| {
            !self.text[..at].ends_with(is_word)
                && !self.text[at + word.len()..].starts_with(is_word)
        })
    }

    /// Returns its messages on one line, truncated.
    pub(super) fn shown(&self) -> String {
        client::short(&self.messages.join(": "))
    }
}

/// Returns a message without its quoted phrases and what stands behind a place in the request.
/// Names in quotes stay: those of models, parameters and codes.
fn unquoted(message: &str) -> String {
    let end = QUOTING.iter().filter_map(|sign| message.find(sign)).min();
    let mut rest = &message[..end.unwrap_or(message.len())];
    let mut own = String::with_capacity(rest.len());
    while let Some(at) = rest.find(['"', '\'', '`', '\u{201c}']) {
        let sign = rest[at..].chars().next().unwrap_or('"');
        let before = &rest[..at];
        let quoted = &rest[at + sign.len_utf8()..];
        let close = if sign == '\u{201c}' { '\u{201d}' } else { sign };
        let is_end = |at: &usize| {
            !quoted[..*at].ends_with('\\')
                && !quoted[at + close.len_utf8()..].starts_with(char::is_alphanumeric)
        };
        let mut ends = quoted.match_indices(close).map(|(at, _)| at);
        let end = ends.find(is_end).filter(|_| !before.ends_with(char::is_alphanumeric));
        let phrase = end.filter(|end| quoted[..*end].contains(char::is_whitespace));
        own.push_str(before);
        own.push(sign);
        rest = phrase.map_or(quoted, |end| &quoted[end..]);
        if phrase.is_some() {
            own.push(close);
            rest = &rest[close.len_utf8()..];
        }
    }
    own + rest
}

/// Reads an object or a list that a gateway passes on as a text.
fn embedded(text: &str) -> Option<Value> {
    let text = text.trim_start();
    text.starts_with(['{', '[']).then(|| serde_json::from_str(text).ok())?
}

/// Returns the title of a page, or another text unchanged.
fn of_page(raw: &str) -> String {
    if raw.trim().is_empty() {
        return "an empty answer".to_owned();
    }
    if !raw.trim_start().starts_with('<') {
        return raw.to_owned();
    }
    let title = raw.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or_else(|| "a page".to_owned(), |(title, _)| format!("a page, \"{title}\""))
}
