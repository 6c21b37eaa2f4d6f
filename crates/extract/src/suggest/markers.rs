//! Candidate conditions that distinguish spans of tool calls.

use std::collections::BTreeMap;

use super::places::{SeenPlace, ValuePlace, ValueShape};
use super::samples::{SampleSpan, is_writable};
use super::words::{ACTIONS, CALLING, KINDS, TOOLS, any_in, is_in, is_tool_kind, words};
use super::write::quoted;

/// Limit on the scored markers.
const MARKERS_MAX: usize = 64;

/// Candidate condition for the spans of tool calls.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum SpanMarker {
    /// Attribute with a value that means a tool call.
    Kind(String, String),
    /// Attribute of such spans only.
    Present(String),
    /// Prefix of the span's name.
    NamePrefix(String),
    /// Name of the span.
    Name(String),
}

impl SpanMarker {
    pub(super) fn holds(&self, span: &SampleSpan) -> bool {
        match self {
            Self::Kind(key, text) => span.raw(key) == Some(text),
            Self::Present(key) => span.attribute(key).is_some(),
            Self::NamePrefix(prefix) => span.name.starts_with(prefix.as_str()),
            Self::Name(name) => span.name == *name,
        }
    }

    /// Returns the dialect condition in YAML.
    pub(super) fn condition(&self) -> String {
        match self {
            Self::Kind(key, text) => format!("{{attr: {}, equals: {}}}", quoted(key), quoted(text)),
            Self::Present(key) => format!("{{attr_present: [{}]}}", quoted(key)),
            Self::NamePrefix(prefix) => format!("{{span_name_prefix: {}}}", quoted(prefix)),
            Self::Name(name) => format!("{{span_name: {}}}", quoted(name)),
        }
    }

    /// Returns its plausibility in points, without the evidence of its spans.
    pub(super) fn weight(&self) -> u32 {
        match self {
            Self::Kind(key, text) => {
                let words = words(key);
                // Parts of a call have a kind too, with a longer key: depth costs points.
                let depth = words.len().saturating_sub(4) as u32 * 3;
                let is_kind = u32::from(any_in(&words, KINDS));
                let weight = if is_tool_kind(text, TOOLS) { 80 + 20 * is_kind } else { 40 };
                weight - depth.min(weight)
            }
            Self::Present(key) if any_in(&words(key), &["tool", "toolcall"]) => 60,
            Self::Present(_) => 30,
            Self::NamePrefix(_) => 50,
            Self::Name(_) => 40,
        }
    }
}

/// Returns all markers of the given spans.
pub(super) fn markers(spans: &[&SampleSpan], places: &[SeenPlace]) -> Vec<SpanMarker> {
    let mut found: BTreeMap<SpanMarker, usize> = BTreeMap::new();
    let mut add = |marker: SpanMarker| {
        if found.len() < MARKERS_MAX || found.contains_key(&marker) {
            *found.entry(marker).or_default() += 1;
        }
    };
    for span in spans {
        for value in span.values.iter().filter(|value| value.event.is_empty()) {
            if let Some(text) = &value.raw
                && is_kind(&value.key, text)
            {
                add(SpanMarker::Kind(value.key.clone(), text.clone()));
            }
        }
        if let Some(prefix) = prefix_of(&span.name) {
            add(SpanMarker::NamePrefix(prefix.to_owned()));
        } else if is_tool_kind(&span.name, TOOLS) && is_writable(&span.name) {
            add(SpanMarker::Name(span.name.clone()));
        }
    }
    for seen in places {
        match &seen.place {
            ValuePlace::Attribute(key) if names_tool(seen) => {
                add(SpanMarker::Present(key.clone()));
            }
            ValuePlace::Entry(key, _) => add(SpanMarker::Present(key.clone())),
            _ => {}
        }
    }
    found.into_keys().collect()
}

/// Returns true if an attribute states that its span is a tool's.
fn is_kind(key: &str, text: &str) -> bool {
    // Some instrumentations write a text as JSON, in quotes.
    if !is_writable(text.trim_matches('"')) {
        return false;
    }
    let key = words(key);
    let other = &["finish", "reason", "reasons", "choice", "messages", "name"];
    let is_other = any_in(&key, other) && !any_in(&key, &["operation"]);
    if is_other || has_number(&key) {
        return false;
    }
    is_tool_kind(text, TOOLS) || (any_in(&key, KINDS) && is_tool_kind(text, ACTIONS))
}

pub(super) fn has_number(words: &[String]) -> bool {
    words.iter().any(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Words in keys for names of other things than tools.
const OTHER_NAMES: &[&str] =
    &["choice", "definition", "definitions", "available", "schema", "code", "cache", "callback"];

/// Returns true if a place has a tool's name, by its key.
pub(super) fn names_tool(seen: &SeenPlace) -> bool {
    let is_tool = |word: &String| is_in(word, TOOLS);
    let is_named = match &seen.words[..] {
        [.., noun, call, last] if last == "name" && is_in(call, CALLING) => is_tool(noun),
        [.., noun, last] if last == "name" => is_tool(noun),
        [.., last] if last == "function" => seen.words.len() <= 2,
        [.., last] => is_tool(last),
        [] => false,
    };
    is_named
        && !has_number(&seen.words)
        && !any_in(&seen.words, OTHER_NAMES)
        && seen.share(ValueShape::Word) >= 0.9
        && !seen.texts.iter().all(|text| is_tool_kind(text, TOOLS))
}

/// Returns the part before the tool in a span's name: `execute_tool `, `tool:`.
fn prefix_of(name: &str) -> Option<&str> {
    let separators = name.match_indices([' ', ':', '/', '.', '-', '>']);
    let mut ends = separators.map(|(at, text)| at + text.len());
    let end = ends.find(|end| is_tool_kind(&name[..*end], TOOLS))?;
    let end = end + name[end..].len() - name[end..].trim_start_matches([' ', ':']).len();
    (end < name.len() && is_writable(&name[..end])).then(|| &name[..end])
}
