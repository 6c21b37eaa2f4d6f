//! Search for the answer's JSON value in a reply with other text.
//!
//! Thinking blocks and fences before the last one hold no answer. Braces without a JSON value are
//! prose, after which the search continues. A record may contain the text of an answer, which a
//! judge may quote, so an ambiguous reply is unreadable.

use super::lenient::strict;
use super::unreadable;
use super::wrapping::{is_thoughts, unwrapped};
use crate::inquiry::UnreadableReply;
use spanscore_base::value::{Value, json, python};

/// Longest parsed reply, bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Limit on the brackets tried as the start of a value, each of which may be read to the end.
const STARTS_MAX: usize = 128;
/// Keys that distinguish an answer, in any quotes, from an object in prose.
const ANSWER_KEYS: [&str; 3] = ["items", "verdict", "score"];
/// Opening and closing tags of thinking blocks.
const THOUGHTS: [(&str, &str); 12] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("\u{25c1}think\u{25b7}", "\u{25c1}/think\u{25b7}"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
];
/// Limit on the attributes of an opening tag, bytes.
const ATTRIBUTES_BYTES_MAX: usize = 128;
/// Typographic quotes.
const TYPOGRAPHIC: [char; 3] = ['\u{201c}', '\u{201d}', '\u{201e}'];

/// Returns the one value of a reply with the requested form.
///
/// # Errors
/// Returns an error if there is no value or two differ, or if another object could be the judge's
/// answer in broken or other form: the readable one may then be quoted from the record.
pub(super) fn answer(
    reply: &str,
    is_form: impl Fn(&Value<'_>) -> bool,
) -> Result<Value<'static>, UnreadableReply> {
    if reply.len() > REPLY_BYTES_MAX {
        return Err(unreadable(format!("the reply is longer than {REPLY_BYTES_MAX} bytes")));
    }
    // Some servers encode the text again, some models only its quotes.
    let encoded = reply.trim().strip_prefix('\u{feff}').unwrap_or(reply.trim());
    let is_escaped = ["{\\\"", "[{\\\""].iter().any(|start| encoded.starts_with(start));
    let quoted = is_escaped.then(|| format!("\"{encoded}\""));
    let encoded = quoted.as_deref().unwrap_or(encoded);
    let inner = encoded.starts_with('"').then(|| json::parse(encoded).ok()).flatten();
    let reply = inner.as_ref().and_then(Value::as_str).unwrap_or(reply);
    let (thoughts, rest) = reply.split_at(thoughts_end(reply));
    let is_all = thoughts.is_empty();
    let mut search = ReplySearch { text: rest, is_all, ..ReplySearch::default() };
    search.run(&is_form)?;
    let ReplySearch { found, rivals, fences, other, fault, .. } = search;
    let counts = |fence: &Option<usize>| fence.is_none_or(|at| at == fences);
    let mut answers = found.into_iter().filter(|(fence, _)| counts(fence));
    let first = answers.next().map(|(_, value)| value);
    match first {
        Some(first) if answers.any(|(_, value)| value != first) => {
            Err(unreadable("the reply holds two answers that differ"))
        }
        Some(_) if rivals.iter().any(counts) => {
            Err(unreadable("the reply holds another object beside its answer"))
        }
        Some(first) if thinks_otherwise(thoughts, &first, &is_form) => {
            Err(unreadable("the reply holds two answers that differ"))
        }
        Some(first) => Ok(first),
        None => other
            .or_else(|| fault.map(|error| Err(unreadable(error))))
            .unwrap_or_else(|| Err(unreadable("the reply holds no JSON object"))),
    }
}

/// Returns true if an unopened thinking block has another answer, or a possibly broken one: its
/// closing tag may be a text of the record, quoted by the judge after its answer.
fn thinks_otherwise(
    thoughts: &str,
    answer: &Value<'_>,
    is_form: &impl Fn(&Value<'_>) -> bool,
) -> bool {
    let mut search = ReplySearch { text: thoughts, ..ReplySearch::default() };
    // An error in the block is none of the reply; values found before it count.
    let _ = search.run(is_form);
    !search.rivals.is_empty() || search.found.iter().any(|(_, value)| value != answer)
}

/// Search for values from the start of a reply to its end.
#[derive(Default)]
struct ReplySearch<'t> {
    text: &'t str,
    /// True if the text is the whole reply.
    is_all: bool,
    at: usize,
    starts: usize,
    /// Number of fences so far; true inside one.
    fences: usize,
    in_fence: bool,
    /// Values of the requested form, with the number of their fence.
    found: Vec<(Option<usize>, Value<'static>)>,
    /// First object of another form, for the error message.
    other: Option<Result<Value<'static>, UnreadableReply>>,
    /// Fences of broken or other objects that could be the judge's own answer.
    rivals: Vec<Option<usize>>,
    /// Error of the first bracket without a value.
    fault: Option<String>,
}

impl ReplySearch<'_> {
    fn run(&mut self, is_form: &impl Fn(&Value<'_>) -> bool) -> Result<(), UnreadableReply> {
        while let Some(found) = self.text[self.at..].find(['{', '[', '<', '`', '\u{25c1}']) {
            self.at += found;
            let rest = &self.text[self.at..];
            if rest.starts_with("```") {
                self.in_fence = !self.in_fence;
                self.fences += usize::from(self.in_fence);
                self.at += 3;
            } else if let Some(end) = opened(rest) {
                self.at += closed(rest, end)
                    .ok_or_else(|| unreadable("the reply ends while the model thinks"))?;
            } else if rest.starts_with(['{', '[']) {
                self.at += self.value(rest, is_form)?;
            } else {
                self.at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        Ok(())
    }

    /// Tries a value at the start of `rest`; returns the bytes to skip.
    fn value(
        &mut self,
        rest: &str,
        is_form: &impl Fn(&Value<'_>) -> bool,
    ) -> Result<usize, UnreadableReply> {
        self.starts += 1;
        if self.starts > STARTS_MAX {
            let words = format!("the reply opens more than {STARTS_MAX} brackets around an answer");
            return Err(unreadable(words));
        }
        let (value, taken) = match read(rest) {
            Ok(read) => read,
            Err(error) => return self.unread(rest, &error),
        };
        let is_whole = self.is_all && self.text.trim() == rest[..taken].trim();
        if let Some(answer) = unwrapped(&value, is_whole, is_form) {
            self.found.push((self.fence(), answer));
            return Ok(taken);
        }
        // Behind an answer, thoughts may be another one.
        if !is_thoughts(&value) || !self.found.is_empty() {
            self.note_rival(&rest[..taken]);
        }
        if self.other.is_none() {
            self.other = if is_form(&value) {
                Some(Err(unreadable("the answer has a key twice, in two spellings")))
            } else {
                value.as_map().is_some().then_some(Ok(value))
            };
        }
        Ok(taken)
    }

    /// Returns the number of the current fence.
    fn fence(&self) -> Option<usize> {
        self.in_fence.then_some(self.fences)
    }

    /// Records an object or a list that is no answer, if it has an answer's key.
    fn note_rival(&mut self, text: &str) {
        let text = text.to_lowercase();
        let is_quoted = |key: &&str| {
            let mut places = text.match_indices(*key);
            places.any(|(at, _)| {
                text[..at].ends_with(is_quote) && text[at + key.len()..].starts_with(is_quote)
            })
        };
        if ANSWER_KEYS.iter().any(is_quoted) {
            self.rivals.push(self.fence());
        }
    }

    /// Continues after a bracket without a value: inside it for prose, and after the whole of a
    /// broken object, since a part of an answer is none.
    fn unread(&mut self, rest: &str, error: &json::JsonError) -> Result<usize, UnreadableReply> {
        if !rest.starts_with('{') {
            return Ok(1);
        }
        let words = format!("the reply is not JSON: {error}");
        if !has_quoted_key(rest) {
            self.fault.get_or_insert(words);
            return Ok(1);
        }
        let end = balanced(rest);
        self.note_rival(&rest[..end.unwrap_or(rest.len())]);
        match end {
            Some(end) => {
                self.fault.get_or_insert(words);
                Ok(end)
            }
            None => Err(unreadable(words)),
        }
    }
}

/// Returns true for an object in JSON's or Python's syntax: `{id: 4}` and `{}` are prose.
fn has_quoted_key(text: &str) -> bool {
    text.strip_prefix('{').is_some_and(|inner| inner.trim_start().starts_with(is_quote))
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'') || TYPOGRAPHIC.contains(&c)
}

/// Parses the value at the start of a text, as strict or lenient JSON or Python; returns it with
/// its length.
fn read(text: &str) -> Result<(Value<'static>, usize), json::JsonError> {
    let error = match json::parse_prefix(text) {
        Ok((value, end)) => return Ok((value.into_owned(), end)),
        Err(error) => error,
    };
    let Some(end) = balanced(text) else { return Err(error) };
    let own = &text[..end];
    let loose = |text: &str| json::parse(&strict(text)?).ok().map(Value::into_owned);
    let value = loose(own)
        .or_else(|| python::parse_literal(own).map(Value::into_owned))
        .or_else(|| loose(&in_plain_signs(own)));
    value.map(|value| (value, end)).ok_or(error)
}

/// Normalizes a text for JSON: typographic quotes if it has no others, no-break spaces, and `NaN`,
/// which becomes `null`.
fn in_plain_signs(text: &str) -> String {
    let plain = if text.contains('"') { text.to_owned() } else { text.replace(TYPOGRAPHIC, "\"") };
    plain.replace('\u{a0}', " ").replace(": NaN", ": null").replace(":NaN", ":null")
}

/// Returns the length up to the matching bracket of the first one, skipping double-quoted texts.
fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the end tag of a thinking block at the start of a text; its tag may have attributes.
fn opened(text: &str) -> Option<&'static str> {
    let is_open = |tag: &str| {
        let name = tag.strip_suffix('>').filter(|name| !name.starts_with("<|"));
        let is_attribute = |name: &str| {
            let rest = &text[name.len()..];
            let near = &rest[..rest.floor_char_boundary(ATTRIBUTES_BYTES_MAX)];
            let inner = near.split_once('>').map_or("", |(inner, _)| inner);
            // A tag that closes itself opens nothing.
            inner.starts_with(|it: char| it.is_ascii_whitespace())
                && inner.contains('=')
                && !inner.contains('<')
                && !inner.ends_with('/')
        };
        begins(text, tag) || name.is_some_and(|name| begins(text, name) && is_attribute(name))
    };
    THOUGHTS.into_iter().find(|(tag, _)| is_open(tag)).map(|(_, end)| end)
}

/// Returns the length of a thinking block at the start of a text.
fn closed(text: &str, end: &str) -> Option<usize> {
    let first = end.chars().next()?;
    let mut places = text.match_indices(first).map(|(at, _)| at);
    places.find(|at| begins(&text[*at..], end)).map(|at| at + end.len())
}

fn begins(text: &str, tag: &str) -> bool {
    text.get(..tag.len()).is_some_and(|own| own.eq_ignore_ascii_case(tag))
}

/// Returns the end of a thinking block without an opening tag, which some servers omit; 0 if there
/// is none.
fn thoughts_end(reply: &str) -> usize {
    // Channels end like all messages.
    let tags = THOUGHTS.into_iter().filter(|(_, end)| !end.starts_with("<|"));
    let ends = tags.filter_map(|(_, tag)| {
        let end = closed(reply, tag)?;
        let before = &reply[..end];
        // Within an answer, the tag is the judge's text.
        let mut starts = before.match_indices(['<', '[', '\u{25c1}']);
        let is_opened = starts.any(|(at, _)| opened(&before[at..]).is_some());
        (!is_opened && !is_within_value(reply, end)).then_some(end)
    });
    ends.max().unwrap_or(0)
}

/// Returns true if a position is inside a JSON object that starts before it.
fn is_within_value(text: &str, place: usize) -> bool {
    let starts = text[..place].match_indices('{').take(STARTS_MAX);
    let mut ends = starts.filter_map(|(at, _)| Some(at + json::parse_prefix(&text[at..]).ok()?.1));
    ends.any(|end| end >= place)
}
