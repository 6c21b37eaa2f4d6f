//! Error in a provider's body, within objects, lists, and JSON texts passed on by gateways.

use std::cell::OnceCell;
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
/// Keys of a requested wait.
const WAITS: [&str; 5] =
    ["retryDelay", "retry_after", "retry_after_seconds", "retryAfter", "estimated_time"];
/// Words of a message that tells the length of the request beside the limit of it: one of each row.
const LENGTHS: [&[&str]; 3] = [
    &["prompt", "input", "context", "messages"],
    &["token", "length"],
    &[
        "exceed", "too long", "too large", "larger than", "longer than", "greater than",
        "no more than", "limit", "maximum", "window",
    ],
];
/// Places of the request in messages of validators, in lower case: behind them stands its content.
/// A dot stands before a number.
const QUOTING: [&str; 8] = [
    "messages[", "messages.", "contents[", "input[", "input_value", "'input':", "'content':",
    "\"content\":",
];
/// Quotes of phrases, with their ends.
const QUOTES: [(char, char); 4] = [('"', '"'), ('\'', '\''), ('`', '`'), ('\u{201c}', '\u{201d}')];
/// Start of a message that is searched for quotes, bytes.
const OWN_BYTES_MAX: usize = 8_192;
/// Depth of an error that is read, and its parts at most.
const DEPTH_MAX: usize = 12;
const PARTS_MAX: usize = 64;

/// Error of a provider, for searches by phrase.
#[derive(Default)]
pub(super) struct ProviderError<'r> {
    /// Messages and codes in lower case. Empty for a body without an error, since proxies' pages
    /// mention keys.
    pub(super) text: String,
    /// Codes alone, and the messages without what they quote, both in lower case.
    codes: String,
    own: String,
    /// Request: a validator may quote it. In lower case once a word is found in a message.
    asked: &'r str,
    asked_lower: OnceCell<String>,
    /// Time of the answer, since the Unix epoch.
    arrived: Duration,
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

impl<'r> ProviderError<'r> {
    /// Reads an error with its body. `asked` is the request; `arrived` counts from the Unix epoch.
    pub(super) fn new(body: &Value, raw: &[u8], asked: &'r str, arrived: Duration) -> Self {
        let mut told = Self { asked, arrived, ..Self::default() };
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
            ("param", Some("None")) => {}
            ("param", Some(name)) => self.parameter = name.to_owned(),
            _ if WAITS.contains(&key) => {
                self.after = wait::told(value, self.arrived).or(self.after)
            }
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
        let is_all_told = || {
            let own = self.own.trim_end_matches(['.', ' ']);
            own.ends_with("invalid model") && !self.is_asked("invalid model")
        };
        is_told
            || (status == 400 && is_all_told())
            || (status == 404 && ["model", "models"].iter().any(|word| self.has_word(word)))
    }

    /// Returns true if the error itself tells two numbers of a request that is too long. Some
    /// servers of models answer 500 to it; other statuses tell numbers of queues and limits.
    pub(super) fn is_of_length(&self, status: u16) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| self.own.contains(word));
        let words = self.own.split(|c: char| !c.is_alphanumeric());
        let numbers = words.filter(|it| it.len() > 2 && it.bytes().all(|it| it.is_ascii_digit()));
        matches!(status, 400 | 413 | 422 | 500)
            && LENGTHS.into_iter().all(has)
            && numbers.count() > 1
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
        let is_message = |word: &str| self.own.contains(word) && !self.is_asked(word);
        words.iter().any(|word| self.codes.contains(word) || is_message(word))
    }

    /// Returns true if the request holds a word in lower case.
    fn is_asked(&self, word: &str) -> bool {
        self.asked_lower.get_or_init(|| self.asked.to_lowercase()).contains(word)
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

/// Returns the start of a message without its quoted phrases and what stands behind a place in the
/// request. Names in quotes stay: those of models, parameters and codes.
fn unquoted(message: &str) -> String {
    let message = &message[..message.floor_char_boundary(OWN_BYTES_MAX)];
    let message = &message[..place_of_request(message).unwrap_or(message.len())];
    let ends = QUOTES.map(|(_, close)| ends_of_quotes(message, close));
    let blanks: Vec<usize> = message.match_indices(char::is_whitespace).map(|(at, _)| at).collect();
    let next = |places: &[usize], from: usize| {
        places.get(places.partition_point(|at| *at < from)).copied()
    };
    let mut own = String::with_capacity(message.len());
    let mut from = 0;
    while let Some(found) = message[from..].find(QUOTES.map(|(open, _)| open)) {
        let at = from + found;
        let kind = QUOTES.iter().position(|(open, _)| message[at..].starts_with(*open));
        let kind = kind.unwrap_or_default();
        let (open, close) = QUOTES[kind];
        let inner = at + open.len_utf8();
        let is_phrase = |end: &usize| next(&blanks, inner).is_some_and(|blank| blank < *end);
        let is_apostrophe = message[..at].ends_with(char::is_alphanumeric);
        let phrase_end = next(&ends[kind], inner).filter(|end| !is_apostrophe && is_phrase(end));
        own.push_str(&message[from..inner]);
        from = inner;
        if let Some(end) = phrase_end {
            own.push(close);
            from = end + close.len_utf8();
        }
    }
    own + &message[from..]
}

/// Returns the first place of [`QUOTING`] in a message.
fn place_of_request(message: &str) -> Option<usize> {
    // A sentence may end with the word.
    let is_place = |(at, sign): &(usize, &str)| {
        !sign.ends_with('.') || message[at + sign.len()..].starts_with(|c: char| c.is_ascii_digit())
    };
    let places = QUOTING.iter().filter_map(|sign| message.match_indices(sign).find(is_place));
    places.map(|(at, _)| at).min()
}

/// Returns the places of a sign that may end quotes.
fn ends_of_quotes(message: &str, close: char) -> Vec<usize> {
    let places = message.match_indices(close).map(|(at, _)| at);
    let is_end = |at: &usize| {
        !message[..*at].ends_with('\\')
            && !message[at + close.len_utf8()..].starts_with(char::is_alphanumeric)
    };
    places.filter(is_end).collect()
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
