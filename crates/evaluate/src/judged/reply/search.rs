//! JSON values of a reply that may be its answer, whatever models write around them.
//!
//! Blocks of thoughts and fences before the last one hold no answer. Where braces open no JSON
//! value they are prose, and the search goes on behind them. A record may hold the text of an
//! answer, which a judge cites: what could be either is unreadable.

use super::lenient::strict;
use super::unreadable;
use super::wrapping::{is_thoughts, unwrapped};
use crate::inquiry::UnreadableReply;
use spanscore_base::value::{Value, json, python};

/// Longest reply that is read, bytes.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Brackets of a reply that are tried as the start of a value: each may be read to the end.
const STARTS_MAX: usize = 128;
/// Keys that tell an answer, in quotes of any kind, from an object in prose.
const ANSWER_KEYS: [&str; 3] = ["items", "verdict", "score"];
/// Openings and ends of the blocks in which models think aloud.
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
/// Attributes of an opening tag at most, bytes.
const ATTRIBUTES_BYTES_MAX: usize = 128;
/// Quotes of printed texts.
const TYPOGRAPHIC: [char; 3] = ['\u{201c}', '\u{201d}', '\u{201e}'];

/// Returns the one value of a reply that has the asked form.
///
/// # Errors
/// There is none, two of them differ, or there is also an object that could be the judge's own
/// answer in a broken or another form: then the readable one may be a text of the record.
pub(super) fn answer(
    reply: &str,
    is_form: impl Fn(&Value<'_>) -> bool,
) -> Result<Value<'static>, UnreadableReply> {
    if reply.len() > REPLY_BYTES_MAX {
        return Err(unreadable(format!("the reply is longer than {REPLY_BYTES_MAX} bytes")));
    }
    // Some servers encode the text once more, some models its quotes alone.
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

/// Returns true if thoughts that nothing opens hold another answer, or what may be a broken one:
/// the tag that ends them may be a text of the record, which the judge cites behind its own answer.
fn thinks_otherwise(
    thoughts: &str,
    answer: &Value<'_>,
    is_form: &impl Fn(&Value<'_>) -> bool,
) -> bool {
    let mut search = ReplySearch { text: thoughts, ..ReplySearch::default() };
    // A fault in thoughts is none of the reply; what was found before it counts.
    let _ = search.run(is_form);
    !search.rivals.is_empty() || search.found.iter().any(|(_, value)| value != answer)
}

/// Search for values from the start of a reply to its end.
#[derive(Default)]
struct ReplySearch<'t> {
    text: &'t str,
    /// True if the text is all of the reply.
    is_all: bool,
    at: usize,
    starts: usize,
    /// Fences so far; `true` within one.
    fences: usize,
    in_fence: bool,
    /// Values of the asked form, with the number of the fence that they stand in.
    found: Vec<(Option<usize>, Value<'static>)>,
    /// First object of another form, for the words of an error.
    other: Option<Result<Value<'static>, UnreadableReply>>,
    /// Fences of objects, broken or of another form, that could be the judge's own answer.
    rivals: Vec<Option<usize>>,
    /// Fault of the first bracket that opens no value.
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

    /// Tries a value at the start of `rest`; returns the bytes to go on behind.
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

    /// Returns the number of the fence that the search is in.
    fn fence(&self) -> Option<usize> {
        self.in_fence.then_some(self.fences)
    }

    /// Notes an object or a list that is no answer, if it has a key of one.
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

    /// Goes on behind a bracket that opens no value: within it, if that is prose, and behind all of
    /// a broken object, since part of an answer is none.
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

/// Returns true for an object as JSON and Python write it: `{id: 4}` and `{}` are prose.
fn has_quoted_key(text: &str) -> bool {
    text.strip_prefix('{').is_some_and(|inner| inner.trim_start().starts_with(is_quote))
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'') || TYPOGRAPHIC.contains(&c)
}

/// Reads the value at the start of a text, as JSON or as JSON or Python written loosely; returns it
/// with its length.
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

/// Writes quotes as JSON has them where a text has printed ones alone, spaces as JSON has them, and
/// no numbers as nothing.
fn in_plain_signs(text: &str) -> String {
    let plain = if text.contains('"') { text.to_owned() } else { text.replace(TYPOGRAPHIC, "\"") };
    plain.replace('\u{a0}', " ").replace(": NaN", ": null").replace(":NaN", ":null")
}

/// Returns the bytes up to the bracket that closes the first one, past texts in double quotes.
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

/// Returns the end of the thoughts that begin with a text; their tag may have attributes.
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

/// Returns the bytes up to the end of thoughts that begin with a text.
fn closed(text: &str, end: &str) -> Option<usize> {
    let first = end.chars().next()?;
    let mut places = text.match_indices(first).map(|(at, _)| at);
    places.find(|at| begins(&text[*at..], end)).map(|at| at + end.len())
}

fn begins(text: &str, tag: &str) -> bool {
    text.get(..tag.len()).is_some_and(|own| own.eq_ignore_ascii_case(tag))
}

/// Returns the end of thoughts whose opening tag a server has left out; 0 if there are none.
fn thoughts_end(reply: &str) -> usize {
    // Channels end as all messages do.
    let tags = THOUGHTS.into_iter().filter(|(_, end)| !end.starts_with("<|"));
    let ends = tags.filter_map(|(_, tag)| {
        let end = closed(reply, tag)?;
        let before = &reply[..end];
        // Within an answer, the tag is text of the judge.
        let mut starts = before.match_indices(['<', '[', '\u{25c1}']);
        let is_opened = starts.any(|(at, _)| opened(&before[at..]).is_some());
        (!is_opened && !is_within_value(reply, end)).then_some(end)
    });
    ends.max().unwrap_or(0)
}

/// Returns true if a place lies within a JSON object that begins before it.
fn is_within_value(text: &str, place: usize) -> bool {
    let starts = text[..place].match_indices('{').take(STARTS_MAX);
    let mut ends = starts.filter_map(|(at, _)| Some(at + json::parse_prefix(&text[at..]).ok()?.1));
    ends.any(|end| end >= place)
}
