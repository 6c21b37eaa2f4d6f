//! Rendering of a suggestion as YAML, each fact below its evidence.

use std::fmt::{self, Display, Write as _};

use super::places::{SeenPlace, ValuePlace, ValueShape};
use super::samples::ValueForm;

/// Returns a text as a YAML scalar that reads as that text in any context.
pub(super) fn quoted(text: &str) -> String {
    let plain = |char: char| char.is_ascii_alphanumeric() || "._/-".contains(char);
    let is_plain = text.starts_with(|char: char| char.is_ascii_alphabetic())
        && text.chars().all(plain)
        && text.contains(['.', '_', '/']);
    match text {
        text if is_plain => text.to_owned(),
        text if text.contains('"') => format!("'{text}'"),
        text => format!("\"{text}\""),
    }
}

/// Suggested source of a fact.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SuggestedSource {
    /// YAML of the source.
    yaml: String,
    /// Evidence: the number of spans, and examples of the values.
    evidence: String,
}

impl SuggestedSource {
    /// Returns the source for a place, with the decoder of its values and further fields.
    pub(super) fn new(seen: &SeenPlace, total: usize, decode: &str, more: &str) -> Self {
        let mut fields = Vec::new();
        let mut decode = decode.to_owned();
        match &seen.place {
            ValuePlace::Attribute(key) => fields.push(format!("key: {}", quoted(key))),
            ValuePlace::Prefix(key) => {
                fields.push("from: attrs_prefix".into());
                fields.push(format!("key: {}", quoted(key)));
                decode.clear();
            }
            ValuePlace::Event(event, key) => {
                fields.push("from: span_event".into());
                fields.push(format!("event: {}", quoted(event)));
                fields.push(format!("key: {}", quoted(key)));
            }
            ValuePlace::Entry(key, entry) => {
                fields.push(format!("key: {}", quoted(key)));
                let then = if decode.is_empty() {
                    String::new()
                } else {
                    format!("→{}", decode.rsplit(" | ").next().unwrap_or_default())
                };
                decode = format!("json:$.{entry}{then}");
            }
            ValuePlace::SpanName => fields.push("from: span_name".into()),
        }
        if !decode.is_empty() {
            fields.push(format!("decode: \"{decode}\""));
        }
        if !more.is_empty() {
            fields.push(more.to_owned());
        }
        let yaml = match (&fields[..], &seen.place) {
            ([_], ValuePlace::Attribute(key)) => quoted(key),
            _ => format!("{{{}}}", fields.join(", ")),
        };
        let evidence = format!("on {} of {total}: {}", seen.count, seen.examples());
        Self { yaml, evidence }
    }

    /// Returns the source for calls in log events with a name.
    pub(super) fn of_event(event: &str, count: usize, parts: &[&SeenPlace]) -> Self {
        let key = |seen: &&SeenPlace| match &seen.place {
            ValuePlace::Attribute(key) => Some(quoted(key)),
            _ => None,
        };
        let keys: Vec<String> = parts.iter().filter_map(key).collect();
        let yaml = format!(
            "{{from: attrs_object, event: {}, keys: [{}], decode: \"told_call\"}}",
            quoted(event),
            keys.join(", ")
        );
        let examples: Vec<String> = parts.iter().map(|seen| seen.examples()).collect();
        let evidence = format!("{count} log events: {}", examples.join("; "));
        Self { yaml, evidence }
    }
}

/// Returns the decoder for arguments at a place.
pub(super) fn arguments_decoder(seen: &SeenPlace) -> String {
    let is_object = seen.share(ValueShape::Object) >= 0.99;
    let read = if is_object { "json_or_pyliteral" } else { "json_or_py_or_text" };
    inside(seen, "unwrap", &format!("{read}→unwrap"))
}

/// Returns the decoder for results at a place.
pub(super) fn result_decoder(seen: &SeenPlace) -> String {
    let is_python = seen.has_form(ValueForm::Python);
    let read = if is_python { "json_or_py_or_text" } else { "tool_message" };
    inside(seen, read, read)
}

/// Returns a decoder that first looks into the values' envelope, if any.
fn inside(seen: &SeenPlace, inner: &str, outer: &str) -> String {
    match seen.envelope() {
        Some(entry) => format!("json:$.{entry}→{inner} | {outer}"),
        None => outer.to_owned(),
    }
}

/// Standard error sources, written out because a suggested one would replace them.
const STANDARD_ERRORS: [&str; 3] = [
    "{from: span_event, event: exception, key: exception.message}",
    "{from: status}",
    "{key: error.type, flag: true}",
];

/// Suggested dialect for spans unknown to all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DialectSuggestion {
    pub(super) name: String,
    /// Number of spans detected as tool calls.
    pub(super) span_count: usize,
    /// Span names for people.
    pub(super) span_names: String,
    pub(super) detect: Option<String>,
    pub(super) agent_span: Option<String>,
    pub(super) model_span: Option<String>,
    /// Parts of a call by the dialect's keys.
    pub(super) call: Vec<(&'static str, SuggestedSource)>,
    /// Other facts.
    pub(super) facts: Vec<(&'static str, SuggestedSource)>,
    /// Messages of models.
    pub(super) messages: Vec<(&'static str, SuggestedSource)>,
}

impl DialectSuggestion {
    /// Returns true if it reads a part of tool calls (`name`, `arguments`, `result`, `id`,
    /// `error`).
    pub fn reads(&self, part: &str) -> bool {
        self.call.iter().any(|(known, _)| *known == part)
    }
}

/// Formats an entry of the list `dialects:`.
impl Display for DialectSuggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  - name: {}", quoted(&self.name))?;
        writeln!(f, "    title: \"suggested by what its spans hold\"")?;
        if let Some(detect) = &self.detect {
            let count = self.span_count;
            let names = &self.span_names;
            writeln!(f, "    # {count} spans: {names}")?;
            writeln!(f, "    detect: {detect}")?;
        }
        if !self.call.is_empty() {
            writeln!(f, "    tool_call:")?;
            list(f, 6, &self.call)?;
        }
        for (key, condition) in [("agent_span", &self.agent_span), ("model_span", &self.model_span)]
        {
            if let Some(condition) = condition {
                writeln!(f, "    {key}: {condition}")?;
            }
        }
        list(f, 4, &self.facts)?;
        if !self.messages.is_empty() {
            writeln!(f, "    messages:")?;
            list(f, 6, &self.messages)?;
        }
        Ok(())
    }
}

fn list(
    f: &mut fmt::Formatter<'_>,
    indent: usize,
    sources: &[(&'static str, SuggestedSource)],
) -> fmt::Result {
    for (key, source) in sources {
        writeln!(f, "{:indent$}# {}", "", source.evidence)?;
        let mut all = source.yaml.clone();
        if *key == "error" {
            for standard in STANDARD_ERRORS {
                write!(all, ", {standard}")?;
            }
        }
        writeln!(f, "{:indent$}{key}: [{all}]", "")?;
    }
    Ok(())
}
