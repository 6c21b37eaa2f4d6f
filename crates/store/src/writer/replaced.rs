//! Marks of redacted values beside the facts of a run, so that a later judgement never takes one
//! for the real value.

use spanscore_base::value::Value;

use crate::part::StoredPart;
use crate::record::RecordedContent;

/// Parts of a run and of each call, by field name.
const RUN_FIELDS: [(&str, StoredPart); 5] = [
    ("input", StoredPart::Input),
    ("output", StoredPart::Output),
    ("agent", StoredPart::Agents),
    ("span", StoredPart::SpanName),
    ("attributes", StoredPart::Attributes),
];
const CALL_FIELDS: [(&str, StoredPart); 5] = [
    ("arguments", StoredPart::Arguments),
    ("result", StoredPart::Results),
    ("error", StoredPart::Errors),
    ("id", StoredPart::CallIds),
    ("agent", StoredPart::Agents),
];

/// Joins the texts of a run, as shown, and its facts into one JSON object. The facts list the parts
/// and attributes with redacted values. Without `shown` nothing was redacted.
pub(super) fn with_facts(
    read: &Value<'_>,
    shown: Option<&Value<'_>>,
    content: &RecordedContent,
) -> String {
    let mut out = shown.map_or_else(|| content.texts.clone(), ToString::to_string);
    // Both objects are reopened by removing their closing braces.
    out.pop();
    out.push_str(r#","facts":"#);
    out.push_str(content.facts.trim_end_matches('}'));
    if let Some(shown) = shown.filter(|shown| *shown != read) {
        let parts = replaced(read, shown).into_iter().map(|part| Value::from(part.as_str()));
        let attributes = replaced_attributes(read, shown).into_iter().map(Value::from);
        let lists = [("replaced", parts.collect()), ("replaced_attributes", attributes.collect())];
        for (name, list) in lists {
            out.push_str(&format!(",\"{name}\":{}", Value::List(list)));
        }
    }
    out.push_str("}}");
    out
}

/// Returns the parts with a redacted value; attributes count if a key was redacted.
fn replaced(read: &Value<'_>, shown: &Value<'_>) -> Vec<StoredPart> {
    let differs = |read: &Value<'_>, shown: &Value<'_>, name: &str| match name {
        "attributes" => keys(read).ne(keys(shown)),
        _ => read.get(name) != shown.get(name),
    };
    let of_run = RUN_FIELDS.into_iter().filter(|(name, _)| differs(read, shown, name));
    let mut parts: Vec<StoredPart> = of_run.map(|(_, part)| part).collect();
    let before = read.get("calls").and_then(Value::as_list).unwrap_or_default();
    let after = shown.get("calls").and_then(Value::as_list).unwrap_or_default();
    for (name, part) in CALL_FIELDS {
        let mut pairs = before.iter().zip(after);
        if !parts.contains(&part) && pairs.any(|(read, shown)| differs(read, shown, name)) {
            parts.push(part);
        }
    }
    parts
}

fn keys<'v>(content: &'v Value<'_>) -> impl Iterator<Item = &'v str> {
    let map = content.get("attributes").and_then(Value::as_map);
    map.into_iter().flat_map(|map| map.iter().map(|(key, _)| key))
}

/// Returns the keys of attributes with a redacted value.
fn replaced_attributes<'v>(read: &'v Value<'_>, shown: &'v Value<'_>) -> Vec<&'v str> {
    let of = |it: &'v Value<'_>| it.get("attributes").and_then(Value::as_map);
    let (Some(read), Some(shown)) = (of(read), of(shown)) else { return Vec::new() };
    let pairs = read.iter().zip(shown.iter());
    pairs.filter(|((_, read), (_, shown))| read != shown).map(|(_, (key, _))| key).collect()
}
