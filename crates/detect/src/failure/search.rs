//! Recursive search of a result for a report of failure: in texts, object fields, and envelopes.
//!
//! A result is JSON in a text, a record in YAML, the content of a message, a content block, the
//! Python form of any of these, or the output of a shell. Each envelope is opened once, to a depth
//! of [`ENVELOPE_DEPTH_MAX`]. Expressions see the first [`HEAD_BYTES_MAX`] and the last
//! [`TAIL_BYTES_MAX`] bytes of a text.

use super::fields::{ResultFields, folded};
use super::opened::FoldedText;
use super::{FailureDetectors, FailureFinding, record};
use crate::limits::{
    ENTRIES_MAX, ENVELOPE_DEPTH_MAX, FIELD_BYTES_MAX, HEAD_BYTES_MAX, LAST_LINES, TAIL_BYTES_MAX,
};
use spanscore_base::model::WorkBudget;
use spanscore_base::value::json;
use spanscore_base::value::python;
use spanscore_base::value::{Map, Value};

/// Bytes of a result whose fields are parsed in one step.
const BYTES_PER_STEP: usize = 2;
/// Steps of testing one field detector on an object.
const STEPS_PER_DETECTOR: usize = 16;
/// Limit on fields of an object that is only an envelope of a message.
const MESSAGE_FIELDS_MAX: usize = 4;
/// Fields that may be the whole result, if they are the only field.
const ALONE: [&str; 3] = ["message", "msg", "detail"];
/// Fields that identify a record.
const RECORD_NAMES: [&str; 4] = ["id", "sid", "uuid", "sku"];

/// One search with its step budget.
pub(super) struct FailureSearch<'d, 'e> {
    pub(super) detectors: &'d FailureDetectors,
    pub(super) effort: &'e WorkBudget,
}

impl<'d> FailureSearch<'d, '_> {
    pub(super) fn value(&self, value: &Value<'_>, depth: usize) -> Option<FailureFinding<'d>> {
        match value {
            Value::String(text) => self.text(text, depth),
            Value::Map(map) => {
                self.effort.spend(map.len());
                self.object(&ResultFields::of_map(map, &self.detectors.wanted), depth)
            }
            Value::List(list) => self.list(list, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    pub(super) fn text<'t>(&self, text: &'t str, depth: usize) -> Option<FailureFinding<'d>> {
        let text = text.trim();
        if depth > ENVELOPE_DEPTH_MAX || !self.effort.spend(1 + text.len() / BYTES_PER_STEP) {
            return None;
        }
        let small = text.len() <= FIELD_BYTES_MAX;
        let FailureDetectors { starts, ends, lasts, closing, wanted, messages, literals, .. } =
            self.detectors;
        match text.as_bytes().first()? {
            b'{' if let Some(fields) = ResultFields::of_text(text, wanted) => {
                let found = self.object(&fields, depth);
                // A shell appends its exit code after the object.
                return found.or_else(|| {
                    closing.0.judge(&FoldedText::of(tail(text)), &closing.1, self.effort)
                });
            }
            b'[' | b'"' if small && let Ok(value) = json::parse(text) => {
                return self.value(&value, depth + 1);
            }
            b'{' | b'[' | b'\'' if small => {
                if let Some(value) = python::parse_literal(text) {
                    return self.value(&value, depth + 1);
                }
            }
            b'a'..=b'z' | b'_' | b'-' if small && let Some(record) = record::parse(text) => {
                return self.value(&record, depth + 1);
            }
            _ => {}
        }
        // Parts that cover the whole text are read once.
        let whole = FoldedText::of(text);
        let part = |part: &'t str| (part.len() < text.len()).then(|| FoldedText::of(part));
        let parts = [head(text), tail(text), last_lines(tail(text))].map(part);
        let [head, tail, lines] = parts.each_ref().map(|part| part.as_ref().unwrap_or(&whole));
        let said = starts.judge(head, literals, self.effort);
        let said = said.or_else(|| ends.judge(tail, literals, self.effort));
        let said = said.or_else(|| lasts.judge(lines, literals, self.effort));
        said.or_else(|| {
            let found = messages.as_ref()?.judge(text, &whole, self)?;
            starts.ordinary(head, self.effort).is_none().then_some(found)
        })
    }

    fn object(&self, fields: &ResultFields<'_>, depth: usize) -> Option<FailureFinding<'d>> {
        let FailureDetectors { fields: detectors, inside, .. } = self.detectors;
        if !self.effort.spend(STEPS_PER_DETECTOR * detectors.len()) {
            return None;
        }
        if let Some(hit) = detectors.iter().find(|detector| detector.hits(fields, self.effort)) {
            return Some(FailureFinding {
                says: hit.says,
                kind: &hit.kind,
                category: &hit.category,
            });
        }
        if depth >= ENVELOPE_DEPTH_MAX {
            return None;
        }
        let alone = ALONE.iter().filter(|_| fields.count() == 1);
        let inside = inside.iter().map(String::as_str).chain(alone.copied());
        let inner = inside.filter_map(|name| fields.get(name));
        let mut said = inner.filter_map(|value| self.value(value, depth + 1));
        // Among many other fields it is ordinary content.
        let is_bare = fields.count() <= MESSAGE_FIELDS_MAX;
        said.find(|found| is_bare || !found.is_message())
    }

    /// Judges a list by its only entry; content blocks by the first report; other entries only if
    /// all report.
    fn list(&self, list: &[Value<'_>], depth: usize) -> Option<FailureFinding<'d>> {
        if depth > ENVELOPE_DEPTH_MAX {
            return None;
        }
        let is_block = |value: &Value<'_>| {
            value.as_map().is_some_and(|map: &Map<'_>| {
                map.get("type").is_some_and(|kind| kind.as_str().is_some())
                    && map.get("text").is_some()
            })
        };
        // An error in a common client format: number and message.
        if let [Value::Number(_), message @ Value::String(_)] = list {
            return self.value(message, depth + 1);
        }
        // A single word in a list is a value, not the tool's report; an entry with an `id`
        // describes a record.
        let is_data = |value: &Value<'_>| match value {
            Value::String(text) => !text.trim().contains(char::is_whitespace),
            Value::Map(map) => map.get("type").is_none() && is_record(map),
            _ => false,
        };
        let said = list
            .iter()
            .take(ENTRIES_MAX)
            .map(|value| if is_data(value) { None } else { self.value(value, depth + 1) });
        if list.iter().all(is_block) {
            return said.flatten().next();
        }
        // A sentence in a list of several is no report of the tool itself.
        let mut said = said.map(|said| said.filter(|found| list.len() == 1 || !found.is_message()));
        let first = said.next()??;
        (list.len() <= ENTRIES_MAX && said.all(|other| other.is_some())).then_some(first)
    }
}

/// Longest announcement of a result, bytes, as in `Tool result:`.
const LEAD_BYTES_MAX: usize = 32;

/// Returns the start of a text, after any signs and announcements.
fn head(text: &str) -> &str {
    let mut text = text;
    for _ in 0..3 {
        text = without_signs(text);
        let Some(rest) = without_lead(text) else { break };
        text = rest;
    }
    let end = text.floor_char_boundary(HEAD_BYTES_MAX);
    &text[..end]
}

/// Returns a text from the first letter or digit, if that is among its first 24 characters: without
/// quotes, brackets, emoji and the like.
fn without_signs(text: &str) -> &str {
    let mut signs = text.char_indices().take(24);
    match signs.find(|(_, c)| c.is_alphanumeric()) {
        Some((at, _)) => &text[at..],
        None => text,
    }
}

/// Returns the text after `Tool result:`, `Observation:`, `content=`.
fn without_lead(text: &str) -> Option<&str> {
    let start = &text.as_bytes()[..text.len().min(LEAD_BYTES_MAX)];
    let at = start.iter().position(|byte| matches!(byte, b':' | b'='))?;
    let lead = text.get(..at)?.trim_end().to_ascii_lowercase();
    let word = lead.rsplit(|c: char| !c.is_ascii_alphabetic()).next()?;
    matches!(
        word,
        "result" | "results" | "output" | "response" | "observation" | "content" | "text"
    )
    .then(|| &text[at + 1..])
}

/// Returns true if an object has an identifier, as records of a collection do.
fn is_record(map: &Map<'_>) -> bool {
    map.iter().take(ENTRIES_MAX).any(|(key, _)| RECORD_NAMES.contains(&&*folded(key)))
}

/// Returns the last lines of a text.
fn last_lines(text: &str) -> &str {
    let lines = memchr::memrchr_iter(b'\n', text.as_bytes());
    lines.take(LAST_LINES).nth(LAST_LINES - 1).map_or(text, |at| &text[at + 1..])
}

/// Returns the end of a text.
fn tail(text: &str) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES_MAX));
    &text[start..]
}
